//! Looking again and again for something that no wake-up tells.

use std::time::{Duration, Instant};

use tenure_core::Result;

use crate::cancel::{Cancel, Ended};
use crate::clock;

/// Looks at intervals until something is there, `limit` is over, or the wait is cancelled.
pub fn look_until<T>(
    every: Duration,
    limit: Option<Duration>,
    cancel: &Cancel,
    mut look: impl FnMut() -> Result<Option<T>>,
) -> Result<Result<T, Ended>> {
    let deadline = limit.map(|limit| clock::after(Instant::now(), limit));
    loop {
        if let Some(found) = look()? {
            return Ok(Ok(found));
        }
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return Ok(Err(Ended::Deadline));
        }
        if cancel.sleep(left.unwrap_or(every).min(every)) == Ended::Cancelled {
            return Ok(Err(Ended::Cancelled));
        }
    }
}
