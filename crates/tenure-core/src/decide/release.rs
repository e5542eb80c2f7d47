//! Releasing a lease, and withdrawing a waiter.

use super::state::Plan;
use super::{Change, End, Outcome, Refusal};
use crate::LeaseId;

pub(super) fn release(plan: &mut Plan, lease: &LeaseId) -> Outcome {
    if plan.state.holder(lease).is_none() {
        return Outcome::Refused(Refusal::NotHeld);
    }
    remove_lease(plan, lease, End::Released);
    Outcome::Done
}

pub(super) fn withdraw(plan: &mut Plan, lease: &LeaseId) -> Outcome {
    if plan.state.waiter(lease).is_none() {
        return Outcome::Refused(Refusal::NotWaiting);
    }
    plan.make(Change::Dequeue(lease.clone()));
    Outcome::Done
}

/// Ends a lease, and with it the wait for its upgrade.
pub(super) fn remove_lease(plan: &mut Plan, lease: &LeaseId, end: End) {
    if plan.state.waiter(lease).is_some() {
        plan.make(Change::Dequeue(lease.clone()));
    }
    plan.make(Change::Remove {
        lease: lease.clone(),
        end,
    });
}
