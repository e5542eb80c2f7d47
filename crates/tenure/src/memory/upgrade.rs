//! Upgradeable to write, and back.

use tenure_core::decide::{Ask, Outcome};
use tenure_core::request::Awaited;
use tenure_core::{Error, LeaseId, Mode, Result, Store, Token, UpgradeRequest};

use super::MemoryStore;

impl MemoryStore {
    pub(super) async fn upgrade_or_queue(&self, request: &UpgradeRequest) -> Result<Option<Token>> {
        let resource = self.resource_of(&request.lease)?;
        let upgraded = self
            .ask(Awaited::Upgrade(request.clone(), resource))
            .await?;
        Ok(upgraded.map(|lease| lease.token))
    }

    pub(super) fn downgrade_now(&self, lease: &LeaseId) -> Result<Mode> {
        let resource = self.resource_of(lease)?;
        match self.decide(&resource, &Ask::Downgrade(lease.clone()), None) {
            Outcome::Done => Ok(Mode::Upgradeable),
            Outcome::Refused(refusal) => {
                let context = self.context_of(&resource, Mode::Upgradeable);
                Err(refusal.of_mode(lease, context))
            }
            other => Err(Error::Internal(format!("a downgrade ended with {other:?}"))),
        }
    }
}
