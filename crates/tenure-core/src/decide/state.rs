//! Holders and waiters of one resource, and a plan of changes to them.

use super::{Change, Millis};
use crate::{LeaseId, Mode, SessionId};

/// One lease in force.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Holder {
    /// Its id.
    pub lease: LeaseId,
    /// Who holds it.
    pub session: SessionId,
    /// How.
    pub mode: Mode,
    /// Whether it was taken as upgradeable and is write by an upgrade.
    pub upgraded: bool,
    /// Whether it is about to begin, in force, or about to end.
    pub standing: Standing,
    /// What ends it when nobody releases it.
    pub binding: Bound,
    /// What is proved of its session.
    pub life: Life,
}

/// Where a lease is between its grant and its end. In each of them it keeps others out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Standing {
    /// In force.
    Held,
    /// Granted to a waiter that has not taken it up. It passes on from that moment.
    Offered {
        /// When it passes on.
        until: Millis,
    },
    /// Being taken away by a person. Until that moment its holder has time to stop.
    Revoking {
        /// When it is taken away, whether the holder confirmed its stop or not.
        until: Millis,
    },
}

/// What ends a lease when nobody releases it. Every grant begins bound to its session;
/// [`Ask::Bind`](super::Ask::Bind) makes it lease-bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Bound {
    /// The proved death of its session.
    Session,
    /// Its time.
    Lease {
        /// When it expires.
        expires: Millis,
        /// When its last heartbeat is older than the grace period.
        stale: Millis,
        /// Whether an active job claims it.
        claimed: bool,
    },
}

/// What the store can prove of a session. One of which nothing is proved counts as alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Life {
    /// Alive, or nothing is known.
    Alive,
    /// Proved dead.
    Dead,
}

/// What a waiter waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Want {
    /// A new lease.
    Lease {
        /// How.
        mode: Mode,
        /// How many may hold the resource at once, as this waiter sees it; None is up to the modes.
        capacity: Option<u32>,
    },
    /// That its upgradeable lease becomes write.
    Upgrade,
}

impl Want {
    /// How the lease will be held.
    pub fn mode(self) -> Mode {
        match self {
            Want::Lease { mode, .. } => mode,
            Want::Upgrade => Mode::Write,
        }
    }
}

/// One queued request.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Waiter {
    /// The id of the lease to be, or of the lease to be upgraded.
    pub lease: LeaseId,
    /// Who will hold the lease, or holds the one to be upgraded.
    pub session: SessionId,
    /// For what.
    pub want: Want,
    /// Until when; from that moment on it is not granted.
    pub deadline: Millis,
    /// What is proved of the session that waits. For an upgrade that need not be the
    /// session that holds the lease.
    pub life: Life,
}

/// Everything that is decided upon: one resource's holders and its line, first come first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct State {
    /// Who holds it. No two conflict, slots aside.
    pub holders: Vec<Holder>,
    /// Who waits, in the order of arrival; an upgrade counts before all others.
    pub waiters: Vec<Waiter>,
}

impl State {
    /// Whether nobody holds it and nobody waits.
    pub fn is_empty(&self) -> bool {
        self.holders.is_empty() && self.waiters.is_empty()
    }

    /// The holder of a lease.
    pub fn holder(&self, lease: &LeaseId) -> Option<&Holder> {
        self.holders.iter().find(|holder| holder.lease == *lease)
    }

    /// The waiter for a lease.
    pub fn waiter(&self, lease: &LeaseId) -> Option<&Waiter> {
        self.waiters.iter().find(|waiter| waiter.lease == *lease)
    }

    /// The upgrade that waits, if any, the earliest if there are several. Without slots
    /// there is at most one, as there is at most one upgradeable holder.
    pub fn waiting_upgrade(&self) -> Option<&Waiter> {
        let is_upgrade = |waiter: &&Waiter| waiter.want == Want::Upgrade;
        self.waiters.iter().find(is_upgrade)
    }

    /// The line as it is served: upgrades first, all others as they came.
    pub fn line(&self) -> Vec<&Waiter> {
        let mut line: Vec<&Waiter> = self.waiters.iter().collect();
        // The sort is stable.
        line.sort_by_key(|waiter| waiter.want != Want::Upgrade);
        line
    }

    /// Whether a new lease can be granted beside the holders there are: no holder
    /// conflicts with its mode; or, where it states a capacity, fewer than that hold the resource.
    pub fn fits(&self, mode: Mode, capacity: Option<u32>) -> bool {
        match capacity {
            Some(capacity) => self.holders.len() < capacity as usize,
            None => !self.holders.iter().any(|h| h.mode.conflicts_with(mode)),
        }
    }

    /// Carries out one change.
    pub fn apply(&mut self, change: &Change) {
        match change {
            Change::Grant(holder) => self.holders.push(holder.clone()),
            Change::SetMode {
                lease,
                mode,
                upgraded,
            } => self.edit(lease, |holder| {
                holder.mode = *mode;
                holder.upgraded = *upgraded;
            }),
            Change::SetStanding { lease, standing } => {
                self.edit(lease, |holder| holder.standing = *standing);
            }
            Change::SetBinding { lease, binding } => {
                self.edit(lease, |holder| holder.binding = *binding);
            }
            Change::Remove { lease, .. } => self.holders.retain(|holder| holder.lease != *lease),
            Change::Enqueue(waiter) => self.waiters.push(waiter.clone()),
            Change::Dequeue(lease) => self.waiters.retain(|waiter| waiter.lease != *lease),
        }
    }

    fn edit(&mut self, lease: &LeaseId, edit: impl FnOnce(&mut Holder)) {
        if let Some(holder) = self.holders.iter_mut().find(|h| h.lease == *lease) {
            edit(holder);
        }
    }
}

/// A state and the changes made to it so far.
pub(super) struct Plan {
    pub(super) state: State,
    changes: Vec<Change>,
}

impl Plan {
    pub(super) fn new(state: &State) -> Self {
        Self {
            state: state.clone(),
            changes: Vec::new(),
        }
    }

    pub(super) fn make(&mut self, change: Change) {
        self.state.apply(&change);
        self.changes.push(change);
    }

    pub(super) fn into_changes(self) -> Vec<Change> {
        self.changes
    }
}
