//! The release of a lease, and the check that it is held.

use tenure_core::decide::{Ask, Outcome};
use tenure_core::{Error, LeaseId, Resource, Result};
use tenure_os::clock;

use super::MemoryStore;

impl MemoryStore {
    pub(super) fn release_now(&self, lease: &LeaseId) -> Result<()> {
        let resource = self.resource_of(lease)?;
        let release = Ask::Release(lease.clone());
        match self.decide(&resource, &release, None) {
            Outcome::Done => Ok(()),
            _ => Err(Error::not_held(lease)),
        }
    }

    pub(super) fn renew_now(&self, lease: &LeaseId) -> Result<()> {
        let mut tables = self.tables();
        let tables = &mut *tables;
        let resource = tables.resources.get(lease);
        let entry = resource.and_then(|resource| tables.entries.get_mut(resource));
        let held = entry.and_then(|entry| entry.leases.get_mut(lease));
        let held = held.ok_or_else(|| Error::not_held(lease))?;
        held.heartbeat_at = clock::now();
        Ok(())
    }

    pub(super) fn resource_of(&self, lease: &LeaseId) -> Result<Resource> {
        let tables = self.tables();
        let resource = tables.resources.get(lease).cloned();
        resource.ok_or_else(|| Error::not_held(lease))
    }
}
