//! What a store has to write.

use super::{Bound, Holder, Outcome, Standing, Waiter};
use crate::{LeaseId, Mode};

/// What a store has to write, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A lease begins, held by who asked or on offer to a waiter. Draw a token if the mode
    /// is exclusive; wake its waiter if it has one.
    Grant(Holder),
    /// A lease changes its mode. Draw a token if it is exclusive now; wake its waiter if it has one.
    SetMode {
        /// Which.
        lease: LeaseId,
        /// What it is from now on.
        mode: Mode,
        /// Whether it was upgraded.
        upgraded: bool,
    },
    /// A lease is taken up, or is being broken.
    SetStanding {
        /// Which.
        lease: LeaseId,
        /// What it is from now on.
        standing: Standing,
    },
    /// A lease becomes lease-bound, or gets new time.
    SetBinding {
        /// Which.
        lease: LeaseId,
        /// What ends it from now on.
        binding: Bound,
    },
    /// A lease ends.
    Remove {
        /// Which.
        lease: LeaseId,
        /// By what.
        end: End,
    },
    /// A waiter joins the line.
    Enqueue(Waiter),
    /// A waiter leaves the line: granted, withdrawn, out of time, dead, or with a lease
    /// that can no longer be upgraded. A grant or a mode follows only for the first;
    /// all others are to be told that they wait in vain.
    Dequeue(LeaseId),
}

/// What ended a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum End {
    /// Its holder.
    Released,
    /// Its session is proved dead.
    SessionEnded,
    /// It was stale, and someone else wanted the resource.
    Recovered,
    /// The waiter it was offered to did not take it up in time.
    OfferLapsed,
    /// A person broke it, and its holder did not confirm its stop in time.
    Broken,
}

/// The outcome and what to write for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// How the request ends.
    pub outcome: Outcome,
    /// What to write.
    pub changes: Vec<Change>,
}
