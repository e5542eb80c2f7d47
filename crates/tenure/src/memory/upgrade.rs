//! Upgradeable to write, and back.

use std::sync::Arc;

use tenure_core::decide::{Ask, Outcome};
use tenure_core::{Error, Lease, LeaseId, Mode, Resource, Result, Store, Token, UpgradeRequest};
use tenure_os::clock;
use tokio::sync::oneshot;

use super::MemoryStore;
use super::acquire::{QueuedRequest, for_ever, received};
use super::tables::Waiter;

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
            other => Err(self.not_changed(lease, &resource, Mode::Write, other)),
        }
    }

    /// Returns the error of a lease whose mode was not changed.
    fn not_changed(
        &self,
        lease: &LeaseId,
        resource: &Resource,
        mode: Mode,
        outcome: Outcome,
    ) -> Error {
        match outcome {
            Outcome::Refused(refusal) => refusal.of_mode(lease, self.context_of(resource, mode)),
            other => Error::Internal(format!("a change of mode ended with {other:?}")),
        }
    }

    pub(super) fn downgrade_now(&self, lease: &LeaseId) -> Result<Mode> {
        let resource = self.resource_of(lease)?;
        let downgrade = Ask::Downgrade(lease.clone());
        let outcome = self.decide(&resource, &downgrade, None);
        match outcome {
            Outcome::Done => Ok(Mode::Upgradeable),
            other => Err(self.not_changed(lease, &resource, Mode::Upgradeable, other)),
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
            asker: Arc::clone(&request.asker),
            deadline: request.deadline,
            request: None,
            wake,
        };
        let outcome = self.decide(&resource, &upgrade, Some(new_request));
        Ok((outcome, resource, granted))
    }
}
