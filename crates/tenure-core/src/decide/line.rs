//! How the line moves.

use super::state::{Holder, Plan, Waiter, Want};
use super::{Change, Millis};
use crate::{LeaseId, Mode};

/// Takes out who ran out of time, then grants from the front for as long as it fits.
pub(super) fn move_up(plan: &mut Plan, now: Millis) {
    let late = |waiter: &&Waiter| waiter.deadline <= now;
    let late: Vec<LeaseId> = plan
        .state
        .waiters
        .iter()
        .filter(late)
        .map(|w| w.lease.clone())
        .collect();
    for lease in late {
        plan.make(Change::Dequeue(lease));
    }
    if let Some(upgrade) = plan.state.waiting_upgrade() {
        let lease = upgrade.lease.clone();
        if !only_holder(plan, &lease) {
            // Nobody else may enter, or the upgrade might wait for ever.
            return;
        }
        plan.make(Change::Dequeue(lease.clone()));
        become_write(plan, &lease);
    }
    while let Some(first) = plan.state.waiters.first().cloned() {
        let Want::Lease(mode) = first.want else {
            unreachable!("a waiting upgrade was granted above or ended the move");
        };
        if !plan.state.fits(mode) {
            return;
        }
        plan.make(Change::Dequeue(first.lease.clone()));
        plan.make(Change::Grant(Holder {
            lease: first.lease,
            session: first.session,
            mode,
            upgraded: false,
        }));
    }
}

pub(super) fn only_holder(plan: &Plan, lease: &LeaseId) -> bool {
    plan.state
        .holders
        .iter()
        .all(|holder| holder.lease == *lease)
}

pub(super) fn become_write(plan: &mut Plan, lease: &LeaseId) {
    plan.make(Change::SetMode {
        lease: lease.clone(),
        mode: Mode::Write,
        upgraded: true,
    });
}
