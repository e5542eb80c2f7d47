//! The operations on events: appended, read in order, and followed as they come.

use std::time::Duration;

use tenure::Result;
use tenure_api::ledger::{Append, Appended, Event, Events, Log, Show};
use tenure_ledger::{AppendTerms, FollowLedger, Ledger};

use super::open;
use crate::waiting::blocking;
use crate::{Caller, Handle, Service};

/// The largest number of events on a page, unless the request says another.
const LIMIT: usize = 1000;

impl Handle<Append> for Service {
    async fn handle(&self, request: Append, caller: &Caller) -> Result<Appended> {
        let token = request.token.as_deref().map(str::parse);
        let terms = AppendTerms {
            expect: request.expect,
            claim: token.transpose()?,
        };
        let ledger = self.ledger(&request.directory, request.wait, None, caller)?;
        let event = request.event.0;
        let sequence = ledger.wait(move |ledger| ledger.append_on(&event, terms));
        sequence.await.map(|sequence| Appended { sequence })
    }
}

impl Handle<Show> for Service {
    async fn handle(&self, request: Show, caller: &Caller) -> Result<Events> {
        let ledger = open(&request.directory, caller)?;
        let event = blocking(caller, move || ledger.require_event(request.sequence));
        let events = vec![event.await?];
        Ok(Events { events, next: None })
    }
}

impl Handle<Log> for Service {
    async fn handle(&self, request: Log, caller: &Caller) -> Result<Events> {
        let ledger = open(&request.directory, caller)?;
        blocking(caller, move || page(&ledger, &request)).await
    }
}

fn page(ledger: &Ledger, request: &Log) -> Result<Events> {
    let (mut events, mut last) = (Vec::new(), request.after);
    for event in ledger.events_after(request.after) {
        if events.len() == request.limit.unwrap_or(LIMIT) {
            break;
        }
        let event = event?;
        last = event.sequence;
        if is_of(&event, request.kind.as_deref()) {
            events.push(event);
        }
    }
    let next = ledger.event(last + 1)?.map(|_| last);
    Ok(Events { events, next })
}

/// Returns true if an event is of this type, or if no type is given.
fn is_of(event: &Event, kind: Option<&str>) -> bool {
    kind.is_none_or(|kind| event.kind().as_deref() == Some(kind))
}

/// The events of a ledger after a number, including those that are yet to come.
pub struct FollowedLedger {
    follow: FollowLedger,
    kind: Option<String>,
}

impl Service {
    /// Follows the events that a request asks for. Its limit does not count.
    pub fn follow_ledger(&self, request: Log, caller: &Caller) -> Result<FollowedLedger> {
        let ledger = open(&request.directory, caller)?;
        let follow = ledger.follow(request.after);
        let kind = request.kind;
        Ok(FollowedLedger { follow, kind })
    }
}

impl FollowedLedger {
    /// Returns the next event, or `None` if none comes within `limit`. Blocks the thread.
    pub fn next(&mut self, limit: Duration) -> Result<Option<Event>> {
        loop {
            match self.follow.next(Some(limit))? {
                Some(event) if !is_of(&event, self.kind.as_deref()) => {}
                next => return Ok(next),
            }
        }
    }
}
