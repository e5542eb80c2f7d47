//! The retry policy for passing faults: bounded, exponential, with jitter.
//!
//! This module only computes the pauses; the caller sleeps and runs the loop.

use std::time::Duration;

/// The number of tries of an operation, and the pauses between them.
#[derive(Debug, Clone, PartialEq)]
pub struct RetryPolicy {
    /// The number of tries, the first included. Zero counts as one.
    pub attempts: u32,
    /// The pause after the first failure.
    pub first: Duration,
    /// The longest pause.
    pub longest: Duration,
    /// Each pause is this many times the one before.
    pub factor: f64,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            attempts: 3,
            first: Duration::from_millis(50),
            longest: Duration::from_secs(2),
            factor: 2.0,
        }
    }
}

impl RetryPolicy {
    /// Returns the same pauses without a last try, for a caller that has a deadline.
    pub fn without_limit(&self) -> Self {
        Self {
            attempts: u32::MAX,
            ..self.clone()
        }
    }

    /// Returns the pause after the `failed`-th failure (from 1), or `None` if that was the last
    /// try.
    ///
    /// `random`, from 0 to 1, spreads the pause over its upper half, so that callers that failed
    /// together do not try again together.
    pub fn pause(&self, failed: u32, random: f64) -> Option<Duration> {
        if failed >= self.attempts.max(1) {
            return None;
        }
        let exponent = i32::try_from(failed.saturating_sub(1)).unwrap_or(i32::MAX);
        let seconds = self.first.as_secs_f64() * self.factor.max(1.0).powi(exponent);
        let seconds = seconds.min(self.longest.as_secs_f64());
        Some(jittered(Duration::from_secs_f64(seconds), random))
    }
}

/// Returns between half and all of a pause, by a random number from 0 to 1, so that callers that
/// failed together do not try again together.
pub fn jittered(pause: Duration, random: f64) -> Duration {
    pause.mul_f64(0.5 + random.clamp(0.0, 1.0) / 2.0)
}

/// The tries of one operation so far.
#[derive(Debug, Clone)]
pub struct Retry {
    policy: RetryPolicy,
    failed: u32,
}

impl Retry {
    /// Begins with the first try.
    pub fn new(policy: &RetryPolicy) -> Self {
        Self {
            policy: policy.clone(),
            failed: 0,
        }
    }

    /// Counts a failure. Returns the pause before the next try, or `None` if that was the last one.
    pub fn next_pause(&mut self, random: f64) -> Option<Duration> {
        self.failed = self.failed.saturating_add(1);
        self.policy.pause(self.failed, random)
    }

    /// Returns the number of tries that failed.
    pub fn failed(&self) -> u32 {
        self.failed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_attempts_have_two_pauses() {
        let policy = RetryPolicy::default();
        assert_eq!(policy.pause(1, 1.0), Some(Duration::from_millis(50)));
        assert_eq!(policy.pause(2, 1.0), Some(Duration::from_millis(100)));
        assert_eq!(policy.pause(3, 1.0), None);
    }

    #[test]
    fn pauses_grow_up_to_the_longest_and_no_further() {
        let policy = RetryPolicy {
            attempts: u32::MAX,
            ..RetryPolicy::default()
        };
        let pauses: Vec<_> = (1..100).map(|n| policy.pause(n, 1.0).unwrap()).collect();
        assert!(pauses.is_sorted());
        assert_eq!(pauses.last(), Some(&Duration::from_secs(2)));
    }

    #[test]
    fn jitter_stays_in_the_upper_half() {
        let policy = RetryPolicy::default();
        assert_eq!(policy.pause(1, 0.0), Some(Duration::from_millis(25)));
        assert_eq!(
            policy.pause(1, f64::INFINITY),
            Some(Duration::from_millis(50))
        );
    }

    #[test]
    fn no_attempts_means_one() {
        let policy = RetryPolicy {
            attempts: 0,
            ..RetryPolicy::default()
        };
        assert_eq!(policy.pause(1, 1.0), None);
    }
}
