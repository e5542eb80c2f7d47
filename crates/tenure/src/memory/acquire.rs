//! A new lease.

use std::sync::Arc;

use tenure_core::decide::{Ask, Outcome, Refusal, Wait};
use tenure_core::{Error, Lease, LeaseId, Request, Resource, Result, Store};
use tenure_os::clock;
use tokio::sync::oneshot;

use super::MemoryStore;
use super::change::NEVER;
use super::tables::Waiter;

/// Receives the grant.
type Granted = oneshot::Receiver<Lease>;

impl MemoryStore {
    pub(super) async fn acquire_or_queue(&self, request: &Request) -> Result<Option<Lease>> {
        let (outcome, granted) = self.ask(request);
        match outcome {
            Outcome::Granted => received(granted).map(Some),
            Outcome::Busy => Ok(None),
            Outcome::Queued => {
                let lease = request.lease.clone();
                let queued = QueuedRequest {
                    store: self,
                    resource: &request.resource,
                    lease: &request.lease,
                    undo: Some(Ask::Release(lease)),
                };
                let lease = queued.wait_for_grant(granted).await;
                let forgotten = || Error::Internal("a waiter was forgotten".into());
                lease.map(Some).ok_or_else(forgotten)
            }
            Outcome::Refused(refusal) => Err(self.refused(request, refusal)),
            Outcome::Done => Err(Error::Internal("acquire ended with done".into())),
        }
    }

    fn refused(&self, request: &Request, refusal: Refusal) -> Error {
        let context = self.context_of(&request.resource, request.mode);
        let tables = self.tables();
        let entry = tables.entries.get(&request.resource);
        let state = entry.map(|entry| entry.state.clone()).unwrap_or_default();
        state.refused(request, context, refusal)
    }

    fn ask(&self, request: &Request) -> (Outcome, Granted) {
        let ask = Ask::acquire(request, for_ever(request.wait));
        let (wake, granted) = oneshot::channel();
        let new_request = Waiter {
            since: clock::now(),
            asker: Arc::clone(&request.asker),
            deadline: request.deadline,
            request: Some(request.clone()),
            wake,
        };
        let outcome = self.decide(&request.resource, &ask, Some(new_request));
        (outcome, granted)
    }
}

/// Removes the deadline: the keeper's is enough, because it drops the wait in this same process.
pub(super) fn for_ever(wait: Wait) -> Wait {
    match wait {
        Wait::No => Wait::No,
        Wait::Until(_) => Wait::Until(NEVER),
    }
}

pub(super) fn received(mut granted: Granted) -> Result<Lease> {
    let lease = granted.try_recv();
    lease.map_err(|_| Error::Internal("a grant was not told to who asked".into()))
}

/// A request in line. Dropped before it is granted, it leaves neither lock nor waiter, and a lease
/// that was to be upgraded as it was.
pub(super) struct QueuedRequest<'a> {
    pub(super) store: &'a MemoryStore,
    pub(super) resource: &'a Resource,
    pub(super) lease: &'a LeaseId,
    /// The request that undoes a grant.
    pub(super) undo: Option<Ask>,
}

impl QueuedRequest<'_> {
    /// Returns the lease, or `None` if it was released meanwhile: that ends the wait for its
    /// upgrade.
    pub(super) async fn wait_for_grant(mut self, granted: Granted) -> Option<Lease> {
        let lease = granted.await.ok()?;
        self.undo = None;
        Some(lease)
    }
}

impl Drop for QueuedRequest<'_> {
    fn drop(&mut self) {
        let Some(undo) = self.undo.take() else {
            return;
        };
        let lease = self.lease.clone();
        // A request that is no longer in line was granted in this instant.
        if self
            .store
            .decide(self.resource, &Ask::Withdraw(lease), None)
            != Outcome::Done
        {
            self.store.decide(self.resource, &undo, None);
        }
    }
}
