//! Proof that a lease is held.

use tenure_core::{Error, LeaseId, Result};

use super::super::GuardState;
use super::AdvisoryStore;

impl AdvisoryStore {
    /// What the probes of its keys say.
    pub(super) fn check(&self, lease: &LeaseId) -> Result<()> {
        let held = self.held_as(lease)?;
        let keys = held.keys();
        for guard in keys.guards() {
            guard.check()?;
            if guard.state() == GuardState::Unknown {
                return Err(Error::Unreachable {
                    store: self.url.clone(),
                    problem: "no answer for a second".into(),
                });
            }
        }
        Ok(())
    }
}
