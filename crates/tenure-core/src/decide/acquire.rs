//! A new lease.

use super::state::{Bound, Holder, Life, Plan, Standing, Waiter, Want};
use super::{Change, Millis, Outcome, Refusal};
use crate::{LeaseId, SessionId};

/// Takes the lease if that overtakes nobody; else queues until the deadline, if there is one.
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
    // An empty line is asked for, so that nobody who waits is overtaken.
    if plan.state.waiters.is_empty() && fits(plan, &waiter) {
        plan.make(Change::Grant(begin(waiter, Standing::Held)));
        return Outcome::Granted;
    }
    if deadline.is_none() {
        return Outcome::Busy;
    }
    plan.make(Change::Enqueue(waiter));
    Outcome::Queued
}

/// A waiter takes up its offer. Taking it up twice is no fault: the first answer may have been lost.
pub(super) fn accept(plan: &mut Plan, lease: &LeaseId) -> Outcome {
    match take_up(plan, lease) {
        Ok(_) => Outcome::Done,
        Err(refusal) => Outcome::Refused(refusal),
    }
}

/// The holder of a lease that is in force, for whatever only its holder asks. Whoever asks
/// so took up its offer by that.
pub(super) fn take_up(plan: &mut Plan, lease: &LeaseId) -> Result<Holder, Refusal> {
    let holder = plan.state.holder(lease).ok_or(Refusal::NotHeld)?.clone();
    match holder.standing {
        Standing::Held => {}
        Standing::Revoking { .. } => return Err(Refusal::Revoked),
        Standing::Offered { .. } => plan.make(Change::SetStanding {
            lease: lease.clone(),
            standing: Standing::Held,
        }),
    }
    Ok(Holder {
        standing: Standing::Held,
        ..holder
    })
}

/// Whether what a waiter wants can be granted beside the holders there are.
pub(super) fn fits(plan: &Plan, waiter: &Waiter) -> bool {
    match waiter.want {
        Want::Lease { mode, capacity } => plan.state.fits(mode, capacity),
        Want::Upgrade => false,
    }
}

/// The lease of a request, granted now.
pub(super) fn begin(waiter: Waiter, standing: Standing) -> Holder {
    Holder {
        lease: waiter.lease,
        session: waiter.session,
        mode: waiter.want.mode(),
        upgraded: false,
        standing,
        binding: Bound::Session,
        life: waiter.life,
    }
}
