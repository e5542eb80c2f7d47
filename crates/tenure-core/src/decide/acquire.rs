//! Acquiring a new lease, and accepting an offered one.

use super::state::{Bound, Holder, HolderState, Life, Plan, Waiter, Want};
use super::{Change, Millis, Outcome, Refusal};
use crate::{LeaseId, SessionId};

/// Grants the lease if that overtakes no waiter. Otherwise queues it, if there is a deadline.
pub(super) fn acquire(
    plan: &mut Plan,
    lease: &LeaseId,
    session: &SessionId,
    want: Want,
    deadline: Option<Millis>,
) -> Outcome {
    let holds = plan.state.holders.iter().any(|h| h.session == *session);
    let waits = plan.state.waiters.iter().any(|w| w.session == *session);
    if holds || waits {
        return Outcome::Refused(Refusal::Reentry);
    }
    let waiter = Waiter {
        lease: lease.clone(),
        session: session.clone(),
        want,
        deadline: deadline.unwrap_or_default(),
        life: Life::Alive,
    };
    // The line must be empty, so that no waiter is overtaken.
    if plan.state.waiters.is_empty() && fits(plan, &waiter) {
        plan.make(Change::Grant(begin(waiter, HolderState::Held)));
        return Outcome::Granted;
    }
    if deadline.is_none() {
        return Outcome::Busy;
    }
    plan.make(Change::Enqueue(waiter));
    Outcome::Queued
}

/// Accepts an offer. Doing it twice is allowed: the first answer may have been lost.
pub(super) fn accept(plan: &mut Plan, lease: &LeaseId) -> Outcome {
    match take_up(plan, lease) {
        Ok(_) => Outcome::Done,
        Err(refusal) => Outcome::Refused(refusal),
    }
}

/// Returns the holder of a lease in force, for requests that only its holder makes. Such a request
/// also accepts an offer.
pub(super) fn take_up(plan: &mut Plan, lease: &LeaseId) -> Result<Holder, Refusal> {
    let holder = plan.state.holder(lease).ok_or(Refusal::NotHeld)?.clone();
    match holder.state {
        HolderState::Held => {}
        HolderState::Revoking { .. } => return Err(Refusal::Revoked),
        HolderState::Offered { .. } => plan.make(Change::SetState {
            lease: lease.clone(),
            state: HolderState::Held,
        }),
    }
    Ok(Holder {
        state: HolderState::Held,
        ..holder
    })
}

/// Returns true if the waiter can be granted beside the current holders.
pub(super) fn fits(plan: &Plan, waiter: &Waiter) -> bool {
    match waiter.want {
        Want::Lease { mode, capacity } => plan.state.fits(mode, capacity),
        Want::Upgrade => false,
    }
}

/// Returns the holder that a waiter becomes when it is granted.
pub(super) fn begin(waiter: Waiter, state: HolderState) -> Holder {
    Holder {
        lease: waiter.lease,
        session: waiter.session,
        mode: waiter.want.mode(),
        upgraded: false,
        state,
        binding: Bound::Session,
        life: waiter.life,
    }
}
