//! Granting from the line of waiters.

use super::acquire::{begin, fits};
use super::state::{HolderState, Plan};
use super::sweep::sweep;
use super::{Ask, Change, Millis, OFFER_MS};
use crate::{LeaseId, Mode};

/// Removes what is over, then grants from the front for as long as the first waiter fits.
pub(super) fn move_up(plan: &mut Plan, ask: &Ask, now: Millis) {
    sweep(plan, ask, now);
    if let Some(upgrade) = plan.state.waiting_upgrade() {
        let lease = upgrade.lease.clone();
        if !is_only_holder(plan, &lease) {
            // No other request may be granted, or the upgrade might wait for ever.
            return;
        }
        plan.make(Change::Dequeue(lease.clone()));
        // This is not an offer: its holder has the lease already and must not lose it by sleeping.
        grant_upgrade(plan, &lease);
    }
    while let Some(first) = plan.state.waiters.first().cloned() {
        if !fits(plan, &first) {
            return;
        }
        plan.make(Change::Dequeue(first.lease.clone()));
        let until = now.saturating_add(OFFER_MS).min(first.deadline);
        plan.make(Change::Grant(begin(first, HolderState::Offered { until })));
    }
}

pub(super) fn is_only_holder(plan: &Plan, lease: &LeaseId) -> bool {
    plan.state
        .holders
        .iter()
        .all(|holder| holder.lease == *lease)
}

pub(super) fn grant_upgrade(plan: &mut Plan, lease: &LeaseId) {
    plan.make(Change::SetMode {
        lease: lease.clone(),
        mode: Mode::Write,
        upgraded: true,
    });
}

#[cfg(test)]
mod tests {
    use crate::decide::*;
    use crate::{LeaseId, Mode, SessionId};

    fn acquire(name: &str, wait: Wait) -> Ask {
        Ask::Acquire {
            lease: LeaseId::parse(name).unwrap(),
            session: SessionId::parse(name).unwrap(),
            mode: Mode::Write,
            capacity: None,
            wait,
        }
    }

    /// Returns the time that an offer made at 100 stands for a waiter with this deadline.
    fn offered_until(deadline: Millis) -> HolderState {
        let mut state = State::default();
        let release = Ask::Release(LeaseId::parse("first").unwrap());
        let next = acquire("next", Wait::Until(deadline));
        for ask in [acquire("first", Wait::No), next, release] {
            for change in decide(&state, &ask, 100).changes {
                state.apply(&change);
            }
        }
        state.holders[0].state
    }

    #[test]
    fn an_offer_stands_for_five_seconds_but_never_beyond_the_deadline_of_who_waited() {
        let until = 5_100;
        assert_eq!(offered_until(Millis::MAX), HolderState::Offered { until });
        let until = 900;
        assert_eq!(offered_until(900), HolderState::Offered { until });
    }
}
