//! Events as they come: a follower looks for the next one twenty times a second.

use std::time::Duration;

use tenure_core::Result;
use tenure_os::cancel::Ended;
use tenure_os::look::look_until;

use super::Ledger;
use crate::event::Event;

/// The interval of looks for the next event.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The events after a number, including those to come.
pub struct FollowLedger {
    ledger: Ledger,
    next: u64,
    /// True once the next event was not there yet and none below it was missing.
    was_at_end: bool,
}

impl Ledger {
    /// Follows the events after a number.
    pub fn follow(&self, after: u64) -> FollowLedger {
        FollowLedger {
            ledger: self.clone(),
            next: after + 1,
            was_at_end: false,
        }
    }
}

impl FollowLedger {
    /// Returns the next event, or `None` if `limit` is over before it comes. An event that is
    /// missing among those that were there from the beginning is an error. A cancelled wait is
    /// [`Interrupted`](tenure_core::Error::Interrupted).
    pub fn next(&mut self, limit: Option<Duration>) -> Result<Option<Event>> {
        let event = || {
            let event = self.ledger.event(self.next)?;
            if event.is_none() && !self.was_at_end {
                self.ledger.require_end(self.next)?;
                self.was_at_end = true;
            }
            Ok(event)
        };
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
