//! A new lease.

use tenure_core::decide::{Ask, Outcome, Wait};
use tenure_core::{Error, Lease, LeaseId, Request, Resource, Result};
use tenure_files::clock;
use tokio::sync::oneshot;

use super::MemoryStore;
use super::change::NEVER;
use super::shelf::{Asked, Waiter};
use super::store::place;

/// Hears of the grant.
type Granted = oneshot::Receiver<Lease>;

impl MemoryStore {
    pub(super) fn try_take(&self, request: &Request) -> Result<Option<Lease>> {
        let (outcome, granted) = self.ask_for(request, Wait::No);
        match outcome {
            Outcome::Granted => received(granted).map(Some),
            Outcome::Busy => Ok(None),
            other => Err(refused(self, request, &other)),
        }
    }

    pub(super) async fn take(&self, request: &Request) -> Result<Lease> {
        let (outcome, granted) = self.ask_for(request, Wait::Until(NEVER));
        match outcome {
            Outcome::Granted => received(granted),
            Outcome::Queued => {
                let in_line = InLine {
                    store: self,
                    resource: &request.resource,
                    lease: &request.lease,
                    left: false,
                };
                in_line.called(granted).await
            }
            other => Err(refused(self, request, &other)),
        }
    }

    fn ask_for(&self, request: &Request, wait: Wait) -> (Outcome, Granted) {
        let ask = Ask::Acquire {
            lease: request.lease.clone(),
            session: request.asker.session.clone(),
            mode: request.mode,
            capacity: request.capacity,
            wait,
        };
        let (wake, granted) = oneshot::channel();
        let newcomer = Waiter {
            since: clock::now(),
            asked: Asked::Lease(request.clone()),
            wake,
        };
        let outcome = self.decide(&request.resource, &ask, Some(newcomer));
        (outcome, granted)
    }
}

pub(super) fn received(mut granted: Granted) -> Result<Lease> {
    let lease = granted.try_recv();
    lease.map_err(|_| Error::Internal("a grant was not told to who asked".into()))
}

fn refused(store: &MemoryStore, request: &Request, outcome: &Outcome) -> Error {
    let entries = &store.shelf().entries;
    let state = entries.get(&request.resource).map(|entry| &entry.state);
    let session = &request.asker.session;
    let lease = state.and_then(|state| {
        let held = state.holders.iter().map(|h| (&h.session, &h.lease));
        let awaited = state.waiters.iter().map(|w| (&w.session, &w.lease));
        let own = held.chain(awaited).find(|(of, _)| *of == session);
        own.map(|(_, lease)| lease.clone())
    });
    match lease {
        Some(lease) => Error::Reentry {
            place: place(&request.resource, request.mode),
            lease,
        },
        None => Error::Internal(format!("acquire ended with {outcome:?}")),
    }
}

/// A place in the line. Dropped before it was called, it leaves neither lock nor waiter.
struct InLine<'a> {
    store: &'a MemoryStore,
    resource: &'a Resource,
    lease: &'a LeaseId,
    left: bool,
}

impl InLine<'_> {
    async fn called(mut self, granted: Granted) -> Result<Lease> {
        let lease = granted.await;
        self.left = lease.is_ok();
        lease.map_err(|_| Error::Internal("a waiter was forgotten".into()))
    }
}

impl Drop for InLine<'_> {
    fn drop(&mut self) {
        if self.left {
            return;
        }
        let lease = self.lease.clone();
        let withdraw = Ask::Withdraw {
            lease: lease.clone(),
        };
        // Whoever is no longer in line was granted in this instant, and nothing brings it
        // back there: the lock goes to the next.
        if self.store.decide(self.resource, &withdraw, None) != Outcome::Done {
            let release = Ask::Release { lease };
            self.store.decide(self.resource, &release, None);
        }
    }
}
