//! Events as they come: the next one is looked for twenty times a second.

use std::thread;
use std::time::{Duration, Instant};

use tenure_core::Result;

use super::{Event, Ledger};
use crate::clock;

/// The interval of looks for the next event.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The events after a number, those to come included.
pub struct FollowLedger<'a> {
    ledger: &'a Ledger,
    next: u64,
}

impl Ledger {
    /// Follows the events after a number.
    pub fn follow(&self, after: u64) -> FollowLedger<'_> {
        let next = after + 1;
        FollowLedger { ledger: self, next }
    }
}

impl FollowLedger<'_> {
    /// Returns the next event, or `None` if `limit` is over before it is there.
    pub fn next(&mut self, limit: Option<Duration>) -> Result<Option<Event>> {
        let deadline = limit.map(|limit| clock::after(Instant::now(), limit));
        loop {
            if let Some(event) = self.ledger.event(self.next)? {
                self.next += 1;
                return Ok(Some(event));
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(None);
            }
            thread::sleep(left.unwrap_or(LOOK_EVERY).min(LOOK_EVERY));
        }
    }
}
