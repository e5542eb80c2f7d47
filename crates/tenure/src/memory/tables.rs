//! The tables: every resource that is held or awaited.

use std::collections::{BTreeMap, HashMap};

use tenure_core::decide::State;
use tenure_core::request::Awaited;
use tenure_core::{Lease, LeaseId, Resource, Timestamp, Token};
use tokio::sync::oneshot;

/// All resources that are held or awaited.
#[derive(Default)]
pub(super) struct Tables {
    /// No entry is empty: it is dropped with its last lease and waiter.
    pub(super) entries: BTreeMap<Resource, Entry>,
    /// The resource of each lease.
    pub(super) resources: HashMap<LeaseId, Resource>,
    /// The last token drawn.
    pub(super) token: Token,
    /// The newest token of each resource that was granted before and has no entry.
    pub(super) newest: HashMap<Resource, Token>,
}

/// One resource that is held or awaited.
pub(super) struct Entry {
    /// The input of a decision.
    pub(super) state: State,
    /// The newest token of the resource.
    pub(super) token: Token,
    /// The lease of each holder.
    pub(super) leases: HashMap<LeaseId, Lease>,
    /// The waiters, by the lease they wait for.
    pub(super) waiters: HashMap<LeaseId, Waiter>,
}

/// A request in line.
pub(super) struct Waiter {
    pub(super) since: Timestamp,
    pub(super) awaited: Awaited,
    /// Sends the waiter its lease.
    pub(super) wake: oneshot::Sender<Lease>,
}

impl Tables {
    /// Returns the newest token of a resource, or `None` if it was never granted.
    pub(super) fn token_of(&self, resource: &Resource) -> Option<Token> {
        let entry = self.entries.get(resource).map(|entry| entry.token);
        entry.or_else(|| self.newest.get(resource).copied())
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
