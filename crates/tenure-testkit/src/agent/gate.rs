//! Stops a thread as a signal stops a process: it does nothing at all until it is let go.

use std::sync::{Condvar, Mutex};

/// A gate that is closed until opened; each opening lets one waiter through.
#[derive(Default)]
pub(super) struct Gate {
    open: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    pub(super) fn wait(&self) {
        let open = self.open.lock().unwrap();
        let mut open = self.opened.wait_while(open, |open| !*open).unwrap();
        *open = false;
    }

    pub(super) fn open(&self) {
        *self.open.lock().unwrap() = true;
        self.opened.notify_all();
    }
}
