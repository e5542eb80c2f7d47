//! Events in order. Nobody who reads takes a lock: an event never changes.

use tenure_core::{Error, Result};

use super::event::{self, corrupt};
use super::{Event, Ledger};

impl Ledger {
    /// Returns an event, `None` if there is none of this number yet.
    pub fn event(&self, sequence: u64) -> Result<Option<Event>> {
        let Some(bytes) = self.read_bytes(sequence)? else {
            return Ok(None);
        };
        let path = self.names.event(sequence);
        event::check(&bytes).map_err(|problem| corrupt(&path, problem))?;
        let text = String::from_utf8(bytes).map_err(|_| corrupt(&path, "it is not UTF-8"))?;
        Ok(Some(Event { sequence, text }))
    }

    /// Returns the events after a number, in order, up to the first that is not there.
    pub fn events_after(&self, sequence: u64) -> impl Iterator<Item = Result<Event>> + '_ {
        let mut next = sequence;
        std::iter::from_fn(move || {
            next = next.checked_add(1)?;
            self.event(next).transpose()
        })
    }

    /// Returns an event that must be there.
    pub fn require_event(&self, sequence: u64) -> Result<Event> {
        self.event(sequence)?.ok_or_else(|| {
            let ledger = self.names.ledger().display();
            Error::NotFound(format!("there is no event {sequence} in {ledger}"))
        })
    }
}
