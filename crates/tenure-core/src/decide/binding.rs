//! The time to live of lease-bound leases.

use super::acquire::take_up;
use super::state::{Bound, Holder, HolderState, Plan};
use super::{Change, Millis, Outcome, Refusal};
use crate::LeaseId;

/// Makes a lease lease-bound and starts its time. If it is lease-bound already, its time starts
/// again: the first answer may have been lost.
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

/// Gives a lease-bound lease new time. An expired lease can be renewed for as long as it is there,
/// since no other request got the resource.
pub(super) fn renew(
    plan: &mut Plan,
    lease: &LeaseId,
    ttl: Millis,
    grace: Millis,
    now: Millis,
) -> Outcome {
    let holder = plan.state.holder(lease);
    let has_time = |holder: &Holder| {
        // If it is being broken, its holder has to be told that first.
        holder.binding != Bound::Session || matches!(holder.state, HolderState::Revoking { .. })
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
