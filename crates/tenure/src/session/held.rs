//! What a session holds and awaits: the checks of re-entry and order.
//!
//! A request counts from the moment it is made, not from its grant: two tasks of a
//! session that ask at the same time are checked against each other. In the same step it
//! joins the line of the session (see [`turn`](super::turn)).

use std::cmp::Ordering;
use std::sync::{Arc, Mutex};

use tenure_core::{LeaseId, Ranking, Resource};

use super::Held;
use super::turn::{Line, Turn};
use crate::poison::lock;

/// Why a session may not ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It holds or awaits the resource already.
    Reentry { resource: Resource, lease: LeaseId },
    /// It holds or awaits something that must be taken later.
    Order { asked: Resource, held: Resource },
}

/// Everything a session holds and awaits.
pub(crate) struct Book {
    ranking: Ranking,
    store: String,
    ancestors: Vec<Held>,
    entries: Mutex<Vec<Entry>>,
    line: Arc<Line>,
}

struct Entry {
    lease: LeaseId,
    resource: Resource,
    keeps: Keeps,
}

/// What keeps an entry in the book.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keeps {
    /// Its claim.
    Claim,
    /// The store: the lease is left there on its own, and may end at any time.
    Store,
}

/// One resource held or awaited, until dropped.
pub(crate) struct Claim {
    book: Arc<Book>,
    pub(crate) lease: LeaseId,
}

impl Book {
    pub(super) fn new(ranking: Ranking, store: String, ancestors: Vec<Held>) -> Self {
        Self {
            ranking,
            store,
            ancestors,
            entries: Mutex::default(),
            line: Arc::default(),
        }
    }

    /// Checks a request for several resources and enters all of them or none, with a place
    /// in the line. One step, so that of two tasks that ask at once the second sees the
    /// first, and is behind it.
    pub(crate) fn enter(
        self: &Arc<Self>,
        asked: Vec<(LeaseId, Resource)>,
    ) -> Result<(Vec<Claim>, Turn), Refusal> {
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
                keeps: Keeps::Claim,
            });
            Claim {
                book: Arc::clone(self),
                lease,
            }
        };
        let claims = asked.into_iter().map(enter).collect();
        Ok((claims, Turn::join(&self.line)))
    }

    /// Checks that nothing is held or awaited that is ordered after the resource, and joins
    /// the line: an upgrade waits for it as if it were asked for anew.
    pub(crate) fn enter_upgrade(&self, resource: &Resource) -> Result<Turn, Refusal> {
        let entries = lock(&self.entries);
        self.check_order(&entries, resource)?;
        Ok(Turn::join(&self.line))
    }

    /// What was left in the store on its own.
    pub(super) fn left(&self) -> Vec<LeaseId> {
        let entries = lock(&self.entries);
        let left = entries.iter().filter(|entry| entry.keeps == Keeps::Store);
        left.map(|entry| entry.lease.clone()).collect()
    }

    /// Strikes out leases that ended without the session.
    pub(super) fn strike_out(&self, ended: &[LeaseId]) {
        lock(&self.entries).retain(|entry| !ended.contains(&entry.lease));
    }

    fn check_reentry(&self, entries: &[Entry], asked: &Resource) -> Result<(), Refusal> {
        // The same name in another store is another lock.
        let around = self.ancestors.iter().filter(|h| h.store == self.store);
        let around = around.map(|held| (&held.resource, &held.lease));
        let own = entries.iter().map(|entry| (&entry.resource, &entry.lease));
        match around.chain(own).find(|(held, _)| *held == asked) {
            None => Ok(()),
            Some((resource, lease)) => Err(Refusal::Reentry {
                resource: resource.clone(),
                lease: lease.clone(),
            }),
        }
    }

    fn check_order(&self, entries: &[Entry], asked: &Resource) -> Result<(), Refusal> {
        // Ancestors count whatever their store: a circle may lead through several stores.
        let around = self.ancestors.iter().map(|held| &held.resource);
        let own = entries.iter().map(|entry| &entry.resource);
        let later = |held: &&Resource| self.ranking.compare(asked, held) == Ordering::Less;
        match around.chain(own).find(later) {
            None => Ok(()),
            Some(held) => Err(Refusal::Order {
                asked: asked.clone(),
                held: held.clone(),
            }),
        }
    }
}

impl Claim {
    /// The lease goes on without its guard, and still counts as held by the session.
    pub(crate) fn leave(self) {
        let mut entries = lock(&self.book.entries);
        for entry in entries.iter_mut().filter(|entry| entry.lease == self.lease) {
            entry.keeps = Keeps::Store;
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut entries = lock(&self.book.entries);
        entries.retain(|entry| entry.lease != self.lease || entry.keeps == Keeps::Store);
    }
}
