//! The state of one resource (holders and waiters), and a plan of changes to it.

use super::{Change, Millis, Refusal};
use crate::request::Awaited;
use crate::{Error, LeaseId, LockContext, Mode, SessionId};

/// One lease in force.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Holder {
    /// The id of the lease.
    pub lease: LeaseId,
    /// The session that holds it.
    pub session: SessionId,
    /// The mode it is held in.
    pub mode: Mode,
    /// True if it was taken as upgradeable and is write by an upgrade.
    pub upgraded: bool,
    /// The state: on offer, held, or being broken.
    pub state: HolderState,
    /// The condition that ends it if its holder does not release it.
    pub binding: Bound,
    /// The proof about its session.
    pub life: Life,
}

/// The state of a lease between its grant and its end. In each state it keeps others out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HolderState {
    /// Granted and in force.
    Held,
    /// Granted to a waiter that has not accepted it yet.
    Offered {
        /// The time when the next waiter gets it instead.
        until: Millis,
    },
    /// Being broken by a person. Its holder has time to stop.
    Revoking {
        /// The time when it ends even if the holder has not confirmed its stop.
        until: Millis,
    },
}

/// The condition that ends a lease if its holder does not release it. Every grant starts bound to
/// its session; [`Ask::Bind`](super::Ask::Bind) makes it lease-bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Bound {
    /// The proved death of its session.
    Session,
    /// The end of its time.
    Lease {
        /// The time when it expires.
        expires: Millis,
        /// The time when its last heartbeat becomes older than the grace period.
        stale: Millis,
        /// True if an active job claims it.
        claimed: bool,
    },
}

/// The proof that the store has about a session. Without a proof it counts as alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Life {
    /// The session is alive, or not proved dead.
    Alive,
    /// The session is proved dead.
    Dead,
}

/// The goal of a waiter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Want {
    /// A new lease.
    Lease {
        /// The mode it asks for.
        mode: Mode,
        /// The number of holders that the resource may have at once, for this waiter; `None` if the
        /// modes decide.
        capacity: Option<u32>,
    },
    /// The upgrade of its lease to write.
    Upgrade,
}

impl Want {
    /// Returns the mode in which the lease will be held.
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
    /// The id of the future lease, or of the lease to upgrade.
    pub lease: LeaseId,
    /// The session that will hold the lease, or holds the lease to upgrade.
    pub session: SessionId,
    /// The lease or upgrade that it waits for.
    pub want: Want,
    /// The time when it gives up. From that moment on it is not granted.
    pub deadline: Millis,
    /// The proof about the session that waits. For an upgrade it need not be the session that
    /// holds the lease.
    pub life: Life,
}

/// The holders of one resource, and its waiters in order of arrival.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct State {
    /// The holders. Without slots, no two conflict.
    pub holders: Vec<Holder>,
    /// The waiters in order of arrival. An upgrade is served before all others.
    pub waiters: Vec<Waiter>,
}

impl State {
    /// Returns the error for a request that was refused. A session that asks for what it holds or
    /// awaits is told of its lease.
    pub fn refused(&self, awaited: &Awaited, context: Box<LockContext>, refusal: Refusal) -> Error {
        let Awaited::Lease(request) = awaited else {
            return refusal.of_mode(awaited.lease(), context);
        };
        let held = self.holders.iter().map(|one| (&one.session, &one.lease));
        let waiting = self.waiters.iter().map(|one| (&one.session, &one.lease));
        let session = &request.asker.session;
        match held.chain(waiting).find(|(of, _)| *of == session) {
            Some((_, lease)) => Error::Reentry {
                context,
                lease: lease.clone(),
            },
            None => Error::Internal(format!("acquire was refused: {refusal:?}")),
        }
    }

    /// Returns true if there are no holders and no waiters.
    pub fn is_empty(&self) -> bool {
        self.holders.is_empty() && self.waiters.is_empty()
    }

    /// Returns the holder of a lease.
    pub fn holder(&self, lease: &LeaseId) -> Option<&Holder> {
        self.holders.iter().find(|holder| holder.lease == *lease)
    }

    /// Returns the waiter for a lease.
    pub fn waiter(&self, lease: &LeaseId) -> Option<&Waiter> {
        self.waiters.iter().find(|waiter| waiter.lease == *lease)
    }

    /// Returns the earliest waiting upgrade, if there is one. Without slots there is at most one,
    /// since there is at most one upgradeable holder.
    pub fn waiting_upgrade(&self) -> Option<&Waiter> {
        let is_upgrade = |waiter: &&Waiter| waiter.want == Want::Upgrade;
        self.waiters.iter().find(is_upgrade)
    }

    /// Returns the waiters in the order in which they are served: upgrades first, then by arrival.
    pub fn line(&self) -> Vec<&Waiter> {
        let mut line: Vec<&Waiter> = self.waiters.iter().collect();
        // The sort is stable.
        line.sort_by_key(|waiter| waiter.want != Want::Upgrade);
        line
    }

    /// Returns true if a new lease can be granted beside the current holders: none conflicts with
    /// its mode or, if it states a capacity, there are fewer holders than that.
    pub fn fits(&self, mode: Mode, capacity: Option<u32>) -> bool {
        match capacity {
            Some(capacity) => self.holders.len() < capacity as usize,
            None => !self.holders.iter().any(|h| h.mode.conflicts_with(mode)),
        }
    }

    /// Applies one change.
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
            Change::SetState { lease, state } => {
                self.edit(lease, |holder| holder.state = *state);
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
