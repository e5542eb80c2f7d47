//! The one retry loop of the keeper: calls a store again after a passing fault.
//!
//! A store may try again itself, as only it knows what a lost connection left behind. It says so in
//! its [`Capabilities`](tenure_core::Capabilities), and the keeper calls it once.

use tenure_core::internal::Retry;
use tenure_core::{Error, Reply, Result, RetryPolicy};
use tenure_os::random;

/// The calls made to a store, and the last fault.
#[derive(Default)]
pub(crate) struct Tries {
    /// The number of calls begun so far.
    pub(crate) made: u32,
    /// The passing fault of the last call, until the next one begins. It is set if the loop is
    /// dropped in a pause: then the fault kept the caller waiting.
    pub(crate) fault: Option<Error>,
}

impl Tries {
    /// Calls until a call succeeds or fails for good, or until the policy allows no more. Calls
    /// once if there is no policy.
    pub(crate) async fn run<'a, T>(
        &mut self,
        policy: Option<&RetryPolicy>,
        mut call: impl FnMut() -> Reply<'a, T>,
    ) -> Result<T> {
        let mut retry = policy.map(Retry::new);
        loop {
            self.made = self.made.saturating_add(1);
            let error = match call().await {
                Ok(done) => return Ok(done),
                Err(error) => error,
            };
            let Some(retry) = retry.as_mut().filter(|_| error.is_passing()) else {
                return Err(error);
            };
            let Some(pause) = retry.next_pause(random::fraction()) else {
                return Err(error.after(self.made));
            };
            self.fault = Some(error);
            tokio::time::sleep(pause).await;
            self.fault = None;
        }
    }
}

/// Calls a store, and again after passing faults as often as the policy allows.
pub(crate) async fn retry<'a, T>(
    policy: Option<&RetryPolicy>,
    call: impl FnMut() -> Reply<'a, T>,
) -> Result<T> {
    Tries::default().run(policy, call).await
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::io;

    use tenure_core::Class;

    use super::*;

    fn fault(kind: io::ErrorKind) -> Error {
        Error::io("lock", "/x", io::Error::from(kind))
    }

    async fn calls_until(kind: io::ErrorKind, good: u32) -> (u32, bool) {
        let calls = Cell::new(0);
        let policy = RetryPolicy::default();
        let done = retry(Some(&policy), || {
            calls.set(calls.get() + 1);
            let answer = if calls.get() >= good {
                Ok(())
            } else {
                Err(fault(kind))
            };
            Box::pin(async { answer })
        });
        let done = done.await.is_ok();
        (calls.get(), done)
    }

    #[tokio::test(start_paused = true)]
    async fn passing_faults_are_tried_three_times() {
        let kind = io::ErrorKind::WouldBlock;
        assert_eq!(calls_until(kind, 1).await, (1, true));
        assert_eq!(calls_until(kind, 3).await, (3, true));
        assert_eq!(calls_until(kind, 4).await, (3, false));
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_run_out_of_tries_is_told_so_with_the_last_fault() {
        let policy = RetryPolicy {
            attempts: 5,
            ..RetryPolicy::default()
        };
        let fail =
            || -> Reply<'_, ()> { Box::pin(async { Err(fault(io::ErrorKind::WouldBlock)) }) };
        let error = retry(Some(&policy), fail).await.unwrap_err();
        assert!(
            matches!(error, Error::TooManyRetries { attempts: 5, .. }),
            "{error}"
        );
        let said = "too many retries: it failed 5 times, the last time with: cannot lock /x";
        assert!(error.to_string().starts_with(said), "{error}");
        assert!(error.is_passing() && error.class() == Class::Unreachable);
    }

    #[tokio::test(start_paused = true)]
    async fn other_errors_are_final() {
        let kind = io::ErrorKind::PermissionDenied;
        assert_eq!(calls_until(kind, 2).await, (1, false));
    }
}
