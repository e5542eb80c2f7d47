//! The changes that a store has to write.

use super::{Bound, Holder, HolderState, Outcome, Waiter};
use crate::{LeaseId, Mode};

/// One change that a store has to write, in the order of the decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A lease begins, held by the session that asked or on offer to a waiter. Draw a token if the
    /// mode is exclusive; wake its waiter if it has one.
    Grant(Holder),
    /// A lease changes its mode. Draw a token if it is exclusive now; wake its waiter if it has
    /// one.
    SetMode {
        /// The lease whose mode changes.
        lease: LeaseId,
        /// Its new mode.
        mode: Mode,
        /// True if it is write by an upgrade.
        upgraded: bool,
    },
    /// A lease was accepted, or is being broken.
    SetState {
        /// The lease whose state changes.
        lease: LeaseId,
        /// Its new state.
        state: HolderState,
    },
    /// A lease becomes lease-bound, or gets new time.
    SetBinding {
        /// The lease whose binding changes.
        lease: LeaseId,
        /// The condition that ends it from now on.
        binding: Bound,
    },
    /// A lease ends.
    Remove {
        /// The lease that ends.
        lease: LeaseId,
        /// The event that ended it.
        end: End,
    },
    /// A waiter joins the line.
    Enqueue(Waiter),
    /// A waiter leaves the line: granted, withdrawn, out of time, dead, or with a lease that can no
    /// longer be upgraded. If it was granted, a grant or a new mode follows. Any other waiter has
    /// to be told that it will not be granted.
    Dequeue(LeaseId),
}

/// The event that ended a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum End {
    /// Its holder released it.
    Released,
    /// Its session is proved dead.
    SessionEnded,
    /// It was stale, and another request wanted the resource.
    Recovered,
    /// The waiter it was offered to did not accept it in time.
    OfferLapsed,
    /// A person broke it, and its holder did not confirm its stop in time.
    Broken,
}

/// The outcome of a request, and the changes to write for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The outcome of the request.
    pub outcome: Outcome,
    /// The changes to write, in this order.
    pub changes: Vec<Change>,
}
