//! The patience of a caller: how long it has, and how it asks again where a fault passes.
//!
//! Whoever waits asks again for as long as it has time, however often that is; everybody else a few times. Pauses grow, and
//! differ between those that failed together.

use tenure_core::decide::Millis;
use tenure_core::{Error, Result, RetryPolicy};
use tenure_files::clock::boot_now;
use tokio::time::sleep;

use super::row::millis;
use crate::connect::spread;

/// The pauses of whoever asks again where a fault passes.
pub(super) struct Patience {
    policy: RetryPolicy,
    failed: u32,
    until: Option<Millis>,
}

impl Patience {
    /// A few times.
    pub(super) fn briefly() -> Self {
        Self {
            policy: RetryPolicy::default(),
            failed: 0,
            until: None,
        }
    }

    /// For as long as there is time, however often that is.
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

    /// Waits before the next try. The error itself if it does not pass, or there is no time or try left.
    pub(super) async fn pause(&mut self, error: Error) -> Result<()> {
        let patient = self.policy.attempts == u32::MAX;
        let passes = error.is_passing() || patient && matches!(error, Error::Exhausted { .. });
        self.failed = self.failed.saturating_add(1);
        let pause = self.policy.pause(self.failed, spread()).filter(|_| passes);
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

/// How long until a deadline of a caller.
pub(super) fn time_left(until: Millis) -> Millis {
    until.saturating_sub(boot_now())
}
