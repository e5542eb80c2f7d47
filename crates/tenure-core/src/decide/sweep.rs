//! Removes leases and waiters that end without a request: by time, or because a session died.

use super::release::remove_lease;
use super::state::{Bound, Holder, HolderState, Life, Plan, State, Waiter, Want};
use super::upgrade::has_expired;
use super::{Ask, Change, End, Millis};
use crate::LeaseId;

/// Removes the leases that are over, then waiters that cannot be granted any more, then stale
/// leases if the resource is wanted.
///
/// The order matters: a wait for the upgrade of an expired lease must not cause the recovery of
/// that same lease.
pub(super) fn sweep(plan: &mut Plan, ask: &Ask, now: Millis) {
    let over = |holder: &Holder| Some((holder.lease.clone(), ended_by(holder, now)?));
    let ended: Vec<_> = plan.state.holders.iter().filter_map(over).collect();
    for (lease, by) in ended {
        remove_lease(plan, &lease, by);
    }
    let in_vain = |waiter: &&Waiter| waits_in_vain(&plan.state, waiter, now);
    let waiters = plan.state.waiters.iter().filter(in_vain);
    let in_vain: Vec<LeaseId> = waiters.map(|w| w.lease.clone()).collect();
    for lease in in_vain {
        plan.make(Change::Dequeue(lease));
    }
    if !wants_recovery(plan, ask) {
        return;
    }
    let recoverable = |holder: &&Holder| {
        // A request about its own lease shows that the holder is there.
        ask.lease() != Some(&holder.lease) && stale_from(holder).is_some_and(|from| from <= now)
    };
    let holders = plan.state.holders.iter().filter(recoverable);
    let stale: Vec<LeaseId> = holders.map(|h| h.lease.clone()).collect();
    for lease in stale {
        remove_lease(plan, &lease, End::Recovered);
    }
}

/// Returns the earliest time at which [`Ask::Look`] would change something by the passing of time
/// alone: an offer or a break ends, a waiter runs out of time, the lease of a waiting
/// upgrade expires, or a lease becomes stale while there are waiters. It is never before `now`.
pub fn next_look(state: &State, now: Millis) -> Option<Millis> {
    let waited_for = !state.waiters.is_empty();
    let holders = state.holders.iter().filter_map(|holder| {
        let upgrade = state.waiter(&holder.lease);
        match (holder.state, holder.binding) {
            (HolderState::Offered { until } | HolderState::Revoking { until }, _) => Some(until),
            (HolderState::Held, Bound::Lease { expires, .. }) if upgrade.is_some() => Some(expires),
            (HolderState::Held, _) => stale_from(holder).filter(|_| waited_for),
        }
    });
    let deadlines = state.waiters.iter().map(|waiter| waiter.deadline);
    let next = holders.chain(deadlines).min()?;
    Some(next.max(now))
}

/// Returns the event that ended a lease, if it is over for every request.
fn ended_by(holder: &Holder, now: Millis) -> Option<End> {
    if holder.life == Life::Dead && holder.binding == Bound::Session {
        return Some(End::SessionEnded);
    }
    match holder.state {
        HolderState::Offered { until } if until <= now => Some(End::OfferLapsed),
        HolderState::Revoking { until } if until <= now => Some(End::Broken),
        _ => None,
    }
}

/// Returns the time at which a lease becomes stale. A lease that is being broken never does: its
/// holder's time to stop ends it.
fn stale_from(holder: &Holder) -> Option<Millis> {
    match (holder.state, holder.binding) {
        (
            HolderState::Held,
            Bound::Lease {
                expires,
                stale,
                claimed: false,
            },
        ) => Some(expires.max(stale)),
        _ => None,
    }
}

/// Returns true if a waiter is dead, out of time, or waits for the upgrade of a lease that is gone,
/// expired or being broken.
fn waits_in_vain(state: &State, waiter: &Waiter, now: Millis) -> bool {
    let upgradeable =
        |holder: &Holder| holder.state == HolderState::Held && !has_expired(holder.binding, now);
    waiter.life == Life::Dead
        || waiter.deadline <= now
        || waiter.want == Want::Upgrade && !state.holder(&waiter.lease).is_some_and(upgradeable)
}

/// Returns true if a request or a waiter wants the resource. Otherwise stale leases stay, so that
/// their holders may still renew them.
fn wants_recovery(plan: &Plan, ask: &Ask) -> bool {
    let asks = matches!(ask, Ask::Acquire { .. } | Ask::Upgrade { .. } | Ask::Look);
    asks || !plan.state.waiters.is_empty()
}
