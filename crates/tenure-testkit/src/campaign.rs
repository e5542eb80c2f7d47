//! The time that a campaign goes on.
//!
//! A campaign is a test that does random operations beside kills, and compares what it sees with a
//! checker of its own. It ends after a time, not after a number of operations, and tells its seed.

use std::time::{Duration, Instant};

/// The variable that sets the seconds of a campaign; `./test --all` sets it.
const SECONDS: &str = "TENURE_TEST_CAMPAIGN_SECONDS";

/// Returns when a campaign that begins now must end: after half a minute, unless set.
pub fn campaign_end() -> Instant {
    let seconds = std::env::var(SECONDS).ok();
    let seconds = seconds.map_or(30, |text| text.parse().expect("a number of seconds"));
    Instant::now() + Duration::from_secs(seconds)
}
