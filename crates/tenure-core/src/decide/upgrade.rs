//! Upgradeable to write, and back.

use super::state::{Plan, Waiter, Want};
use super::{Change, Outcome, Refusal, Wait, line};
use crate::{LeaseId, Mode};

pub(super) fn upgrade(plan: &mut Plan, lease: &LeaseId, wait: Wait) -> Outcome {
    let Some(holder) = plan.state.holder(lease) else {
        return Outcome::Refused(Refusal::NotHeld);
    };
    match holder.mode {
        Mode::Read => return Outcome::Refused(Refusal::NotUpgradeable),
        Mode::Write => return Outcome::Refused(Refusal::AlreadyWrite),
        Mode::Upgradeable => {}
    }
    if plan.state.waiter(lease).is_some() {
        return Outcome::Refused(Refusal::Reentry);
    }
    if line::only_holder(plan, lease) {
        line::become_write(plan, lease);
        return Outcome::Granted;
    }
    let Wait::Until(deadline) = wait else {
        return Outcome::Busy;
    };
    let session = holder.session.clone();
    plan.make(Change::Enqueue(Waiter {
        lease: lease.clone(),
        session,
        want: Want::Upgrade,
        deadline,
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
