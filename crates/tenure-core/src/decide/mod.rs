//! The decision on every request: who is granted, who waits, and what a store has to write.
//!
//! [`decide`] is a pure function of the holders and waiters of one resource, a request and the
//! time. A store locks the resource, loads its state, calls `decide`, and writes the changes in
//! one step. No store decides on its own.
//!
//! # The table
//!
//! "Fits" means: no holder conflicts ([`Mode::conflicts_with`](crate::Mode::conflicts_with)) or,
//! if the request states a capacity N, there are fewer than N holders. "Line" is the queue of
//! waiters; a waiting upgrade is served before all of them.
//!
//! | request | when | outcome | changes |
//! |---|---|---|---|
//! | acquire | the session holds or waits for the resource | refused: re-entry | – |
//! | acquire | fits, line empty | granted | grant (held) |
//! | acquire, not waiting or out of time | otherwise | busy | – |
//! | acquire, waiting | otherwise | queued at the end | enqueue |
//! | accept | lease on offer | done | state: held |
//! | accept | lease held | done | – |
//! | accept | otherwise | refused: not held, or revoked | – |
//! | bind | lease held or on offer | done | state: held; binding: its time begins |
//! | bind | otherwise | refused: not held, or revoked | – |
//! | renew | lease-bound, expired or not | done | binding: its time begins anew |
//! | renew | otherwise | refused: not held, revoked, or not lease-bound | – |
//! | upgrade | lease unknown | refused: not held | – |
//! | upgrade | lease is being broken | refused: revoked | – |
//! | upgrade | lease has expired | refused: expired | – |
//! | upgrade | lease is read | refused: not upgradeable | – |
//! | upgrade | lease is write already | refused: write already | – |
//! | upgrade | it is waiting already | refused: re-entry | – |
//! | upgrade | the only holder | granted | mode |
//! | upgrade, not waiting or out of time | otherwise | busy | – |
//! | upgrade, waiting | otherwise | queued before the line | enqueue |
//! | downgrade | lease was upgraded | done | mode, then the line moves |
//! | downgrade | otherwise | refused: not held, or never upgraded | – |
//! | release | lease there, in any state | done | remove (its waiting upgrade too), then the line moves |
//! | release | otherwise | refused: not held | – |
//! | withdraw | waiter in line | done | dequeue, then the line moves |
//! | withdraw | otherwise | refused: not waiting | – |
//! | break | lease held or on offer | done | state: revoking for [`BREAK_MS`] |
//! | break | lease is being broken | done | – |
//! | break | otherwise | refused: not held | – |
//! | look | – | done | – |
//!
//! Only the holder of a lease asks to bind or upgrade it, so these requests also accept an offer.
//!
//! # The sweep, and how the line moves
//!
//! Before every request and again after it, these are removed, in this order:
//!
//! 1. Session-bound leases of a session proved dead, in any state.
//! 2. Offers not accepted in time, and broken leases whose holder's time to stop is over.
//! 3. Waiters that are dead or out of time, and waits for the upgrade of a lease that is
//!    gone, expired or being broken.
//! 4. Stale leases: expired, the heartbeat older than its grace, claimed by no job, and not
//!    being broken. Only if the resource is wanted: the request is an acquire, an upgrade
//!    or a look, or the line is not empty. Never the lease that the request is about: its
//!    holder is there, and still has it.
//!
//! Then a waiting upgrade is granted if its lease is the only holder. While it waits, no other
//! request is granted. Then the first in line is granted while it fits; the first that does not fit
//! stops all behind it. A run of readers is thus granted together, and no reader overtakes a
//! writer. With slots, only the capacity that the first in line states counts.
//!
//! A grant from the line is an offer for [`OFFER_MS`], or until the waiter's own deadline
//! if that is sooner, so that a waiter that was stopped or ran out of time does not block others.
//! A waiting upgrade is granted without an offer, because its holder has the lease already.
//!
//! # Invariants (proved by enumeration in the tests)
//!
//! 1. No two holders conflict; with slots, no request was granted beside as many holders as its
//!    capacity.
//! 2. After every decision, no waiter that could be granted still waits.
//! 3. No request is granted before an earlier one that still waits, except an upgrade.
//! 4. Exactly the grants of write, and upgrades, draw a new token.
//! 5. A session holds or awaits a resource at most once, an upgrade of its own lease aside.
//! 6. A lease that was not released does not end while its session is alive and it is neither
//!    expired nor being broken. An offer does not end before its time.
//! 7. A lease that is being broken keeps others out until its holder releases it, is
//!    proved dead, or has had its time to stop.

mod acquire;
mod ask;
mod binding;
mod breaking;
mod change;
mod explain;
mod line;
mod release;
mod state;
mod sweep;
mod upgrade;

#[cfg(test)]
mod enumeration;

pub use ask::{Ask, Outcome, Refusal, Wait};
pub use change::{Change, Decision, End};
pub use explain::{Explained, explain, explain_waiter};
pub use state::{Bound, Holder, HolderState, Life, State, Waiter, Want};
pub use sweep::next_look;

/// A point in time on the clock the store decides by, in milliseconds, or a span of it.
pub type Millis = u64;

/// The time that a grant from the line stays on offer before the next waiter gets it.
pub const OFFER_MS: Millis = 5_000;
/// The time that the holder of a broken lease has to stop.
pub const BREAK_MS: Millis = 10_000;

/// Decides a request on one resource. See the [table](self).
pub fn decide(state: &State, ask: &Ask, now: Millis) -> Decision {
    // The line moves first, so that the request meets a state without dead holders, and without
    // waiters that ran out of time or could be granted.
    let mut plan = state::Plan::new(state);
    line::move_up(&mut plan, ask, now);
    let outcome = match ask {
        Ask::Acquire {
            lease,
            session,
            mode,
            capacity,
            wait,
        } => {
            let want = Want::Lease {
                mode: *mode,
                capacity: *capacity,
            };
            acquire::acquire(&mut plan, lease, session, want, wait.deadline(now))
        }
        Ask::Accept(lease) => acquire::accept(&mut plan, lease),
        Ask::Bind { lease, ttl, grace } => binding::bind(&mut plan, lease, *ttl, *grace, now),
        Ask::Renew { lease, ttl, grace } => binding::renew(&mut plan, lease, *ttl, *grace, now),
        Ask::Upgrade { lease, wait } => upgrade::upgrade(&mut plan, lease, wait.deadline(now), now),
        Ask::Downgrade(lease) => upgrade::downgrade(&mut plan, lease),
        Ask::Release(lease) => release::release(&mut plan, lease),
        Ask::Withdraw(lease) => release::withdraw(&mut plan, lease),
        Ask::Break(lease) => breaking::break_lease(&mut plan, lease, now),
        Ask::Look => Outcome::Done,
    };
    line::move_up(&mut plan, ask, now);
    Decision {
        outcome,
        changes: plan.into_changes(),
    }
}
