//! The end of a lease, and the proof that it is none.

use tenure_core::decide::{Ask, Outcome};
use tenure_core::{LeaseId, Resource, Result};
use tenure_files::clock;

use super::MemoryStore;
use super::store::over;

impl MemoryStore {
    pub(super) fn end(&self, lease: &LeaseId) -> Result<()> {
        let resource = self.resource_of(lease)?;
        let release = Ask::Release {
            lease: lease.clone(),
        };
        match self.decide(&resource, &release, None) {
            Outcome::Done => Ok(()),
            _ => Err(over(lease)),
        }
    }

    pub(super) fn show(&self, lease: &LeaseId) -> Result<()> {
        let mut shelf = self.shelf();
        let shelf = &mut *shelf;
        let resource = shelf.resources.get(lease);
        let entry = resource.and_then(|resource| shelf.entries.get_mut(resource));
        let held = entry.and_then(|entry| entry.leases.get_mut(lease));
        let held = held.ok_or_else(|| over(lease))?;
        held.heartbeat_at = clock::now();
        Ok(())
    }

    pub(super) fn resource_of(&self, lease: &LeaseId) -> Result<Resource> {
        let shelf = self.shelf();
        let resource = shelf.resources.get(lease).cloned();
        resource.ok_or_else(|| over(lease))
    }
}
