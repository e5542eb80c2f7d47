//! Pauses before another try, and the time a caller has left.
//!
//! A request that waits tries again until its time is over, however often that is; every other request a few times. Pauses
//! grow, with jitter.

use tenure_core::decide::{Millis, Wait};
use tenure_core::{Error, Result, RetryPolicy};
use tenure_files::clock::boot_now;
use tokio::time::sleep;

use super::row::millis;
use crate::connect::jitter;

/// The pauses between the tries of one request.
pub(super) struct Retry {
    policy: RetryPolicy,
    failed: u32,
    until: Option<Millis>,
}

impl Retry {
    /// Tries a few times if the request does not wait, else until its time is over.
    pub(super) fn of(wait: Wait) -> Self {
        match wait {
            Wait::Until(until) => Self::until(Some(until)),
            Wait::No => Self {
                policy: RetryPolicy::default(),
                failed: 0,
                until: None,
            },
        }
    }

    /// Tries until a deadline, however often that is.
    pub(super) fn until(until: Option<Millis>) -> Self {
        let policy = RetryPolicy {
            attempts: u32::MAX,
            ..RetryPolicy::default()
        };
        Self {
            policy,
            failed: 0,
            until,
        }
    }

    /// Waits before the next try. Returns the error if it is not a passing one, or no time or try is left.
    pub(super) async fn pause(&mut self, error: Error) -> Result<()> {
        let patient = self.policy.attempts == u32::MAX;
        let passes = error.is_passing() || patient && matches!(error, Error::Exhausted { .. });
        self.failed = self.failed.saturating_add(1);
        let pause = self.policy.pause(self.failed, jitter()).filter(|_| passes);
        let Some(pause) = pause else {
            return Err(error);
        };
        if self
            .until
            .is_some_and(|until| time_left(until) <= millis(pause))
        {
            return Err(error);
        }
        sleep(pause).await;
        Ok(())
    }
}

/// Returns when the time of a request is over. A request that does not wait has all the time for its answer.
pub(super) fn end_of(wait: Wait) -> Millis {
    match wait {
        Wait::No => Millis::MAX,
        Wait::Until(until) => until,
    }
}

/// Returns how long it is until a deadline of a caller.
pub(super) fn time_left(until: Millis) -> Millis {
    until.saturating_sub(boot_now())
}
