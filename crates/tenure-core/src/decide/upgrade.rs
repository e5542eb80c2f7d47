//! Upgrading a lease to write, and downgrading it.

use super::acquire::take_up;
use super::state::{Bound, Life, Plan, Waiter, Want};
use super::{Change, Millis, Outcome, Refusal, line};
use crate::{LeaseId, Mode};

/// Makes the lease write if it is the only one. Otherwise queues the upgrade, if there is a
/// deadline.
pub(super) fn upgrade(
    plan: &mut Plan,
    lease: &LeaseId,
    deadline: Option<Millis>,
    now: Millis,
) -> Outcome {
    let holder = match take_up(plan, lease) {
        Ok(holder) => holder,
        Err(refusal) => return Outcome::Refused(refusal),
    };
    if has_expired(holder.binding, now) {
        return Outcome::Refused(Refusal::Expired);
    }
    match holder.mode {
        Mode::Read => return Outcome::Refused(Refusal::NotUpgradeable),
        Mode::Write => return Outcome::Refused(Refusal::AlreadyWrite),
        Mode::Upgradeable => {}
    }
    if plan.state.waiter(lease).is_some() {
        return Outcome::Refused(Refusal::Reentry);
    }
    if line::is_only_holder(plan, lease) {
        line::grant_upgrade(plan, lease);
        return Outcome::Granted;
    }
    let Some(deadline) = deadline else {
        return Outcome::Busy;
    };
    plan.make(Change::Enqueue(Waiter {
        lease: lease.clone(),
        session: holder.session,
        want: Want::Upgrade,
        deadline,
        life: Life::Alive,
    }));
    Outcome::Queued
}

pub(super) fn downgrade(plan: &mut Plan, lease: &LeaseId) -> Outcome {
    match plan.state.holder(lease) {
        None => Outcome::Refused(Refusal::NotHeld),
        Some(holder) if !holder.upgraded => Outcome::Refused(Refusal::NeverUpgraded),
        Some(_) => {
            plan.make(Change::SetMode {
                lease: lease.clone(),
                mode: Mode::Upgradeable,
                upgraded: false,
            });
            Outcome::Done
        }
    }
}

/// Returns true if the time of a lease is over.
pub(super) fn has_expired(binding: Bound, now: Millis) -> bool {
    matches!(binding, Bound::Lease { expires, .. } if expires <= now)
}
