//! A hold that a thread renews until it is dropped.
//!
//! | what happened | SIGTERM | SIGKILL |
//! |---|---|---|
//! | it could not be renewed for two thirds of its time | at once | at five sixths |
//! | it is gone | at once | 5 s later |
//! | it is not needed any more | never | never |
//!
//! Its time runs from the moment at which the last good renewal was asked for, on the clock that
//! counts sleep, too.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tenure_core::LockContext;
use tenure_core::internal::lock;
use tenure_os::clock;
use tokio::time::sleep;

use crate::held::{Distrusted, GRACE, RunsOut};

/// The interval of looks at the result of renewals.
const LOOK: Duration = Duration::from_millis(50);
/// The shortest pause between two tries to renew.
const PAUSE_MIN: Duration = Duration::from_millis(100);

/// The result of a try to renew.
#[derive(Debug, Clone)]
pub enum Renewed {
    /// The hold is good for its whole time again.
    Held,
    /// The hold is not needed any more.
    Over,
    /// The hold is gone, or another holder has it, for this reason.
    Gone(String),
    /// The renewal failed this time, for this reason.
    Failed(String),
}

/// A hold that a thread renews until this is dropped.
#[derive(Debug)]
pub struct Renewal {
    last: Arc<Mutex<Last>>,
    ttl: Duration,
    context: Box<LockContext>,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// The last findings of the thread.
#[derive(Debug)]
struct Last {
    /// The time when the last good renewal was asked for, in milliseconds since boot.
    good_ms: u64,
    /// The time when the hold was found to be gone, in milliseconds since boot.
    gone_ms: u64,
    renewed: Renewed,
}

impl Renewal {
    /// Begins to renew a hold that lasts for `ttl` and was asked for at `asked_ms`, in milliseconds
    /// since boot. `context` describes it in errors.
    pub fn start(
        context: Box<LockContext>,
        ttl: Duration,
        asked_ms: u64,
        mut renew: impl FnMut() -> Renewed + Send + 'static,
    ) -> Self {
        let last = Arc::new(Mutex::new(Last {
            good_ms: asked_ms,
            gone_ms: 0,
            renewed: Renewed::Held,
        }));
        let (stop, stopped) = mpsc::channel();
        let shared = Arc::clone(&last);
        let renew = move || {
            let mut pause = ttl / 3;
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(pause) {
                let asked_ms = clock::boot_now();
                let renewed = renew();
                pause = match renewed {
                    Renewed::Held | Renewed::Over => ttl / 3,
                    Renewed::Gone(_) | Renewed::Failed(_) => (ttl / 30).max(PAUSE_MIN),
                };
                lock(&shared).set(renewed, asked_ms);
            }
        };
        let thread = thread::Builder::new().name("renewing".into());
        Self {
            last,
            ttl,
            context,
            stop: Some(stop),
            thread: thread.spawn(renew).ok(),
        }
    }

    /// Returns when the command must be dead, unless the hold is renewed before or not needed any
    /// more.
    pub fn runs_out(&self) -> Option<RunsOut> {
        let kill_at_ms = lock(&self.last).kill_at_ms(self.ttl)?;
        Some(RunsOut {
            context: self.context.clone(),
            kill_at_ms,
        })
    }

    /// Waits until the hold cannot be relied on.
    pub async fn distrusted(&self) -> Distrusted<'_> {
        let (reason, kill_at_ms) = loop {
            if let Some(found) = lock(&self.last).distrusted(self.ttl) {
                break found;
            }
            sleep(LOOK).await;
        };
        let left_ms = kill_at_ms.saturating_sub(clock::boot_now());
        Distrusted {
            context: self.context.clone(),
            reason,
            grace: Duration::from_millis(left_ms),
            // The timer does not count sleep; the renewal does.
            over: Box::pin(async move {
                while clock::boot_now() < kill_at_ms {
                    sleep(LOOK).await;
                }
            }),
        }
    }
}

impl Last {
    fn set(&mut self, renewed: Renewed, asked_ms: u64) {
        if matches!(renewed, Renewed::Held) {
            self.good_ms = asked_ms;
        }
        // A hold that is gone does not come back, and one that is not needed may fail.
        match (&self.renewed, &renewed) {
            (Renewed::Gone(_), _) | (Renewed::Over, Renewed::Failed(_)) => return,
            (_, Renewed::Gone(_)) => self.gone_ms = clock::boot_now(),
            _ => {}
        }
        self.renewed = renewed;
    }

    /// Returns the reason why it cannot be relied on, and when the command must have ended.
    fn distrusted(&self, ttl: Duration) -> Option<(String, u64)> {
        let is_in_doubt = clock::boot_now() >= self.good_ms + in_ms(ttl) * 2 / 3;
        let reason = match &self.renewed {
            Renewed::Gone(reason) => reason,
            Renewed::Failed(reason) if is_in_doubt => reason,
            Renewed::Held if is_in_doubt => "it was not renewed",
            _ => return None,
        };
        Some((reason.to_owned(), self.kill_at_ms(ttl)?))
    }

    /// Returns when the command must have ended, or `None` if it need not.
    fn kill_at_ms(&self, ttl: Duration) -> Option<u64> {
        match self.renewed {
            Renewed::Over => None,
            Renewed::Gone(_) => Some(self.gone_ms + in_ms(GRACE)),
            Renewed::Held | Renewed::Failed(_) => Some(self.good_ms + in_ms(ttl) * 5 / 6),
        }
    }
}

fn in_ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX / 6)
}

impl Drop for Renewal {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
