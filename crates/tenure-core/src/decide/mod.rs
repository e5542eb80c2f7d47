//! The one decision: who gets what, who waits, and what happens next.
//!
//! [`decide`] is a pure function of one resource's holders and waiters, a request and
//! the time. A store locks the resource, loads its state, calls it, and writes the
//! changes in one step. No store decides by itself.
//!
//! # The table
//!
//! "Fits" means: no holder conflicts ([`Mode::conflicts_with`]). "Line" is the queue of
//! waiters whose deadline has not passed; a waiting upgrade stands before all of it.
//!
//! | request | when | outcome | changes |
//! |---|---|---|---|
//! | acquire | the session holds or waits for the resource | refused: re-entry | – |
//! | acquire | fits, line empty | granted | grant |
//! | acquire, not waiting | otherwise | busy | – |
//! | acquire, waiting | otherwise | queued at the end | enqueue |
//! | upgrade | lease unknown | refused: not held | – |
//! | upgrade | lease is read | refused: not upgradeable | – |
//! | upgrade | lease is write already | refused: write already | – |
//! | upgrade | it is waiting already | refused: re-entry | – |
//! | upgrade | the only holder | granted | mode |
//! | upgrade, not waiting | otherwise | busy | – |
//! | upgrade, waiting | otherwise | queued before the line | enqueue |
//! | downgrade | lease was upgraded | done | mode, then the line moves |
//! | downgrade | otherwise | refused: not held, or never upgraded | – |
//! | release | lease held | done | remove (its waiting upgrade too), then the line moves |
//! | release | otherwise | refused: not held | – |
//! | withdraw | waiter in line | done | dequeue, then the line moves |
//! | withdraw | otherwise | refused: not waiting | – |
//!
//! "The line moves": first those whose deadline has passed are dequeued. A waiting upgrade
//! is granted if its lease is the only holder, and while it waits nobody else is granted.
//! Then the first in line is granted while it fits; the first that does not fit stops all
//! behind it. So a run of readers enters together, and no reader overtakes a writer.
//!
//! # Invariants (proved by enumeration in the tests)
//!
//! 1. No two holders conflict.
//! 2. After every decision, nobody who could be granted is left waiting.
//! 3. Nobody is granted before someone who came earlier and still waits, except an upgrade.
//! 4. Exactly the grants of write, and upgrades, draw a new token.
//! 5. A session holds or awaits a resource at most once, an upgrade of its own lease aside.

mod acquire;
mod line;
mod release;
mod state;
mod upgrade;

#[cfg(test)]
mod enumeration;

pub use state::{Holder, State, Waiter, Want};

use crate::{LeaseId, Mode, SessionId};

/// A point in time on the clock the store decides by, in milliseconds.
pub type Millis = u64;

/// Whether a request waits, and until when.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Wait {
    /// Answer busy at once.
    No,
    /// Wait, at most until then.
    Until(Millis),
}

/// What is asked of one resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    /// A new lease.
    Acquire {
        /// The id it will have; until granted, the id of the waiter.
        lease: LeaseId,
        /// For whom.
        session: SessionId,
        /// How.
        mode: Mode,
        /// Whether to wait.
        wait: Wait,
    },
    /// An upgradeable lease is to become write.
    Upgrade {
        /// Which.
        lease: LeaseId,
        /// Whether to wait.
        wait: Wait,
    },
    /// An upgraded lease is to become upgradeable again.
    Downgrade {
        /// Which.
        lease: LeaseId,
    },
    /// A lease ends.
    Release {
        /// Which.
        lease: LeaseId,
    },
    /// A waiter gives up.
    Withdraw {
        /// The id of its lease to be, or of the lease to be upgraded.
        lease: LeaseId,
    },
}

/// How a request ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The lease is held as asked.
    Granted,
    /// The request waits in line.
    Queued,
    /// It would have to wait.
    Busy,
    /// The request had its effect.
    Done,
    /// The request makes no sense here.
    Refused(Refusal),
}

/// Why a request makes no sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The session holds or waits for the resource already.
    Reentry,
    /// There is no such lease.
    NotHeld,
    /// The lease is read; only an upgradeable one can be upgraded.
    NotUpgradeable,
    /// The lease is write already.
    AlreadyWrite,
    /// The lease was never upgraded, so there is nothing to go back to.
    NeverUpgraded,
    /// There is no such waiter.
    NotWaiting,
}

/// What a store has to write, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A lease begins. Draw a token if the mode is exclusive; wake its waiter if it has one.
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
    /// A lease ends.
    Remove(LeaseId),
    /// A waiter joins the line.
    Enqueue(Waiter),
    /// A waiter leaves the line: granted, withdrawn or out of time.
    Dequeue(LeaseId),
}

/// The outcome and what to write for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// How the request ends.
    pub outcome: Outcome,
    /// What to write.
    pub changes: Vec<Change>,
}

/// Decides a request on one resource. See the [table](self).
pub fn decide(state: &State, ask: &Ask, now: Millis) -> Decision {
    // The line is moved first, so that a request meets a state in which
    // nobody is left waiting who ran out of time or could be granted.
    let mut plan = state::Plan::new(state);
    line::move_up(&mut plan, now);
    let outcome = match ask {
        Ask::Acquire {
            lease,
            session,
            mode,
            wait,
        } => acquire::acquire(&mut plan, lease, session, *mode, *wait),
        Ask::Upgrade { lease, wait } => upgrade::upgrade(&mut plan, lease, *wait),
        Ask::Downgrade { lease } => upgrade::downgrade(&mut plan, lease),
        Ask::Release { lease } => release::release(&mut plan, lease),
        Ask::Withdraw { lease } => release::withdraw(&mut plan, lease),
    };
    line::move_up(&mut plan, now);
    Decision {
        outcome,
        changes: plan.into_changes(),
    }
}
