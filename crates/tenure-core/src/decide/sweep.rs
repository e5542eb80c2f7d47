//! What ends without anybody asking for it: by time, and by death.

use super::release::end;
use super::state::{Bound, Holder, Life, Plan, Standing, State, Waiter, Want};
use super::upgrade::has_expired;
use super::{Ask, Change, End, Millis};
use crate::LeaseId;

/// Takes out the leases that are over, then who waits in vain, then what is stale if it is wanted.
///
/// The order matters: a wait for the upgrade of an expired lease is not somebody who wants
/// that very lease recovered.
pub(super) fn sweep(plan: &mut Plan, ask: &Ask, now: Millis) {
    let over = |holder: &Holder| Some((holder.lease.clone(), over(holder, now)?));
    let ended: Vec<_> = plan.state.holders.iter().filter_map(over).collect();
    for (lease, by) in ended {
        end(plan, &lease, by);
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
        // Whoever asks about its own lease is there: nobody has taken over yet.
        ask.lease() != Some(&holder.lease) && stale_from(holder).is_some_and(|from| from <= now)
    };
    let holders = plan.state.holders.iter().filter(recoverable);
    let stale: Vec<LeaseId> = holders.map(|h| h.lease.clone()).collect();
    for lease in stale {
        end(plan, &lease, End::Recovered);
    }
}

/// The earliest time at which [`Ask::Look`] would change something by the passing of time
/// alone: an offer or a break ends, a waiter runs out of time, the lease of a waiting
/// upgrade expires, or a lease becomes stale while someone waits. Never before `now`.
pub fn next_look(state: &State, now: Millis) -> Option<Millis> {
    let waited_for = !state.waiters.is_empty();
    let holders = state.holders.iter().filter_map(|holder| {
        let upgrade = state.waiter(&holder.lease);
        match (holder.standing, holder.binding) {
            (Standing::Offered { until } | Standing::Revoking { until }, _) => Some(until),
            (Standing::Held, Bound::Lease { expires, .. }) if upgrade.is_some() => Some(expires),
            (Standing::Held, _) => stale_from(holder).filter(|_| waited_for),
        }
    });
    let deadlines = state.waiters.iter().map(|waiter| waiter.deadline);
    let next = holders.chain(deadlines).min()?;
    Some(next.max(now))
}

/// Whether a lease is over whatever is asked, and by what.
fn over(holder: &Holder, now: Millis) -> Option<End> {
    if holder.life == Life::Dead && holder.binding == Bound::Session {
        return Some(End::SessionEnded);
    }
    match holder.standing {
        Standing::Offered { until } if until <= now => Some(End::OfferLapsed),
        Standing::Revoking { until } if until <= now => Some(End::Broken),
        _ => None,
    }
}

/// From when on a lease is stale. One that is being broken has its holder's time to stop
/// before it, whatever its own time.
fn stale_from(holder: &Holder) -> Option<Millis> {
    match (holder.standing, holder.binding) {
        (
            Standing::Held,
            Bound::Lease {
                expires,
                stale,
                claimed: false,
            },
        ) => Some(expires.max(stale)),
        _ => None,
    }
}

/// Whether a waiter is gone, late, or waits for the upgrade of a lease whose holder is to
/// stop, or has to be taken for gone.
fn waits_in_vain(state: &State, waiter: &Waiter, now: Millis) -> bool {
    let upgradeable =
        |holder: &Holder| holder.standing == Standing::Held && !has_expired(holder.binding, now);
    waiter.life == Life::Dead
        || waiter.deadline <= now
        || waiter.want == Want::Upgrade && !state.holder(&waiter.lease).is_some_and(upgradeable)
}

/// Whether someone wants what stale leases keep. Otherwise they stay, so that
/// whoever took one may still renew it.
fn wants_recovery(plan: &Plan, ask: &Ask) -> bool {
    let asks = matches!(ask, Ask::Acquire { .. } | Ask::Upgrade { .. } | Ask::Look);
    asks || !plan.state.waiters.is_empty()
}
