//! Tries of one request on a server that fails for a moment, and the time its caller has left.
//!
//! The store itself tries again, as only it knows what a lost connection left behind. A request
//! that waits tries again until its time is over; every other request tries as often as the policy
//! says.

use std::time::Duration;

use tenure_core::decide::{Millis, Wait};
use tenure_core::{Error, Result, RetryPolicy};
use tenure_os::clock::boot_now;
use tenure_os::random;
use tokio::time::sleep;

use super::row::millis;

/// The longest pause of work in the background.
const BACKGROUND_PAUSE_MAX: Duration = Duration::from_millis(200);

/// The tries of one request.
pub(super) struct Retry {
    tries: tenure_core::internal::Retry,
    until: Option<Millis>,
    /// True if it also waits for a connection of the pool, as long as it waits at all.
    waits: bool,
}

impl Retry {
    /// Tries as often as the policy says if the request does not wait, else until its time is over.
    pub(super) fn of(wait: Wait, policy: &RetryPolicy) -> Self {
        match wait {
            Wait::Until(until) => Self {
                tries: tenure_core::internal::Retry::new(&policy.without_limit()),
                until: Some(until),
                waits: true,
            },
            Wait::No => Self {
                tries: tenure_core::internal::Retry::new(policy),
                until: None,
                waits: false,
            },
        }
    }

    /// Tries until a deadline, or until the caller stops, with pauses that stay short: another
    /// request may wait for what the work gives back.
    pub(super) fn in_background(until: Option<Millis>) -> Self {
        let policy = RetryPolicy {
            attempts: u32::MAX,
            longest: BACKGROUND_PAUSE_MAX,
            ..RetryPolicy::default()
        };
        Self {
            tries: tenure_core::internal::Retry::new(&policy),
            until,
            waits: true,
        }
    }

    /// Waits before the next try. Returns the error if it does not pass, or no time or try is left.
    pub(super) async fn pause(&mut self, error: Error) -> Result<()> {
        let pause = self.tries.next_pause(random::fraction());
        if !self.passes(&error) {
            return Err(error);
        }
        let Some(pause) = pause else {
            return Err(error.after(self.tries.failed()));
        };
        let left = self.until.map_or(Millis::MAX, time_left);
        if left <= millis(pause) {
            return Err(error);
        }
        sleep(pause).await;
        Ok(())
    }

    /// Returns true if the time of the request was over before this first passing fault: then the
    /// server did not keep it waiting.
    pub(super) fn is_late(&self, error: &Error) -> bool {
        let is_over = self.until.is_some_and(|until| time_left(until) == 0);
        is_over && self.tries.failed() == 0 && self.passes(error)
    }

    /// Returns true if a later try may do better.
    fn passes(&self, error: &Error) -> bool {
        error.is_passing() || self.waits && matches!(error, Error::Exhausted { .. })
    }
}

/// Returns when the time of a request is over. A request that does not wait has no such time: it
/// waits for its answer.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn fault() -> Error {
        Error::Unreachable {
            store: "postgres://db".into(),
            problem: "gone".into(),
        }
    }

    fn retry(wait: Wait) -> Retry {
        Retry::of(wait, &RetryPolicy::default())
    }

    #[tokio::test]
    async fn a_request_that_meets_its_first_fault_after_its_time_is_late() {
        let mut late = retry(Wait::Until(boot_now()));
        assert!(late.is_late(&fault()));
        // The request was made all the same: now the server is in its way.
        assert!(late.pause(fault()).await.is_err());
        assert!(!late.is_late(&fault()));
        assert!(!retry(Wait::Until(boot_now() + 60_000)).is_late(&fault()));
        assert!(!retry(Wait::No).is_late(&fault()));
    }

    #[tokio::test]
    async fn a_request_that_waits_tries_again_until_its_time_is_over() {
        let mut waiting = retry(Wait::Until(boot_now() + 400));
        let mut tries = 0;
        while waiting.pause(fault()).await.is_ok() {
            tries += 1;
        }
        assert!(tries >= 2, "{tries}");
    }

    #[tokio::test]
    async fn a_request_that_does_not_wait_tries_as_often_as_the_policy_says() {
        let mut trying = retry(Wait::No);
        for _ in 0..2 {
            trying.pause(fault()).await.unwrap();
        }
        let error = trying.pause(fault()).await.unwrap_err();
        assert!(
            matches!(error, Error::TooManyRetries { attempts: 3, .. }),
            "{error}"
        );
    }
}
