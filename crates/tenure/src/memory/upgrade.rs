//! Upgradeable to write, and back.

use tenure_core::decide::{Ask, Outcome, Refusal};
use tenure_core::{Error, Lease, LeaseId, Mode, Resource, Result, Token, UpgradeRequest};
use tenure_files::clock;
use tokio::sync::oneshot;

use super::MemoryStore;
use super::acquire::{QueuedRequest, for_ever, received};
use super::tables::{Waiter, WaitingFor};

impl MemoryStore {
    pub(super) async fn upgrade_or_queue(&self, request: &UpgradeRequest) -> Result<Option<Token>> {
        let lease = &request.lease;
        let (outcome, resource, granted) = self.ask_upgrade(request)?;
        match outcome {
            Outcome::Granted => received(granted).map(|lease| Some(lease.token)),
            Outcome::Busy => Ok(None),
            Outcome::Queued => {
                let queued = QueuedRequest {
                    store: self,
                    resource: &resource,
                    lease,
                    undo: Some(Ask::Downgrade(lease.clone())),
                };
                let upgraded = queued.wait_for_grant(granted).await;
                let upgraded = upgraded.ok_or_else(|| Error::not_held(lease))?;
                Ok(Some(upgraded.token))
            }
            other => Err(self.refused(lease, &other)),
        }
    }

    pub(super) fn downgrade_now(&self, lease: &LeaseId) -> Result<Mode> {
        let resource = self.resource_of(lease)?;
        let downgrade = Ask::Downgrade(lease.clone());
        let outcome = self.decide(&resource, &downgrade, None);
        match outcome {
            Outcome::Done => Ok(Mode::Upgradeable),
            other => Err(self.refused(lease, &other)),
        }
    }

    fn ask_upgrade(
        &self,
        request: &UpgradeRequest,
    ) -> Result<(Outcome, Resource, oneshot::Receiver<Lease>)> {
        let resource = self.resource_of(&request.lease)?;
        let upgrade = Ask::Upgrade {
            lease: request.lease.clone(),
            wait: for_ever(request.wait),
        };
        let (wake, granted) = oneshot::channel();
        let new_request = Waiter {
            since: clock::now(),
            waiting_for: WaitingFor::Upgrade(request.clone()),
            wake,
        };
        let outcome = self.decide(&resource, &upgrade, Some(new_request));
        Ok((outcome, resource, granted))
    }

    fn refused(&self, lease: &LeaseId, outcome: &Outcome) -> Error {
        let tables = self.tables();
        let resource = tables.resources.get(lease);
        let entry = resource.and_then(|resource| tables.entries.get(resource));
        let Some(held) = entry.and_then(|entry| entry.leases.get(lease)) else {
            return Error::not_held(lease);
        };
        let expected = match outcome {
            Outcome::Refused(Refusal::NeverUpgraded) => "an upgraded lease",
            Outcome::Refused(Refusal::Reentry) => "no upgrade under way",
            _ => "an upgradeable lease",
        };
        Error::conflict(
            self.context_of(&held.resource, held.mode),
            expected,
            held.mode.to_string(),
        )
    }
}
