//! The time of a lease that outlives who took it.

use super::acquire::take_up;
use super::state::{Bound, Holder, Plan, Standing};
use super::{Change, Millis, Outcome, Refusal};
use crate::LeaseId;

/// Begins the time of a lease. One that is bound already gets its time anew: the
/// first answer may have been lost.
pub(super) fn bind(
    plan: &mut Plan,
    lease: &LeaseId,
    ttl: Millis,
    grace: Millis,
    now: Millis,
) -> Outcome {
    match take_up(plan, lease) {
        Ok(holder) => begin_time(plan, lease, holder.binding, ttl, grace, now),
        Err(refusal) => Outcome::Refused(refusal),
    }
}

/// Gives a lease-bound lease new time. That it has expired does not matter as long as it is
/// there: nobody took over.
pub(super) fn renew(
    plan: &mut Plan,
    lease: &LeaseId,
    ttl: Millis,
    grace: Millis,
    now: Millis,
) -> Outcome {
    let holder = plan.state.holder(lease);
    let has_time = |holder: &Holder| {
        // That it is being broken is what its holder has to hear first.
        holder.binding != Bound::Session || matches!(holder.standing, Standing::Revoking { .. })
    };
    if holder.is_some_and(|holder| !has_time(holder)) {
        return Outcome::Refused(Refusal::NotLeaseBound);
    }
    bind(plan, lease, ttl, grace, now)
}

fn begin_time(
    plan: &mut Plan,
    lease: &LeaseId,
    before: Bound,
    ttl: Millis,
    grace: Millis,
    now: Millis,
) -> Outcome {
    plan.make(Change::SetBinding {
        lease: lease.clone(),
        binding: Bound::Lease {
            expires: now.saturating_add(ttl),
            stale: now.saturating_add(grace),
            claimed: matches!(before, Bound::Lease { claimed: true, .. }),
        },
    });
    Outcome::Done
}
