//! The one clock of this host: all processes read it alike, and it cannot be set.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Microseconds on `CLOCK_MONOTONIC`.
pub type Moment = u64;

/// Returns the current moment.
pub fn now() -> Moment {
    let now = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).unwrap();
    seconds * 1_000_000 + u64::try_from(now.tv_nsec).unwrap() / 1000
}

/// Waits until a condition holds; the test fails if it does not within this time.
pub fn until(limit: Duration, what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + limit;
    while !holds() {
        assert!(Instant::now() < end, "not within {limit:?}: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
