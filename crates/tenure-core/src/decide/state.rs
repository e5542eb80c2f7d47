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
}

/// What a waiter waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Want {
    /// A new lease.
    Lease(Mode),
    /// That its upgradeable lease becomes write.
    Upgrade,
}

/// One queued request.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Waiter {
    /// The id of the lease to be, or of the lease to be upgraded.
    pub lease: LeaseId,
    /// Who waits.
    pub session: SessionId,
    /// For what.
    pub want: Want,
    /// Until when; from that moment on it is not granted.
    pub deadline: Millis,
}

/// Everything that is decided upon: one resource's holders and its line, first come first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct State {
    /// Who holds it. No two conflict.
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

    /// The upgrade that waits, if any. There is at most one, as there is at most one
    /// upgradeable holder.
    pub fn waiting_upgrade(&self) -> Option<&Waiter> {
        let is_upgrade = |waiter: &&Waiter| waiter.want == Want::Upgrade;
        self.waiters.iter().find(is_upgrade)
    }

    /// Whether no holder conflicts with the mode.
    pub fn fits(&self, mode: Mode) -> bool {
        let conflicts = |holder: &Holder| holder.mode.conflicts_with(mode);
        !self.holders.iter().any(conflicts)
    }

    /// Carries out one change.
    pub fn apply(&mut self, change: &Change) {
        match change {
            Change::Grant(holder) => self.holders.push(holder.clone()),
            Change::SetMode {
                lease,
                mode,
                upgraded,
            } => {
                for holder in self.holders.iter_mut().filter(|h| h.lease == *lease) {
                    holder.mode = *mode;
                    holder.upgraded = *upgraded;
                }
            }
            Change::Remove(lease) => self.holders.retain(|holder| holder.lease != *lease),
            Change::Enqueue(waiter) => self.waiters.push(waiter.clone()),
            Change::Dequeue(lease) => self.waiters.retain(|waiter| waiter.lease != *lease),
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
