//! Grants that their waiters do not take up.
//!
//! A release grants to the next in line. If that waiter is stopped, its grant is an offer: no other
//! waiter has the lock for five seconds, and then the one behind it has.

use std::time::{Duration, Instant};

use tenure::{LeaseState, Mode};
use tenure_core::audit::Action;

use super::case::{Case, case};
use crate::agent::words::Kind;
use crate::agent::{Agent, LONG_WAIT, Pending};
use crate::stage::{Stage, in_time, until};

pub(super) const CASES: &[Case] = &[
    case!(slow an_offer_that_is_not_taken_up_passes_on_after_five_seconds, Leases),
    case!(slow a_waiter_resumed_in_time_takes_up_its_offer, Leases),
    case!(slow an_offer_passes_on_at_once_when_its_waiter_dies, Leases),
    case!(slow an_offer_passes_on_when_its_waiter_runs_out_of_time, Leases),
    case!(slow nothing_is_offered_to_a_waiter_whose_time_is_over, Leases),
    case!(slow a_broken_offer_ends_the_wait_with_who_broke_it_and_why, Leases),
    case!(slow a_broken_offer_ends_the_wait_also_when_its_time_to_stop_is_over, Leases),
];

/// The time that an offer stays (rule 6).
const OFFER: Duration = Duration::from_secs(5);
/// A time far below [`OFFER`]: an event within it has not waited for that.
const AT_ONCE: Duration = Duration::from_secs(3);

/// Makes a line: `ana` holds, `bo` waits for so long and is stopped, `cy` waits behind it.
fn line(stage: &Stage<'_>, agents: [&mut Agent; 3], bo_waits: Duration) -> [Pending; 2] {
    let [ana, bo, cy] = agents;
    ana.take("a", Mode::Write);
    let wanted = bo.want_for("a", Mode::Write, bo_waits);
    stage.until_waiting("a", 1);
    stage.stop(bo);
    let behind = cy.want("a", Mode::Write);
    // The number of waiters proves nothing: the time of `bo` may be over by now.
    until("cy waits", || stage.queue("a").contains(&"cy".to_owned()));
    [wanted, behind]
}

fn an_offer_that_is_not_taken_up_passes_on_after_five_seconds(stage: &Stage<'_>) {
    let [mut ana, mut bo, mut cy] = stage.agents(stage.apart(), ["ana", "bo", "cy"]);
    let [wanted, behind] = line(stage, [&mut ana, &mut bo, &mut cy], LONG_WAIT);
    let before = Instant::now();
    ana.release("a");
    let after = Instant::now();
    let offered = stage.held();
    assert_eq!(offered.len(), 1);
    assert_eq!(offered[0].owner.as_str(), "bo");
    assert_eq!(offered[0].state, LeaseState::Offered);
    assert!(ana.try_take("a", Mode::Read).is_none());
    cy.granted(behind);
    assert!(before.elapsed() >= OFFER, "{:?}", before.elapsed());
    assert!(after.elapsed() < OFFER + AT_ONCE, "{:?}", after.elapsed());
    let entries = stage.audit_of("a");
    let lapsed = entries.iter().find(|entry| entry.action == Action::Expire);
    let lapsed = lapsed.unwrap_or_else(|| panic!("no offer expired in {entries:?}"));
    assert_eq!(lapsed.lease.as_ref(), Some(&offered[0].lease));
    // `bo` asked for longer than that, so it waits on, behind the new holder.
    bo.resume();
    stage.until_waiting("a", 1);
    assert!(bo.answered(wanted).is_none());
    assert_eq!(stage.shown(), ["cy name:a write"]);
    cy.release("a");
    bo.granted(wanted);
}

fn a_waiter_resumed_in_time_takes_up_its_offer(stage: &Stage<'_>) {
    let [mut ana, mut bo, mut cy] = stage.agents(stage.apart(), ["ana", "bo", "cy"]);
    let [wanted, behind] = line(stage, [&mut ana, &mut bo, &mut cy], LONG_WAIT);
    let began = Instant::now();
    ana.release("a");
    bo.resume();
    let lease = bo.granted(wanted);
    assert_eq!(lease.owner.as_str(), "bo");
    // `bo` still has the lock long after an offer would have passed on.
    while began.elapsed() < OFFER + Duration::from_secs(1) {
        assert!(cy.answered(behind).is_none());
        std::thread::sleep(Duration::from_millis(20));
    }
    let listed = stage.listed(&lease.lease).unwrap();
    assert_eq!(listed.state, LeaseState::Held);
    bo.release("a");
    cy.granted(behind);
}

/// Where the death of the waiter is not proved, its offer passes on when the time of offers is
/// over.
fn an_offer_passes_on_at_once_when_its_waiter_dies(stage: &Stage<'_>) {
    let limit = stage.after_death(AT_ONCE, OFFER);
    in_time("passing on what a dead waiter was offered", limit, || {
        let [mut ana, mut bo, mut cy] = stage.agents(stage.apart(), ["ana", "bo", "cy"]);
        let [_, behind] = line(stage, [&mut ana, &mut bo, &mut cy], LONG_WAIT);
        ana.release("a");
        let died = Instant::now();
        bo.crash();
        cy.granted(behind);
        assert_eq!(stage.shown(), ["cy name:a write"]);
        died.elapsed()
    });
}

fn an_offer_passes_on_when_its_waiter_runs_out_of_time(stage: &Stage<'_>) {
    const WAIT: Duration = Duration::from_millis(1500);
    in_time("passing on what a late waiter was offered", AT_ONCE, || {
        let [mut ana, mut bo, mut cy] = stage.agents(stage.apart(), ["ana", "bo", "cy"]);
        let began = Instant::now();
        let [wanted, behind] = line(stage, [&mut ana, &mut bo, &mut cy], WAIT);
        ana.release("a");
        cy.granted(behind);
        let took = began.elapsed();
        bo.resume();
        assert_eq!(bo.failed(wanted).kind, Kind::Timeout);
        assert_eq!(stage.shown(), ["cy name:a write"]);
        took
    });
}

fn nothing_is_offered_to_a_waiter_whose_time_is_over(stage: &Stage<'_>) {
    const WAIT: Duration = Duration::from_millis(500);
    in_time("passing over a waiter whose time is over", AT_ONCE, || {
        let [mut ana, mut bo, mut cy] = stage.agents(stage.apart(), ["ana", "bo", "cy"]);
        let [wanted, behind] = line(stage, [&mut ana, &mut bo, &mut cy], WAIT);
        let stopped = Instant::now();
        until("its time is over", || stopped.elapsed() > WAIT);
        let began = Instant::now();
        ana.release("a");
        cy.granted(behind);
        let took = began.elapsed();
        assert_eq!(stage.shown(), ["cy name:a write"]);
        let record = stage.recorded("a");
        assert!(
            !record.iter().any(|entry| entry.contains("bo")),
            "{record:?}"
        );
        bo.resume();
        assert_eq!(bo.failed(wanted).kind, Kind::Timeout);
        took
    });
}

/// Makes a broken offer: `bo` is stopped with `a` on offer to it, and `boss` breaks that. `cy`
/// waits behind it.
fn broken_offer(stage: &Stage<'_>, agents: [&mut Agent; 4]) -> [Pending; 2] {
    let [ana, bo, cy, boss] = agents;
    let pending = line(stage, [ana, bo, cy], LONG_WAIT);
    ana.release("a");
    let offered = &stage.held()[0];
    assert_eq!(
        (offered.owner.as_str(), offered.state),
        ("bo", LeaseState::Offered)
    );
    boss.break_lease(&offered.lease, "wrong branch");
    pending
}

/// Checks that the wait of `bo` ended because its offer was broken.
fn is_told(bo: &mut Agent, wanted: Pending) {
    let failure = bo.failed(wanted);
    assert_eq!(failure.kind, Kind::Lost, "{failure:?}");
    for part in ["name:a", "boss", "wrong branch"] {
        assert!(failure.message.contains(part), "{failure:?}");
    }
}

fn a_broken_offer_ends_the_wait_with_who_broke_it_and_why(stage: &Stage<'_>) {
    let [mut ana, mut bo, mut cy, mut boss] =
        stage.agents(stage.apart(), ["ana", "bo", "cy", "boss"]);
    let agents = [&mut ana, &mut bo, &mut cy, &mut boss];
    let [wanted, behind] = broken_offer(stage, agents);
    bo.resume();
    is_told(&mut bo, wanted);
    // No holder has to stop here, so the next in line need not wait for that.
    let told = Instant::now();
    cy.granted(behind);
    assert!(told.elapsed() < AT_ONCE, "{:?}", told.elapsed());
}

fn a_broken_offer_ends_the_wait_also_when_its_time_to_stop_is_over(stage: &Stage<'_>) {
    let [mut ana, mut bo, mut cy, mut boss] =
        stage.agents(stage.apart(), ["ana", "bo", "cy", "boss"]);
    let agents = [&mut ana, &mut bo, &mut cy, &mut boss];
    let [wanted, behind] = broken_offer(stage, agents);
    cy.granted(behind);
    bo.resume();
    is_told(&mut bo, wanted);
    assert_eq!(stage.shown(), ["cy name:a write"]);
}
