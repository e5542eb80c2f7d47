//! The thread that keeps a lock fresh.
//!
//! Starting it costs a few dozen microseconds, a small part of one sync to the disk, so every lock
//! has its own thread from the beginning. The thread ends as soon as the lock is released or lost.
//! No caller waits for that, since through its descriptor the thread can only touch our own
//! directory.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tenure_core::{Error, Result};
use tenure_os::platform;

use crate::node_lock::REFRESH_EVERY;
use crate::node_lock::hold::{Hold, Refresh};

/// The pause after a refresh that the file system refused.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Keeps the lock fresh from now on.
pub(super) fn start(hold: &Arc<Hold>) -> Result<()> {
    let kept = Arc::clone(hold);
    let started = thread::Builder::new()
        .name("tenure-node-lock".into())
        .spawn(move || keep_fresh(&kept));
    match started {
        Ok(_) => Ok(()),
        Err(source) => Err(Error::io(
            "start a thread that refreshes",
            hold.names().lock(),
            source,
        )),
    }
}

fn keep_fresh(hold: &Hold) {
    platform::block_signals();
    let mut pause = REFRESH_EVERY;
    while hold.wait_while_held(pause) {
        pause = match hold.refresh() {
            Refresh::Done => REFRESH_EVERY,
            Refresh::Failed => RETRY_AFTER,
            Refresh::Over => return,
        };
    }
}
