//! The lock log: waits, grants and releases, with times.
//!
//! Events have the target `lock` and the level debug, as those of lock files have. Without a
//! subscriber they cost one comparison, and no clock is read.

use std::pin::pin;
use std::time::{Duration, Instant};

use tenure_core::{Mode, Resource};
use tokio::time::timeout;
use tracing::{Level, debug, enabled};

const TARGET: &str = "lock";

/// A lock that is granted within this time does not count as waited for.
const WAITING_AFTER: Duration = Duration::from_millis(20);

fn is_wanted() -> bool {
    enabled!(target: TARGET, Level::DEBUG)
}

fn shown(time: Duration) -> String {
    format!("{time:.1?}")
}

/// A request for a lock.
pub(crate) struct Asking<'a> {
    resource: &'a Resource,
    mode: Mode,
    /// The time when the request was made, or `None` without a subscriber.
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

    /// Logs the wait, if the answer does not come soon.
    pub(crate) async fn until<T>(&self, answer: impl Future<Output = T>) -> T {
        if self.since.is_none() {
            return answer.await;
        }
        let mut answer = pin!(answer);
        match timeout(WAITING_AFTER, answer.as_mut()).await {
            Ok(answer) => answer,
            Err(_) => {
                let Self { resource, mode, .. } = self;
                debug!(target: TARGET, %mode, %resource, "waiting");
                answer.await
            }
        }
    }

    /// Logs that the wait ran out.
    pub(crate) fn gave_up(&self) {
        if let Some(since) = self.since {
            let Self { resource, mode, .. } = self;
            let waited = shown(since.elapsed());
            debug!(target: TARGET, %mode, %resource, waited, "gave up");
        }
    }

    /// Logs the grant.
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

/// A lock whose end is logged, if its grant was.
pub(crate) struct Logged {
    held: Option<(Box<Resource>, Instant)>,
    /// The end of the lock, as far as it is known.
    end: &'static str,
}

const RELEASED: &str = "released";

impl Logged {
    /// Logs no end: the lease goes on without this process.
    pub(crate) fn leave(&mut self) {
        self.held = None;
    }

    /// Notes whether the store confirmed the release.
    pub(crate) fn released(&mut self, done: bool) {
        self.end = if done {
            RELEASED
        } else {
            "given up, not known to be released"
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
