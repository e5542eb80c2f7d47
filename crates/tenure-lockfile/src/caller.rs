//! Who asks for the locks of files, and what ends its waits.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tenure_core::Asker;
use tenure_os::cancel::Cancel;

/// What differs from call to call of something on files that is opened once.
#[derive(Clone)]
#[must_use]
pub struct FileCaller {
    /// Who asks, as records and errors show it.
    pub asker: Asker,
    /// How long each wait may be.
    pub wait: Duration,
    /// True if a program asks, which may not do what is for people.
    pub is_automated: bool,
    /// Ends waits.
    pub cancel: Cancel,
    /// Called when the waiting for locks is over and the work begins.
    pub on_locked: Arc<dyn Fn() + Send + Sync>,
}

impl FileCaller {
    /// Returns a caller whose waits nothing ends early, and who is a person as far as is known.
    pub fn new(asker: Asker, wait: Duration) -> Self {
        Self {
            asker,
            wait,
            is_automated: false,
            cancel: Cancel::default(),
            on_locked: Arc::new(|| ()),
        }
    }
}

impl fmt::Debug for FileCaller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FileCaller({}, {:?})", self.asker.owner, self.wait)
    }
}
