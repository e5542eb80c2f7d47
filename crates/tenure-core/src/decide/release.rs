//! The end of a lease, and of a wait.

use super::state::Plan;
use super::{Change, Outcome, Refusal};
use crate::LeaseId;

pub(super) fn release(plan: &mut Plan, lease: &LeaseId) -> Outcome {
    if plan.state.holder(lease).is_none() {
        return Outcome::Refused(Refusal::NotHeld);
    }
    if plan.state.waiter(lease).is_some() {
        plan.make(Change::Dequeue(lease.clone()));
    }
    plan.make(Change::Remove(lease.clone()));
    Outcome::Done
}

pub(super) fn withdraw(plan: &mut Plan, lease: &LeaseId) -> Outcome {
    if plan.state.waiter(lease).is_none() {
        return Outcome::Refused(Refusal::NotWaiting);
    }
    plan.make(Change::Dequeue(lease.clone()));
    Outcome::Done
}
