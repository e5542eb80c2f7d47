//! Reads one event.

use tenure::Result;
use tenure_api::ledger::{Events, Show};

use crate::waiting::blocking;
use crate::{Caller, Handle, Service};

impl Handle<Show> for Service {
    async fn handle(&self, request: Show, caller: &Caller) -> Result<Events> {
        let ledger = super::open(&request.directory, caller)?;
        let event = blocking(caller, move || ledger.require_event(request.sequence));
        let events = vec![event.await?];
        Ok(Events { events, next: None })
    }
}
