//! The lock log: who waits for a lock, gets it and gives it back, with times.
//!
//! Events have the target `lock` and the level debug, as those of lock files have. Without someone
//! who listens they cost a look at one number, and no clock is read.

use std::time::{Duration, Instant};

use tenure_core::{Mode, Resource};
use tracing::{Level, debug, enabled};

const TARGET: &str = "lock";

fn is_wanted() -> bool {
    enabled!(target: TARGET, Level::DEBUG)
}

fn shown(time: Duration) -> String {
    format!("{time:.1?}")
}

/// A lock that is asked for.
pub(crate) struct Asking<'a> {
    resource: &'a Resource,
    mode: Mode,
    /// When it was asked for; None if nobody listens.
    since: Option<Instant>,
}

impl<'a> Asking<'a> {
    pub(crate) fn new(resource: &'a Resource, mode: Mode) -> Self {
        Self {
            resource,
            mode,
            since: is_wanted().then(Instant::now),
        }
    }

    /// It is not free. Told as often as the store is asked to wait for it.
    pub(crate) fn waiting(&self) {
        let Self { resource, mode, .. } = self;
        debug!(target: TARGET, %mode, %resource, "waiting");
    }

    /// It was waited for in vain.
    pub(crate) fn gave_up(&self) {
        if let Some(since) = self.since {
            let Self { resource, mode, .. } = self;
            let waited = shown(since.elapsed());
            debug!(target: TARGET, %mode, %resource, waited, "gave up");
        }
    }

    /// It was granted.
    pub(crate) fn acquired(&self) -> Logged {
        let held = self.since.map(|since| {
            let Self { resource, mode, .. } = self;
            let waited = shown(since.elapsed());
            debug!(target: TARGET, %mode, %resource, waited, "acquired");
            (Box::new((*resource).clone()), Instant::now())
        });
        Logged {
            held,
            end: RELEASED,
        }
    }
}

/// A lock whose end is told, if its beginning was.
pub(crate) struct Logged {
    held: Option<(Box<Resource>, Instant)>,
    /// How it ends, as far as is known.
    end: &'static str,
}

const RELEASED: &str = "released";

impl Logged {
    /// It goes on without us, so its end is not ours to tell.
    pub(crate) fn leave(&mut self) {
        self.held = None;
    }

    /// Whether the store has said that it is free.
    pub(crate) fn released(&mut self, done: bool) {
        self.end = match done {
            true => RELEASED,
            false => "given up, not known to be released",
        };
    }
}

impl Drop for Logged {
    fn drop(&mut self) {
        if let Some((resource, since)) = self.held.take() {
            let held = shown(since.elapsed());
            debug!(target: TARGET, %resource, held, "{}", self.end);
        }
    }
}
