//! Reads events in order.

use tenure::Result;
use tenure_api::ledger::{Event, Events, Log};
use tenure_ledger::Ledger;

use crate::waiting::blocking;
use crate::{Caller, Handle, Service};

/// The most events of one page, unless the request says another number.
const LIMIT: usize = 1000;

impl Handle<Log> for Service {
    async fn handle(&self, request: Log, caller: &Caller) -> Result<Events> {
        let ledger = super::open(&request.directory, caller)?;
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

/// Returns true if an event is of this type, or if any will do.
pub(super) fn is_of(event: &Event, kind: Option<&str>) -> bool {
    kind.is_none_or(|kind| event.kind().as_deref() == Some(kind))
}
