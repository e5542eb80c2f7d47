//! Upgradeable to write, and back.

use tenure_core::decide::{Ask, Outcome, Refusal, Wait};
use tenure_core::{Error, Lease, LeaseId, Mode, Resource, Result, Token, UpgradeRequest};
use tenure_files::clock;
use tokio::sync::oneshot;

use super::MemoryStore;
use super::acquire::received;
use super::change::NEVER;
use super::shelf::{Asked, Waiter};
use super::store::{over, place};

impl MemoryStore {
    pub(super) fn try_become_write(&self, lease: &LeaseId) -> Result<Option<Token>> {
        let (outcome, _, granted) = self.ask_upgrade(lease, Asked::UpgradeNow, Wait::No)?;
        match outcome {
            Outcome::Granted => received(granted).map(|lease| Some(lease.token)),
            Outcome::Busy => Ok(None),
            other => Err(self.refused(lease, &other)),
        }
    }

    pub(super) async fn become_write(&self, request: &UpgradeRequest) -> Result<Token> {
        let lease = &request.lease;
        let asked = Asked::Upgrade(request.clone());
        let (outcome, resource, granted) = self.ask_upgrade(lease, asked, Wait::Until(NEVER))?;
        match outcome {
            Outcome::Granted => received(granted).map(|lease| lease.token),
            Outcome::Queued => {
                let first = FirstInLine {
                    store: self,
                    resource,
                    lease,
                    left: false,
                };
                first.called(granted).await
            }
            other => Err(self.refused(lease, &other)),
        }
    }

    pub(super) fn become_upgradeable(&self, lease: &LeaseId) -> Result<Mode> {
        let resource = self.resource_of(lease)?;
        let downgrade = Ask::Downgrade {
            lease: lease.clone(),
        };
        let outcome = self.decide(&resource, &downgrade, None);
        match outcome {
            Outcome::Done => Ok(Mode::Upgradeable),
            other => Err(self.refused(lease, &other)),
        }
    }

    fn ask_upgrade(
        &self,
        lease: &LeaseId,
        asked: Asked,
        wait: Wait,
    ) -> Result<(Outcome, Resource, oneshot::Receiver<Lease>)> {
        let resource = self.resource_of(lease)?;
        let upgrade = Ask::Upgrade {
            lease: lease.clone(),
            wait,
        };
        let (wake, granted) = oneshot::channel();
        let newcomer = Waiter {
            since: clock::now(),
            asked,
            wake,
        };
        let outcome = self.decide(&resource, &upgrade, Some(newcomer));
        Ok((outcome, resource, granted))
    }

    fn refused(&self, lease: &LeaseId, outcome: &Outcome) -> Error {
        let shelf = self.shelf();
        let resource = shelf.resources.get(lease);
        let entry = resource.and_then(|resource| shelf.entries.get(resource));
        let Some(held) = entry.and_then(|entry| entry.leases.get(lease)) else {
            return over(lease);
        };
        let expected = match outcome {
            Outcome::Refused(Refusal::NeverUpgraded) => "an upgraded lease",
            Outcome::Refused(Refusal::Reentry) => "no upgrade under way",
            _ => "an upgradeable lease",
        };
        Error::Conflict {
            place: place(&held.resource, held.mode),
            expected: expected.into(),
            actual: held.mode.to_string(),
        }
    }
}

/// A waiting upgrade. Dropped before it was called, the lease is upgradeable as before.
struct FirstInLine<'a> {
    store: &'a MemoryStore,
    resource: Resource,
    lease: &'a LeaseId,
    left: bool,
}

impl FirstInLine<'_> {
    async fn called(mut self, granted: oneshot::Receiver<Lease>) -> Result<Token> {
        let lease = granted.await;
        self.left = lease.is_ok();
        // Whoever releases the lease meanwhile takes the upgrade out of the line with it.
        lease.map(|lease| lease.token).map_err(|_| over(self.lease))
    }
}

impl Drop for FirstInLine<'_> {
    fn drop(&mut self) {
        if self.left {
            return;
        }
        let lease = self.lease.clone();
        let withdraw = Ask::Withdraw {
            lease: lease.clone(),
        };
        // Whoever is no longer in line was upgraded in this instant, and nothing brings it
        // back there: the lease goes back to what it was.
        if self.store.decide(&self.resource, &withdraw, None) != Outcome::Done {
            let downgrade = Ask::Downgrade { lease };
            self.store.decide(&self.resource, &downgrade, None);
        }
    }
}
