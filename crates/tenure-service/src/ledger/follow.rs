//! Events as they come.

use std::time::Duration;

use tenure::Result;
use tenure_api::ledger::{Event, Log};
use tenure_ledger::FollowLedger;

use super::log::is_of;
use crate::{Caller, Service};

/// The events of a ledger after a number, those to come included.
pub struct FollowedLedger {
    follow: FollowLedger,
    kind: Option<String>,
}

impl Service {
    /// Follows the events that a request asks for, however many there are.
    pub fn follow_ledger(&self, request: Log, caller: &Caller) -> Result<FollowedLedger> {
        let ledger = super::open(&request.directory, caller)?;
        let follow = ledger.follow(request.after);
        let kind = request.kind;
        Ok(FollowedLedger { follow, kind })
    }
}

impl FollowedLedger {
    /// Returns the next event, or `None` if there is none for so long. Blocks the thread.
    pub fn next(&mut self, limit: Duration) -> Result<Option<Event>> {
        loop {
            match self.follow.next(Some(limit))? {
                Some(event) if !is_of(&event, self.kind.as_deref()) => {}
                next => return Ok(next),
            }
        }
    }
}
