//! A person takes a lease away.

use super::state::{Plan, Standing};
use super::{BREAK_MS, Change, Millis, Outcome, Refusal};
use crate::LeaseId;

/// The lease keeps others out until its holder confirms its stop by releasing it, or
/// its time to stop is over. Breaking it again does not give the holder more time.
pub(super) fn break_lease(plan: &mut Plan, lease: &LeaseId, now: Millis) -> Outcome {
    let Some(holder) = plan.state.holder(lease) else {
        return Outcome::Refused(Refusal::NotHeld);
    };
    if !matches!(holder.standing, Standing::Revoking { .. }) {
        plan.make(Change::SetStanding {
            lease: lease.clone(),
            standing: Standing::Revoking {
                until: now.saturating_add(BREAK_MS),
            },
        });
    }
    Outcome::Done
}
