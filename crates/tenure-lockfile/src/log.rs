//! The lock log: which process waits for a lock file, gets it and gives it back, with times.
//!
//! Events have the target `lock` and the level debug. Without a listener they cost a look at one
//! number, and no clock is read.

use std::path::Path;
use std::time::Instant;

use tenure_core::Mode;
use tracing::{Level, debug, enabled};

const TARGET: &str = "lock";

fn is_wanted() -> bool {
    enabled!(target: TARGET, Level::DEBUG)
}

fn shown(since: Instant) -> String {
    format!("{:.1?}", since.elapsed())
}

/// Logs that a wait begins.
pub fn waiting(path: &Path, mode: Mode) {
    debug!(target: TARGET, %mode, path = %path.display(), "waiting");
}

/// Logs that a wait ended without the lock.
pub fn gave_up(path: &Path, mode: Mode, since: Instant) {
    if is_wanted() {
        debug!(target: TARGET, %mode, path = %path.display(), waited = shown(since), "gave up");
    }
}

/// A lock whose end is logged, if its beginning was.
pub struct Logged(Option<(Box<Path>, Mode, Instant)>);

impl Logged {
    /// Logs that a lock was granted, and how long after it was asked for.
    pub fn acquired(path: &Path, mode: Mode, asked: Option<Instant>) -> Self {
        if !is_wanted() {
            return Self(None);
        }
        let waited = asked.map(shown);
        debug!(target: TARGET, %mode, path = %path.display(), waited, "acquired");
        Self(Some((path.into(), mode, Instant::now())))
    }
}

impl Drop for Logged {
    fn drop(&mut self) {
        if let Some((path, mode, since)) = self.0.take() {
            debug!(target: TARGET, %mode, path = %path.display(), held = shown(since), "released");
        }
    }
}
