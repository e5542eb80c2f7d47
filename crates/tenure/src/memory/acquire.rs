//! A request for a new lease or for an upgrade, and the wait for its grant.

use tenure_core::decide::{Ask, Outcome, Wait};
use tenure_core::request::Awaited;
use tenure_core::{Error, Lease, Result, Store};
use tenure_os::clock;
use tokio::sync::oneshot;

use super::MemoryStore;
use super::change::NEVER;
use super::tables::Waiter;

impl MemoryStore {
    /// Asks, and waits for the grant if the request is queued. Returns `None` if it would have to
    /// wait and may not.
    pub(super) async fn ask(&self, awaited: Awaited) -> Result<Option<Lease>> {
        // The keeper's deadline is enough, because it drops the wait in this same process.
        let wait = match awaited.wait() {
            Wait::No => Wait::No,
            Wait::Until(_) => Wait::Until(NEVER),
        };
        let ask = Ask::of(&awaited, wait);
        let (wake, mut granted) = oneshot::channel();
        let waiter = Waiter {
            since: clock::now(),
            awaited: awaited.clone(),
            wake,
        };
        match self.decide(awaited.resource(), &ask, Some(waiter)) {
            Outcome::Granted => {
                let lost = |_| Error::Internal("a grant was not told to who asked".into());
                granted.try_recv().map(Some).map_err(lost)
            }
            Outcome::Busy => Ok(None),
            Outcome::Queued => {
                let queued = QueuedRequest {
                    store: self,
                    awaited,
                    is_granted: false,
                };
                queued.wait_for_grant(granted).await.map(Some)
            }
            Outcome::Refused(refusal) => {
                let context = self.context_of(awaited.resource(), awaited.mode());
                let tables = self.tables();
                let entry = tables.entries.get(awaited.resource());
                let state = entry.map(|entry| entry.state.clone()).unwrap_or_default();
                Err(state.refused(&awaited, context, refusal))
            }
            Outcome::Done => Err(Error::Internal("a request ended with done".into())),
        }
    }
}

/// A request in line. Dropped before it is granted, it leaves neither lock nor waiter, and a lease
/// that was to be upgraded as it was.
struct QueuedRequest<'a> {
    store: &'a MemoryStore,
    awaited: Awaited,
    is_granted: bool,
}

impl QueuedRequest<'_> {
    /// Returns the lease. The wait for an upgrade ends with an error if its lease is released
    /// meanwhile.
    async fn wait_for_grant(mut self, granted: oneshot::Receiver<Lease>) -> Result<Lease> {
        let lease = granted.await.map_err(|_| match &self.awaited {
            Awaited::Lease(_) => Error::Internal("a waiter was forgotten".into()),
            Awaited::Upgrade(request, _) => Error::not_held(&request.lease),
        })?;
        self.is_granted = true;
        Ok(lease)
    }
}

impl Drop for QueuedRequest<'_> {
    fn drop(&mut self) {
        if self.is_granted {
            return;
        }
        let (resource, lease) = (self.awaited.resource(), self.awaited.lease());
        let withdraw = Ask::Withdraw(lease.clone());
        // A request that is no longer in line was granted in this instant.
        if self.store.decide(resource, &withdraw, None) != Outcome::Done {
            let undo = match self.awaited {
                Awaited::Lease(_) => Ask::Release(lease.clone()),
                Awaited::Upgrade(..) => Ask::Downgrade(lease.clone()),
            };
            self.store.decide(resource, &undo, None);
        }
    }
}
