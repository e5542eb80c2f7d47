//! The maps: every resource that someone holds or awaits.

use std::collections::{BTreeMap, HashMap};

use tenure_core::decide::State;
use tenure_core::{Asker, Lease, LeaseId, Request, Resource, Timestamp, Token, UpgradeRequest};
use tokio::sync::oneshot;

/// All resources that someone holds or awaits.
#[derive(Default)]
pub(super) struct Shelf {
    /// None is empty: an entry is dropped with its last lease and waiter.
    pub(super) entries: BTreeMap<Resource, Entry>,
    /// Which resource a lease belongs to.
    pub(super) resources: HashMap<LeaseId, Resource>,
    /// The last token drawn.
    pub(super) token: Token,
}

/// One resource.
pub(super) struct Entry {
    /// What is decided upon.
    pub(super) state: State,
    /// The last token drawn for it, or the store's when the entry was made.
    pub(super) token: Token,
    /// What is known of each holder.
    pub(super) leases: HashMap<LeaseId, Lease>,
    /// What is known of each waiter.
    pub(super) waiters: HashMap<LeaseId, Waiter>,
}

/// Someone in line.
pub(super) struct Waiter {
    pub(super) since: Timestamp,
    pub(super) asked: Asked,
    /// Tells the waiter what it got.
    pub(super) wake: oneshot::Sender<Lease>,
}

/// What someone asks for.
pub(super) enum Asked {
    /// A new lease.
    Lease(Request),
    /// An upgrade, and to wait for it.
    Upgrade(UpgradeRequest),
    /// An upgrade at once or not at all: this one never stands in line.
    UpgradeNow,
}

impl Asked {
    /// Who asks, and when it gives up, if it can stand in line.
    pub(super) fn by(&self) -> Option<(&Asker, Option<Timestamp>)> {
        match self {
            Asked::Lease(request) => Some((&request.asker, request.deadline)),
            Asked::Upgrade(request) => Some((&request.asker, request.deadline)),
            Asked::UpgradeNow => None,
        }
    }
}

impl Shelf {
    /// The current token of a resource. Of one that nobody holds or awaits nothing is kept but
    /// that its last token is at most the store's.
    pub(super) fn token_of(&self, resource: &Resource) -> Token {
        let entry = self.entries.get(resource);
        entry.map_or(self.token, |entry| entry.token)
    }
}

impl Entry {
    pub(super) fn new(token: Token) -> Self {
        Self {
            state: State::default(),
            token,
            leases: HashMap::new(),
            waiters: HashMap::new(),
        }
    }
}
