//! The maps: every resource that someone holds or awaits.

use std::collections::{BTreeMap, HashMap};

use tenure_core::decide::State;
use tenure_core::{Lease, LeaseId, Request, Resource, Timestamp, Token};
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
    /// The request for a new lease; None for an upgrade.
    pub(super) request: Option<Request>,
    /// Tells the waiter what it got.
    pub(super) wake: oneshot::Sender<Lease>,
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
