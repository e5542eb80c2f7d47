//! The locks that a session holds and awaits: the checks of re-entry and order.
//!
//! A request counts from the moment it is made, not from its grant: two tasks of a session that
//! ask at the same time are checked against each other. In the same step the request joins the
//! queue of the session (see [`request_queue`](super::request_queue)).

use std::cmp::Ordering;
use std::sync::{Arc, Mutex};

use tenure_core::internal::lock;
use tenure_core::{LeaseId, Ranking, Resource};

use super::OuterLease;
use super::request_queue::{QueuePlace, RequestQueue};

/// The reason why a session may not make a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RequestRefusal {
    /// The session holds or awaits the resource already.
    Reentry { resource: Resource, lease: LeaseId },
    /// The session holds or awaits a resource that must be taken later.
    Order { asked: Resource, held: Resource },
}

/// Everything a session holds and awaits.
pub(crate) struct SessionLocks {
    ranking: Ranking,
    store: String,
    ancestors: Vec<OuterLease>,
    entries: Mutex<Vec<Entry>>,
    queue: Arc<RequestQueue>,
}

struct Entry {
    lease: LeaseId,
    resource: Resource,
    /// True if the lease was left in the store, and may end at any time.
    left: bool,
}

/// The entry of one resource held or awaited, until dropped.
pub(crate) struct Reservation {
    locks: Arc<SessionLocks>,
    pub(crate) lease: LeaseId,
}

impl SessionLocks {
    pub(super) fn new(ranking: Ranking, store: String, ancestors: Vec<OuterLease>) -> Self {
        Self {
            ranking,
            store,
            ancestors,
            entries: Mutex::default(),
            queue: Arc::default(),
        }
    }

    /// Checks a request for several resources and enters all of them or none, with a place in the
    /// queue. This is one step: if two tasks ask at once, the second sees the first and is behind
    /// it.
    pub(crate) fn enter(
        self: &Arc<Self>,
        asked: Vec<(LeaseId, Resource)>,
    ) -> Result<(Vec<Reservation>, QueuePlace), RequestRefusal> {
        let mut entries = lock(&self.entries);
        for (_, resource) in &asked {
            self.check_reentry(&entries, resource)?;
        }
        for (_, resource) in &asked {
            self.check_order(&entries, resource)?;
        }
        let enter = |(lease, resource): (LeaseId, Resource)| {
            entries.push(Entry {
                lease: lease.clone(),
                resource,
                left: false,
            });
            Reservation {
                locks: Arc::clone(self),
                lease,
            }
        };
        let reservations = asked.into_iter().map(enter).collect();
        Ok((reservations, QueuePlace::join(&self.queue)))
    }

    /// Checks that the session holds and awaits nothing that is ordered after the resource, and
    /// joins the queue. An upgrade is checked like a new request for the resource.
    pub(crate) fn enter_upgrade(&self, resource: &Resource) -> Result<QueuePlace, RequestRefusal> {
        let entries = lock(&self.entries);
        self.check_order(&entries, resource)?;
        Ok(QueuePlace::join(&self.queue))
    }

    /// Returns the lease under which a resource is held or awaited.
    pub(super) fn lease_of(&self, resource: &Resource) -> Option<LeaseId> {
        let entries = lock(&self.entries);
        let entry = entries.iter().find(|entry| entry.resource == *resource);
        entry.map(|entry| entry.lease.clone())
    }

    /// Returns the leases of outer runs in the store of the session.
    pub(super) fn around(&self) -> Vec<LeaseId> {
        let around = self.ancestors.iter().filter(|h| h.store == self.store);
        around.map(|held| held.lease.clone()).collect()
    }

    /// Returns true if the session holds or awaits more than one resource.
    pub(super) fn has_several(&self) -> bool {
        lock(&self.entries).len() > 1
    }

    /// Returns the leases that were left in the store.
    pub(super) fn left_in_store(&self) -> Vec<LeaseId> {
        let entries = lock(&self.entries);
        let left = entries.iter().filter(|entry| entry.left);
        left.map(|entry| entry.lease.clone()).collect()
    }

    /// Forgets leases that ended without the session.
    pub(super) fn forget(&self, ended: &[LeaseId]) {
        lock(&self.entries).retain(|entry| !ended.contains(&entry.lease));
    }

    fn check_reentry(&self, entries: &[Entry], asked: &Resource) -> Result<(), RequestRefusal> {
        // A resource of this name in another store is another lock.
        let around = self.ancestors.iter().filter(|h| h.store == self.store);
        let around = around.map(|held| (&held.resource, &held.lease));
        let own = entries.iter().map(|entry| (&entry.resource, &entry.lease));
        match around.chain(own).find(|(held, _)| *held == asked) {
            None => Ok(()),
            Some((resource, lease)) => Err(RequestRefusal::Reentry {
                resource: resource.clone(),
                lease: lease.clone(),
            }),
        }
    }

    fn check_order(&self, entries: &[Entry], asked: &Resource) -> Result<(), RequestRefusal> {
        // Ancestors count whatever their store: a circle may lead through several stores.
        let around = self.ancestors.iter().map(|held| &held.resource);
        let own = entries.iter().map(|entry| &entry.resource);
        let later = |held: &&Resource| self.ranking.compare(asked, held) == Ordering::Less;
        match around.chain(own).find(later) {
            None => Ok(()),
            Some(held) => Err(RequestRefusal::Order {
                asked: asked.clone(),
                held: held.clone(),
            }),
        }
    }
}

impl Reservation {
    /// Leaves the lease in the store without a guard. It still counts as held by the session.
    pub(crate) fn leave(self) {
        let mut entries = lock(&self.locks.entries);
        for entry in entries.iter_mut().filter(|entry| entry.lease == self.lease) {
            entry.left = true;
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut entries = lock(&self.locks.entries);
        entries.retain(|entry| entry.lease != self.lease || entry.left);
    }
}
