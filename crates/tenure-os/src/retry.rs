//! Trying an operation again after it failed.

use std::thread;

use tenure_core::RetryPolicy;

use crate::random;

/// The operation failed as often as the policy allows.
#[derive(Debug, thiserror::Error)]
#[error("too many retries: it failed {attempts} times, the last time with: {last}")]
pub struct TooManyRetries<E: std::error::Error + 'static> {
    /// The number of tries.
    pub attempts: u32,
    /// The error of the last try.
    #[source]
    pub last: E,
}

/// Calls an operation until it succeeds, at most as often as the policy says, with growing pauses
/// that differ from caller to caller. The thread sleeps in the pauses.
///
/// Every error counts as a reason to try again. A result that is final is returned as a success:
///
/// ```
/// use tenure_core::RetryPolicy;
/// use tenure_os::retry::retry_with_backoff;
///
/// let read = || match std::fs::read("/etc/hostname") {
///     Err(error) if error.kind() == std::io::ErrorKind::Interrupted => Err(error),
///     done => Ok(done),
/// };
/// let content = retry_with_backoff(&RetryPolicy::default(), read);
/// # drop(content);
/// ```
///
/// # Errors
///
/// The last error, with the number of tries.
pub fn retry_with_backoff<T, E: std::error::Error + 'static>(
    policy: &RetryPolicy,
    mut operation: impl FnMut() -> Result<T, E>,
) -> Result<T, TooManyRetries<E>> {
    let mut attempts = 0;
    loop {
        let last = match operation() {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        attempts += 1;
        match policy.pause(attempts, random::fraction()) {
            Some(pause) => thread::sleep(pause),
            None => return Err(TooManyRetries { attempts, last }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::time::{Duration, Instant};

    use super::*;

    fn policy(attempts: u32) -> RetryPolicy {
        RetryPolicy {
            attempts,
            first: Duration::from_millis(20),
            ..RetryPolicy::default()
        }
    }

    /// Tries an operation that fails until it was called `good` times. Returns the moments of all
    /// calls.
    fn calls(attempts: u32, good: usize) -> (Vec<Instant>, Result<(), TooManyRetries<io::Error>>) {
        let mut calls = Vec::new();
        let done = retry_with_backoff(&policy(attempts), || {
            calls.push(Instant::now());
            if calls.len() >= good {
                Ok(())
            } else {
                Err(io::Error::other("not yet"))
            }
        });
        (calls, done)
    }

    #[test]
    fn an_operation_that_fails_once_succeeds_with_the_second_try() {
        let (calls, done) = calls(3, 2);
        assert!(done.is_ok());
        assert_eq!(calls.len(), 2);
    }

    #[test]
    fn an_operation_is_tried_exactly_as_often_as_the_policy_says() {
        for attempts in [1, 3, 5] {
            let (calls, done) = calls(attempts, usize::MAX);
            assert_eq!(calls.len(), attempts as usize);
            let error = done.unwrap_err();
            assert_eq!(error.attempts, attempts);
            let message = format!(
                "too many retries: it failed {attempts} times, the last time with: not yet"
            );
            assert_eq!(error.to_string(), message);
        }
    }

    #[test]
    fn pauses_grow() {
        let (calls, _) = calls(4, usize::MAX);
        // A pause lasts at least half of its full length, however busy the machine is.
        for (pair, least) in calls.windows(2).zip([10, 20, 40]) {
            assert!(pair[1] - pair[0] >= Duration::from_millis(least));
        }
    }
}
