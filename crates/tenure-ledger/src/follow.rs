//! Events as they come: the next one is looked for twenty times a second.

use std::time::Duration;

use tenure_core::Result;
use tenure_os::cancel::Ended;
use tenure_os::look::look_until;

use super::Ledger;
use crate::event::Event;

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
    /// Returns the next event, or `None` if `limit` is over before it is there. A cancelled wait is
    /// [`Interrupted`](tenure_core::Error::Interrupted).
    pub fn next(&mut self, limit: Option<Duration>) -> Result<Option<Event>> {
        let event = || self.ledger.event(self.next);
        match look_until(LOOK_EVERY, limit, self.ledger.locker.cancel(), event)? {
            Ok(event) => {
                self.next += 1;
                Ok(Some(event))
            }
            Err(Ended::Deadline) => Ok(None),
            Err(Ended::Cancelled) => Err(self.ledger.interrupted()),
        }
    }
}
