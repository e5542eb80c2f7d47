//! Decides when a foreign lock is stale: by its time, or because it was seen unchanged for too
//! long.
//!
//! Its time is from the wall clock, which can be set. If that is set back, a dead lock looks fresh
//! for as long; so a waiter also uses a clock that cannot be set and that counts the time asleep.

use std::time::{Duration, SystemTime};

use tenure_os::clock;

use crate::node_lock::directory::LockDirectory;
use crate::node_lock::{STALE_AFTER, UNCHANGED_FOR};

/// Returns true if a time is too long ago, which a time in the future is not.
pub(super) fn is_too_old(modified: SystemTime) -> bool {
    is_older(modified, SystemTime::now())
}

fn is_older(modified: SystemTime, now: SystemTime) -> bool {
    now.duration_since(modified)
        .is_ok_and(|age| age > STALE_AFTER)
}

/// Returns true if a moment, in milliseconds since boot, is too long ago.
pub(super) fn is_too_long_since(boot_ms: u64) -> bool {
    since(boot_ms, clock::boot_now()) > STALE_AFTER
}

fn since(earlier_ms: u64, now_ms: u64) -> Duration {
    Duration::from_millis(now_ms.saturating_sub(earlier_ms))
}

/// The observations of a waiter that looks at a foreign lock repeatedly.
#[derive(Default)]
pub(super) struct StaleCheck {
    unchanged: Option<(LockDirectory, u64)>,
}

impl StaleCheck {
    /// Returns true if the lock that is seen now is stale.
    pub(super) fn is_stale(&mut self, seen: LockDirectory) -> bool {
        self.is_stale_at(seen, SystemTime::now(), clock::boot_now())
    }

    fn is_stale_at(&mut self, seen: LockDirectory, now: SystemTime, boot_ms: u64) -> bool {
        let first_seen_ms = match self.unchanged {
            Some((before, first_seen_ms)) if before == seen => first_seen_ms,
            _ => {
                self.unchanged = Some((seen, boot_ms));
                boot_ms
            }
        };
        is_older(seen.modified, now) || since(first_seen_ms, boot_ms) > UNCHANGED_FOR
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node_lock::directory;

    const SECOND: Duration = Duration::from_secs(1);

    fn seen() -> LockDirectory {
        let directory = tempfile::tempdir().unwrap();
        directory::look(directory.path()).unwrap().unwrap()
    }

    #[test]
    fn a_lock_is_stale_when_its_time_is_more_than_ten_seconds_ago() {
        let seen = seen();
        let stale = |age| StaleCheck::default().is_stale_at(seen, seen.modified + age, 0);
        assert!(!stale(Duration::ZERO));
        assert!(!stale(STALE_AFTER));
        assert!(stale(STALE_AFTER + Duration::from_millis(1)));
    }

    #[test]
    fn a_time_in_the_future_is_fresh() {
        let seen = seen();
        for ahead in [SECOND, 3600 * SECOND] {
            let now = seen.modified - ahead;
            assert!(!StaleCheck::default().is_stale_at(seen, now, 0));
        }
    }

    #[test]
    fn a_lock_seen_unchanged_for_more_than_twelve_seconds_is_stale_whatever_its_time() {
        let seen = seen();
        let now = seen.modified - 3600 * SECOND;
        let mut watch = StaleCheck::default();
        assert!(!watch.is_stale_at(seen, now, 5_000));
        assert!(!watch.is_stale_at(seen, now, 17_000));
        assert!(watch.is_stale_at(seen, now, 17_001));
    }

    #[test]
    fn the_first_lock_of_a_node_process_is_not_stale_before_its_time_says_so() {
        let seen = seen();
        let made = seen.modified - Duration::from_millis(1005);
        let mut watch = StaleCheck::default();
        assert!(!watch.is_stale_at(seen, made, 0));
        assert!(!watch.is_stale_at(seen, made + Duration::from_millis(11_005), 11_005));
        assert!(watch.is_stale_at(seen, made + Duration::from_millis(11_006), 11_006));
    }

    #[test]
    fn a_refreshed_lock_is_watched_anew() {
        let first = seen();
        let now = first.modified - 3600 * SECOND;
        let refreshed = LockDirectory {
            modified: first.modified + SECOND,
            ..first
        };
        let mut watch = StaleCheck::default();
        assert!(!watch.is_stale_at(first, now, 0));
        assert!(!watch.is_stale_at(refreshed, now, 9_000));
        assert!(!watch.is_stale_at(refreshed, now, 21_000));
        assert!(watch.is_stale_at(refreshed, now, 21_001));
    }
}
