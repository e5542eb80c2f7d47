//! Looking again and again for something that nobody tells.

use std::thread;
use std::time::{Duration, Instant};

use tenure_core::Result;

use crate::clock;

/// Looks at intervals until something is there. Returns `None` if `limit` is over before that.
pub(crate) fn look_until<T>(
    every: Duration,
    limit: Option<Duration>,
    mut look: impl FnMut() -> Result<Option<T>>,
) -> Result<Option<T>> {
    let deadline = limit.map(|limit| clock::after(Instant::now(), limit));
    loop {
        if let Some(found) = look()? {
            return Ok(Some(found));
        }
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return Ok(None);
        }
        thread::sleep(left.unwrap_or(every).min(every));
    }
}
