//! Tests of what ends a lease, and what does not.

use super::world::{MOMENTS, Step, after, every_step, every_step_of};
use crate::Mode;
use crate::decide::*;

fn dead(holder: &Holder) -> bool {
    holder.binding == Bound::Session && holder.life == Life::Dead
}

fn stale(holder: &Holder, now: Millis) -> bool {
    matches!(holder.binding, Bound::Lease { expires, stale, claimed: false }
        if expires <= now && stale <= now)
}

fn recovers(change: &Change) -> bool {
    let by = End::Recovered;
    matches!(change, Change::Remove { end, .. } if *end == by)
}

fn is_look(ask: &Ask) -> bool {
    *ask == Ask::Look
}

fn changes_of_a_look(state: &State, now: Millis) -> Vec<Change> {
    decide(state, &Ask::Look, now).changes
}

#[test]
fn a_lease_ends_only_by_what_is_written_down_as_its_end() {
    every_step(|step| {
        for holder in &step.before.holders {
            let (lease, now) = (&holder.lease, step.now);
            let end = step
                .decision
                .changes
                .iter()
                .find_map(|change| match change {
                    Change::Remove { lease: ended, end } if ended == lease => Some(*end),
                    _ => None,
                });
            let about = step.ask.lease() == Some(lease);
            // In these worlds a session that lost a lease may ask for one of the same name.
            let again = about && step.decision.outcome == Outcome::Granted;
            let there = step.after.holder(lease).is_some();
            assert!(end.is_none() == there || again, "{:?}", step.ask);
            let right = match end {
                None => true,
                Some(End::Released) => about && matches!(step.ask, Ask::Release { .. }),
                Some(End::SessionEnded) => dead(holder),
                Some(End::OfferLapsed) => {
                    matches!(holder.state, HolderState::Offered { until } if until <= now)
                }
                Some(End::Broken) => {
                    matches!(holder.state, HolderState::Revoking { until } if until <= now)
                }
                Some(End::Recovered) => {
                    stale(holder, now) && holder.state == HolderState::Held && !about
                }
            };
            assert!(right, "{:?} ended {holder:?} by {end:?} at {now}", step.ask);
        }
    });
}

#[test]
fn a_stale_lease_stays_unless_someone_wants_the_resource() {
    let wants_nothing =
        |ask: &Ask| !matches!(ask, Ask::Acquire { .. } | Ask::Upgrade { .. } | Ask::Look);
    every_step_of(wants_nothing, |step| {
        let Step { before, ask, .. } = step;
        let recovered = step.decision.changes.iter().any(recovers);
        assert!(
            !recovered || !before.waiters.is_empty(),
            "{ask:?} in {before:?}"
        );
    });
}

#[test]
fn nothing_that_is_over_stays_for_who_wants_the_resource() {
    every_step(|step| {
        for holder in &step.after.holders {
            let over = match holder.state {
                HolderState::Held => false,
                HolderState::Offered { until } | HolderState::Revoking { until } => {
                    until <= step.now
                }
            };
            assert!(!over && !dead(holder), "{:?} left {holder:?}", step.ask);
            let wanted = matches!(step.ask, Ask::Acquire { .. } | Ask::Look)
                || !step.after.waiters.is_empty();
            let about = step.ask.lease() == Some(&holder.lease);
            let broken = matches!(holder.state, HolderState::Revoking { .. });
            let stays = !stale(holder, step.now) || about || broken;
            assert!(stays || !wanted, "{:?} left {holder:?}", step.ask);
        }
    });
}

#[test]
fn a_lease_that_is_being_broken_keeps_others_out_until_its_holder_stopped_or_had_its_time() {
    every_step(|step| {
        for holder in &step.before.holders {
            let HolderState::Revoking { until } = holder.state else {
                continue;
            };
            let stopped = matches!(step.ask, Ask::Release(lease) if *lease == holder.lease);
            if until <= step.now || dead(holder) || stopped {
                continue;
            }
            let still = step.after.holder(&holder.lease).map(|holder| holder.state);
            assert_eq!(still, Some(holder.state), "{:?}", step.ask);
        }
    });
}

#[test]
fn a_broken_lease_has_its_time_from_the_first_break_and_is_never_held_again() {
    let breaks = |ask: &Ask| matches!(ask, Ask::Break { .. });
    every_step_of(breaks, |step| {
        let (Ask::Break(lease), Outcome::Done) = (step.ask, &step.decision.outcome) else {
            return;
        };
        let before = step.before.holder(lease).map(|holder| holder.state);
        let until = match before {
            Some(HolderState::Revoking { until }) => until,
            _ => step.now + BREAK_MS,
        };
        let after = step.after.holder(lease).map(|holder| holder.state);
        assert_eq!(after, Some(HolderState::Revoking { until }));
        assert!(
            step.after.waiter(lease).is_none(),
            "its upgrade still waits"
        );
    });
}

#[test]
fn whoever_has_a_lease_may_renew_and_release_it_though_it_expired() {
    let holders_own = |ask: &Ask| {
        matches!(
            ask,
            Ask::Renew { .. } | Ask::Bind { .. } | Ask::Release { .. } | Ask::Break { .. }
        )
    };
    every_step_of(holders_own, |step| {
        let Some(lease) = step.ask.lease() else {
            return;
        };
        let Some(holder) = step.before.holder(lease) else {
            return;
        };
        let Bound::Lease { claimed, .. } = holder.binding else {
            return;
        };
        if holder.state != HolderState::Held {
            return;
        }
        let done = step.decision.outcome == Outcome::Done;
        match step.ask {
            Ask::Renew { ttl, grace, .. } | Ask::Bind { ttl, grace, .. } => {
                let binding = step.after.holder(lease).map(|holder| holder.binding);
                let (expires, stale) = (step.now + ttl, step.now + grace);
                let renewed = Bound::Lease {
                    expires,
                    stale,
                    claimed,
                };
                assert_eq!((done, binding), (true, Some(renewed)), "{:?}", step.before);
            }
            _ => assert!(done, "{:?}", step.before),
        }
    });
}

#[test]
fn nobody_becomes_a_writer_by_a_lease_whose_time_is_over() {
    every_step(|step| {
        for change in &step.decision.changes {
            let Change::SetMode {
                lease,
                mode: Mode::Write,
                ..
            } = change
            else {
                continue;
            };
            let expired = |holder: &Holder| matches!(holder.binding, Bound::Lease { expires, .. } if expires <= step.now);
            let expired = step.before.holder(lease).is_some_and(expired);
            assert!(!expired, "{:?} in {:?}", step.ask, step.before);
        }
    });
}

#[test]
fn looking_twice_changes_no_more_than_looking_once() {
    every_step_of(is_look, |step| {
        let again = changes_of_a_look(step.after, step.now);
        assert!(again.is_empty(), "{again:?} in {:?}", step.after);
    });
}

#[test]
fn the_next_look_is_due_when_time_alone_changes_something_and_not_before() {
    let mut due = 0;
    every_step_of(is_look, |step| {
        let Step { now, .. } = step;
        let next = next_look(step.after, *now);
        for later in MOMENTS.into_iter().filter(|later| later > now) {
            let mut changes = changes_of_a_look(step.after, later);
            if step.after.waiters.is_empty() {
                // A stale lease stays until another request wants the resource.
                changes.retain(|change| !recovers(change));
            }
            let is_due = next.is_some_and(|next| next <= later);
            let Step { after, .. } = step;
            assert_eq!(!changes.is_empty(), is_due, "{changes:?} in {after:?}");
            due += usize::from(is_due);
        }
    });
    assert!(due > 1000, "only {due} looks were due");
}

#[test]
fn the_next_look_after_a_death_ends_the_lease_and_its_waiting_upgrade() {
    every_step_of(is_look, |step| {
        let mut state = step.after.clone();
        let Some(holder) = state
            .holders
            .iter_mut()
            .find(|h| h.binding == Bound::Session)
        else {
            return;
        };
        holder.life = Life::Dead;
        let lease = holder.lease.clone();
        let decision = decide(&state, &Ask::Look, step.now);
        let ended = Change::Remove {
            lease: lease.clone(),
            end: End::SessionEnded,
        };
        assert!(decision.changes.contains(&ended), "{state:?}");
        assert!(after(&state, &decision).waiter(&lease).is_none());
    });
}
