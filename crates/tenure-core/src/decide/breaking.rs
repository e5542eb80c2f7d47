//! Breaking a lease.

use super::state::{HolderState, Plan};
use super::{BREAK_MS, Change, Millis, Outcome, Refusal};
use crate::LeaseId;

/// Marks the lease as revoking. It keeps others out until its holder releases it, which confirms
/// the stop, or has had its time to stop. A second break does not give the holder more time.
pub(super) fn break_lease(plan: &mut Plan, lease: &LeaseId, now: Millis) -> Outcome {
    let Some(holder) = plan.state.holder(lease) else {
        return Outcome::Refused(Refusal::NotHeld);
    };
    if !matches!(holder.state, HolderState::Revoking { .. }) {
        plan.make(Change::SetState {
            lease: lease.clone(),
            state: HolderState::Revoking {
                until: now.saturating_add(BREAK_MS),
            },
        });
    }
    Outcome::Done
}
