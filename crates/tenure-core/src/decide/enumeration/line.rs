//! Tests of who is granted, and in which order.

use super::world::{Step, every_step};
use crate::decide::*;
use crate::{LeaseId, Mode};

/// Calls `check` with every change of a decision and the state it meets.
fn every_change(step: &Step, mut check: impl FnMut(&State, &Change)) {
    if step.decision.changes.is_empty() {
        return;
    }
    let mut state = step.before.clone();
    for change in &step.decision.changes {
        check(&state, change);
        state.apply(change);
    }
}

/// Returns true if a lease was granted to the request, and not to an earlier waiter. In these
/// worlds a session whose wait is over may ask again for a lease of the same name.
fn granted_at_once(step: &Step, of: &LeaseId) -> bool {
    let asked = matches!(step.ask, Ask::Acquire { lease, .. } if lease == of);
    asked && step.decision.outcome == Outcome::Granted
}

#[test]
fn no_two_holders_ever_conflict() {
    let steps = every_step(|step| {
        let Step { ask, after, .. } = step;
        for (i, one) in after.holders.iter().enumerate() {
            for other in &after.holders[i + 1..] {
                let beside = step.slots || !one.mode.conflicts_with(other.mode);
                assert!(beside, "{ask:?} led to {after:?}");
                assert_ne!(one.lease, other.lease, "{ask:?} led to {after:?}");
            }
        }
    });
    println!("{steps} decisions");
    assert!(steps > 1_000_000, "only {steps} decisions were looked at");
}

#[test]
fn nobody_is_granted_beside_whom_it_conflicts_with_or_beside_as_many_as_its_capacity() {
    every_step(|step| {
        every_change(step, |state, change| {
            let Change::Grant(holder) = change else {
                return;
            };
            let waited = step.before.waiter(&holder.lease).map(|w| w.want);
            let capacity = match (step.ask, waited) {
                (Ask::Acquire { capacity, .. }, _) if granted_at_once(step, &holder.lease) => {
                    *capacity
                }
                (_, Some(Want::Lease { capacity, .. })) => capacity,
                _ => panic!("{:?} granted a lease nobody asked for", step.ask),
            };
            let beside = |other: &Holder| !holder.mode.conflicts_with(other.mode);
            match capacity {
                Some(capacity) => assert!(state.holders.len() < capacity as usize, "{state:?}"),
                None => assert!(state.holders.iter().all(beside), "{state:?}"),
            }
        });
    });
}

#[test]
fn nobody_who_could_be_granted_is_left_waiting() {
    every_step(|step| {
        let Step {
            ask, now, after, ..
        } = step;
        let gone = |waiter: &Waiter| waiter.deadline <= *now || waiter.life == Life::Dead;
        assert!(
            !after.waiters.iter().any(gone),
            "the late are still in line: {after:?}"
        );
        match after.line().first().map(|first| first.want) {
            None => {}
            Some(Want::Upgrade) => {
                assert!(after.holders.len() > 1, "{ask:?} led to {after:?}");
            }
            Some(Want::Lease { mode, capacity }) => {
                let conflicts = |holder: &Holder| holder.mode.conflicts_with(mode);
                let blocked = match capacity {
                    Some(capacity) => after.holders.len() >= capacity as usize,
                    None => after.holders.iter().any(conflicts),
                };
                assert!(blocked, "{ask:?} led to {after:?}");
            }
        }
    });
}

#[test]
fn nobody_overtakes_who_came_earlier_and_still_waits() {
    every_step(|step| {
        let waited = step.before.line();
        let still_waits = |waiter: &&Waiter| step.after.waiters.contains(waiter);
        let Some(first_left) = waited.iter().position(still_waits) else {
            return;
        };
        for change in &step.decision.changes {
            let Change::Grant(holder) = change else {
                continue;
            };
            let place = waited.iter().position(|w| w.lease == holder.lease);
            assert!(
                place.is_some_and(|place| place < first_left),
                "{:?} in {:?}",
                step.ask,
                step.before
            );
        }
    });
}

#[test]
fn whoever_died_or_ran_out_of_time_is_not_granted() {
    every_step(|step| {
        for change in &step.decision.changes {
            let (Change::Grant(Holder { lease, .. })
            | Change::SetMode {
                lease,
                mode: Mode::Write,
                ..
            }) = change
            else {
                continue;
            };
            let gone = |waiter: &Waiter| waiter.deadline <= step.now || waiter.life == Life::Dead;
            let gone = step.before.waiter(lease).is_some_and(gone);
            let asked_now = step.ask.lease() == Some(lease);
            assert!(!gone || asked_now, "{:?} in {:?}", step.ask, step.before);
        }
    });
}

#[test]
fn an_upgrade_needs_to_be_alone_and_keeps_new_readers_out() {
    every_step(|step| {
        every_change(step, |state, change| {
            if let Change::SetMode {
                mode: Mode::Write, ..
            } = change
            {
                assert_eq!(state.holders.len(), 1, "{:?} met {state:?}", step.ask);
            }
        });
        if step.after.waiting_upgrade().is_some() && step.decision.outcome == Outcome::Granted {
            let Step { ask, after, .. } = step;
            panic!("{ask:?} was granted past a waiting upgrade: {after:?}");
        }
    });
}

#[test]
fn a_token_is_drawn_exactly_when_a_lease_becomes_exclusive() {
    let writers = |state: &State| {
        let exclusive = |holder: &&Holder| holder.mode.is_exclusive();
        state.holders.iter().filter(exclusive).count()
    };
    every_step(|step| {
        every_change(step, |state, change| {
            let draws = match change {
                Change::Grant(holder) => holder.mode.is_exclusive(),
                Change::SetMode { mode, .. } => mode.is_exclusive(),
                _ => false,
            };
            let mut after = state.clone();
            after.apply(change);
            let became = writers(&after) > writers(state);
            assert_eq!(draws, became, "{change:?} in {state:?}");
        });
    });
}

#[test]
fn a_session_has_a_resource_once() {
    every_step(|step| {
        let Step { ask, after, .. } = step;
        let holders = after.holders.iter().map(|holder| &holder.session);
        for session in holders.chain(after.waiters.iter().map(|w| &w.session)) {
            let holds = after.holders.iter().filter(|h| h.session == *session);
            let waits = after.waiters.iter().filter(|w| w.session == *session);
            let waits: Vec<_> = waits.map(|waiter| waiter.want).collect();
            let fine = matches!(
                (holds.count(), waits.as_slice()),
                (0 | 1, []) | (0, [Want::Lease { .. }]) | (1, [Want::Upgrade])
            );
            assert!(fine, "{ask:?} led to {after:?}");
        }
    });
}

#[test]
fn who_asks_holds_at_once_and_who_waited_is_made_an_offer_that_ends_in_time() {
    every_step(|step| {
        for change in &step.decision.changes {
            let Change::Grant(holder) = change else {
                continue;
            };
            assert_eq!(holder.binding, Bound::Session, "{holder:?}");
            let state = match step.before.waiter(&holder.lease) {
                Some(waiter) if !granted_at_once(step, &holder.lease) => HolderState::Offered {
                    until: (step.now + OFFER_MS).min(waiter.deadline),
                },
                _ => HolderState::Held,
            };
            assert_eq!(holder.state, state, "{:?}", step.ask);
        }
    });
}

#[test]
fn a_withdrawn_or_refused_request_leaves_no_trace_of_itself() {
    every_step(|step| {
        let Step { before, after, .. } = step;
        match (step.ask, &step.decision.outcome) {
            (Ask::Withdraw(lease), Outcome::Done) => {
                assert!(after.waiter(lease).is_none());
                let mode = |holder: &Holder| (holder.mode, holder.upgraded);
                if let Some(holder) = after.holder(lease) {
                    assert_eq!(Some(mode(holder)), before.holder(lease).map(mode));
                }
            }
            (Ask::Acquire { lease, session, .. }, Outcome::Busy) => {
                assert!(after.holder(lease).is_none() && after.waiter(lease).is_none());
                assert!(after.holders.iter().all(|h| h.session != *session));
            }
            (Ask::Acquire { lease, .. }, Outcome::Queued) => {
                assert!(after.waiter(lease).is_some(), "{after:?}");
            }
            (Ask::Upgrade { lease, .. }, Outcome::Queued) => {
                assert!(after.waiter(lease).is_some(), "{after:?}");
                assert!(after.holder(lease).is_some(), "{after:?}");
            }
            _ => {}
        }
    });
}
