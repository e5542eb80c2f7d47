//! Events as they come.

use std::time::{Duration, Instant};

use tenure_core::Result;

use super::{Event, Ledger};
use crate::clock;
use crate::document::Changes;

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
    /// Returns the next event as soon as it is there, `None` if `limit` is over before.
    pub fn next(&mut self, limit: Option<Duration>) -> Result<Option<Event>> {
        let deadline = limit.map(|limit| clock::after(Instant::now(), limit));
        let path = self.ledger.names.event(self.next);
        let mut changes = None;
        loop {
            if let Some(event) = self.ledger.event(self.next)? {
                self.next += 1;
                return Ok(Some(event));
            }
            // Watched before it is looked for again, so that none is missed.
            let Some(changes) = &mut changes else {
                changes = Some(Changes::watch(&[&path])?);
                continue;
            };
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if !changes.wait(left)? {
                return Ok(None);
            }
        }
    }
}
