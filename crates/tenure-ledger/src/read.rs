//! Events in order. Readers take no lock, as an event never changes.

use tenure_core::{Error, Result};

use super::Ledger;
use super::event;
use crate::event::Event;

impl Ledger {
    /// Returns an event, or `None` if there is none of this number yet.
    pub fn event(&self, sequence: u64) -> Result<Option<Event>> {
        let Some(bytes) = self.read_bytes(sequence)? else {
            return Ok(None);
        };
        let path = self.names.event(sequence);
        event::check(&bytes).map_err(|problem| Error::corrupt(&path, problem))?;
        let text =
            String::from_utf8(bytes).map_err(|_| Error::corrupt(&path, "it is not UTF-8"))?;
        Ok(Some(Event { sequence, text }))
    }

    /// Returns the events after a number, in order. The last item is an error if the next event is
    /// missing, rather than yet to come.
    pub fn events_after(&self, sequence: u64) -> impl Iterator<Item = Result<Event>> + '_ {
        let mut next = Some(sequence);
        std::iter::from_fn(move || {
            let sequence = next.take()?.checked_add(1)?;
            let event = self.event(sequence).transpose();
            match &event {
                Some(_) => next = Some(sequence),
                None => return self.require_end(sequence).err().map(Err),
            }
            event
        })
    }

    /// Returns an event, and fails if it is not there.
    pub fn require_event(&self, sequence: u64) -> Result<Event> {
        if let Some(event) = self.event(sequence)? {
            return Ok(event);
        }
        self.require_end(sequence)?;
        let ledger = self.names.ledger().display();
        Err(Error::NotFound(format!(
            "there is no event {sequence} in {ledger}"
        )))
    }
}
