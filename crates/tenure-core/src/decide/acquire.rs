//! A new lease.

use super::state::{Holder, Plan, Waiter, Want};
use super::{Change, Outcome, Refusal, Wait};
use crate::{LeaseId, Mode, SessionId};

pub(super) fn acquire(
    plan: &mut Plan,
    lease: &LeaseId,
    session: &SessionId,
    mode: Mode,
    wait: Wait,
) -> Outcome {
    let holds = plan.state.holders.iter().any(|h| h.session == *session);
    let waits = plan.state.waiters.iter().any(|w| w.session == *session);
    if holds || waits {
        return Outcome::Refused(Refusal::Reentry);
    }
    // An empty line is asked for, so that nobody who waits is overtaken.
    if plan.state.waiters.is_empty() && plan.state.fits(mode) {
        plan.make(Change::Grant(Holder {
            lease: lease.clone(),
            session: session.clone(),
            mode,
            upgraded: false,
        }));
        return Outcome::Granted;
    }
    let Wait::Until(deadline) = wait else {
        return Outcome::Busy;
    };
    plan.make(Change::Enqueue(Waiter {
        lease: lease.clone(),
        session: session.clone(),
        want: Want::Lease(mode),
        deadline,
    }));
    Outcome::Queued
}
