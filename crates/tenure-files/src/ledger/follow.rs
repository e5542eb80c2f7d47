//! Events as they come: the next one is looked for twenty times a second.

use std::time::Duration;

use tenure_core::Result;

use super::{Event, Ledger};
use crate::look::look_until;

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
        let event = || self.ledger.event(self.next);
        let event = look_until(LOOK_EVERY, limit, event)?;
        self.next += u64::from(event.is_some());
        Ok(event)
    }
}
