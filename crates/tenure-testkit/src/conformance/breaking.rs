//! Leases that a person takes away. They are revoking until the holder confirms its stop, or for
//! ten seconds.

use std::time::{Duration, Instant};

use tenure::{LeaseId, LeaseState, Mode};
use tenure_core::audit::{Action, REASON_BYTES_MAX};

use super::case::{Case, case};
use crate::agent::lease_words::LeaseCommand;
use crate::agent::words::{Answer, Command, Kind};
use crate::agent::{Agent, LONG_WAIT, Pending, resource};
use crate::stage::{Stage, TTL_LONG, in_time};

pub(super) const CASES: &[Case] = &[
    case!(nobody_is_granted_until_the_holder_confirms_its_stop, Leases),
    case!(the_holder_is_told_who_broke_its_lock_and_why, Leases),
    case!(slow a_holder_that_does_not_stop_loses_its_lock_after_ten_seconds, Leases),
    case!(slow a_second_break_keeps_the_first_deadline, Leases),
    case!(
        a_broken_lease_is_freed_by_its_release_and_not_renewed,
        Leases
    ),
    case!(slow a_broken_holder_that_dies_gives_way_at_once, Leases),
    case!(
        an_upgrade_that_waits_is_refused_when_its_lock_is_broken,
        Leases
    ),
    case!(a_break_of_one_reader_leaves_the_others, Leases),
    case!(automated_owners_break_nothing, Leases),
    case!(a_break_needs_a_reason, Leases),
    case!(a_lease_that_is_over_is_not_broken, Leases),
    case!(a_break_is_audited_with_who_and_why, Leases),
];

/// The longest time that a revoking lease stays (rule 11).
const BREAK: Duration = Duration::from_secs(10);
/// A time far below [`BREAK`]: an event within it has not waited for that.
const AT_ONCE: Duration = Duration::from_secs(3);

fn break_it(lease: &LeaseId, reason: &str) -> LeaseCommand {
    LeaseCommand::Break {
        lease: lease.clone(),
        reason: reason.to_owned(),
    }
}

fn state(stage: &Stage<'_>, lease: &LeaseId) -> LeaseState {
    stage.listed(lease).expect("it is there").state
}

/// Waits for the news that a lock is lost.
fn lost(agent: &mut Agent, watching: Pending) -> String {
    match agent.answer(watching) {
        Answer::Lost(failure) => {
            assert_eq!(failure.kind, Kind::Lost, "{failure:?}");
            failure.message
        }
        other => panic!("{} lost nothing: {other:?}", agent.owner()),
    }
}

/// Releases a lock that is lost. The answer may or may not tell of the loss; the stop counts.
fn confirm(agent: &mut Agent, name: &str) {
    let resource = resource(name);
    let answer = agent.ask(Command::Release { resource });
    let told = matches!(&answer, Answer::Failed(failure) if failure.kind == Kind::Lost);
    assert!(matches!(answer, Answer::Done) || told, "{answer:?}");
}

fn nobody_is_granted_until_the_holder_confirms_its_stop(stage: &Stage<'_>) {
    let [mut ana, mut bo, mut cy] = stage.agents(stage.apart(), ["ana", "bo", "cy"]);
    in_time("a hand-over after a confirmed stop", AT_ONCE, || {
        let lease = ana.take("a", Mode::Write);
        let watching = ana.watch("a");
        let wanted = bo.want("a", Mode::Write);
        stage.until_waiting("a", 1);
        let broken = cy.break_lease(&lease.lease, "it hangs");
        assert_eq!(
            (&broken.lease, broken.state),
            (&lease.lease, LeaseState::Revoking)
        );
        lost(&mut ana, watching);
        assert_eq!(state(stage, &lease.lease), LeaseState::Revoking);
        for mode in Mode::ALL {
            assert!(cy.try_take("a", mode).is_none(), "{mode}");
        }
        assert!(bo.answered(wanted).is_none());
        let confirmed = Instant::now();
        confirm(&mut ana, "a");
        assert!(bo.granted(wanted).token > lease.token);
        let took = confirmed.elapsed();
        bo.release("a");
        took
    });
}

fn the_holder_is_told_who_broke_its_lock_and_why(stage: &Stage<'_>) {
    let [mut ana, mut boss] = stage.agents(stage.apart(), ["ana", "boss"]);
    let lease = ana.take("a", Mode::Upgradeable);
    let watching = ana.watch("a");
    boss.break_lease(&lease.lease, "the disk is full");
    let message = lost(&mut ana, watching);
    for part in ["name:a", "boss", "the disk is full"] {
        assert!(message.contains(part), "{message}");
    }
    // A lost lock is not upgraded any more.
    let upgrade = ana.want_upgrade("a", LONG_WAIT);
    let failure = ana.failed(upgrade);
    assert_eq!(failure.kind, Kind::Lost, "{failure:?}");
    confirm(&mut ana, "a");
}

/// A stopped holder cannot confirm its stop.
fn a_holder_that_does_not_stop_loses_its_lock_after_ten_seconds(stage: &Stage<'_>) {
    let [mut ana, mut bo, mut boss] = stage.agents(stage.apart(), ["ana", "bo", "boss"]);
    let lease = ana.take("a", Mode::Write);
    stage.stop(&mut ana);
    let wanted = bo.want("a", Mode::Write);
    stage.until_waiting("a", 1);
    let before = Instant::now();
    boss.break_lease(&lease.lease, "it hangs");
    let after = Instant::now();
    let taken = bo.granted(wanted);
    assert!(before.elapsed() >= BREAK, "{:?}", before.elapsed());
    assert!(after.elapsed() < BREAK + AT_ONCE, "{:?}", after.elapsed());
    assert!(taken.token > lease.token);
    let expected = ["acquire ana", "break ana", "lost ana", "acquire bo"];
    assert_eq!(stage.recorded("a"), expected);
    let ended = &stage.audit_of("a")[2];
    let ended_as = (ended.lease.as_ref(), ended.token);
    assert_eq!(ended_as, (Some(&lease.lease), Some(lease.token)));
    // The late holder learns of its loss, and takes nothing from the new one.
    let late = ana.send(Command::Release {
        resource: resource("a"),
    });
    ana.resume();
    let answer = ana.answer(late);
    let kind = match &answer {
        Answer::Failed(failure) => failure.kind,
        other => panic!("{other:?}"),
    };
    assert!(matches!(kind, Kind::Lost | Kind::LeaseOver), "{answer:?}");
    assert!(ana.is_fenced("a", lease.token) && !bo.is_fenced("a", taken.token));
    assert_eq!(stage.shown(), ["bo name:a write"]);
}

fn a_second_break_keeps_the_first_deadline(stage: &Stage<'_>) {
    const BETWEEN: Duration = Duration::from_secs(6);
    let [mut ana, mut bo, mut boss] = stage.agents(stage.apart(), ["ana", "bo", "boss"]);
    let lease = ana.take("a", Mode::Write);
    stage.stop(&mut ana);
    let wanted = bo.want("a", Mode::Write);
    stage.until_waiting("a", 1);
    let before = Instant::now();
    boss.break_lease(&lease.lease, "it hangs");
    while before.elapsed() < BETWEEN {
        assert!(bo.answered(wanted).is_none());
        std::thread::sleep(Duration::from_millis(20));
    }
    let again = boss.break_lease(&lease.lease, "it still hangs");
    assert_eq!(again.state, LeaseState::Revoking);
    bo.granted(wanted);
    let took = before.elapsed();
    assert!(BREAK <= took && took < BREAK + BETWEEN, "{took:?}");
    ana.crash();
}

fn a_broken_lease_is_freed_by_its_release_and_not_renewed(stage: &Stage<'_>) {
    let [mut ana, mut bo, mut boss] = stage.agents(stage.apart(), ["ana", "bo", "boss"]);
    in_time("a hand-over after a confirmed stop", AT_ONCE, || {
        let lease = ana.lock("a", Mode::Upgradeable, TTL_LONG);
        let wanted = bo.want("a", Mode::Write);
        stage.until_waiting("a", 1);
        boss.break_lease(&lease.lease, "it hangs");
        assert_eq!(state(stage, &lease.lease), LeaseState::Revoking);
        let [renew, upgrade, _, release] =
            LeaseCommand::all_of_its_owner(&lease.lease, Some("ana"));
        for command in [renew, upgrade] {
            let failure = ana.refused(command);
            let told = matches!(
                failure.kind,
                Kind::LeaseOver | Kind::NotAllowed | Kind::Lost
            );
            assert!(told, "{failure:?}");
        }
        assert_eq!(state(stage, &lease.lease), LeaseState::Revoking);
        assert!(bo.answered(wanted).is_none());
        let confirmed = Instant::now();
        ana.do_on_lease(release);
        bo.granted(wanted);
        let took = confirmed.elapsed();
        bo.release("a");
        took
    });
}

/// Where the death of the holder is not proved, its time to stop must pass first.
fn a_broken_holder_that_dies_gives_way_at_once(stage: &Stage<'_>) {
    let [mut bo, mut boss] = stage.agents(stage.apart(), ["bo", "boss"]);
    let limit = stage.after_death(AT_ONCE, BREAK);
    in_time("a hand-over after a death", limit, || {
        let [mut ana] = stage.agents(stage.apart(), ["ana"]);
        let lease = ana.take("a", Mode::Write);
        stage.stop(&mut ana);
        let wanted = bo.want("a", Mode::Write);
        stage.until_waiting("a", 1);
        boss.break_lease(&lease.lease, "it hangs");
        let died = Instant::now();
        ana.crash();
        bo.granted(wanted);
        let took = died.elapsed();
        bo.release("a");
        took
    });
}

fn an_upgrade_that_waits_is_refused_when_its_lock_is_broken(stage: &Stage<'_>) {
    let [mut ana, mut bo, mut boss] = stage.agents(stage.apart(), ["ana", "bo", "boss"]);
    let lease = ana.take("a", Mode::Upgradeable);
    bo.take("a", Mode::Read);
    let upgrade = ana.want_upgrade("a", LONG_WAIT);
    stage.until_waiting("a", 1);
    boss.break_lease(&lease.lease, "it hangs");
    let failure = ana.failed(upgrade);
    assert!(
        matches!(failure.kind, Kind::Lost | Kind::LeaseOver),
        "{failure:?}"
    );
    stage.until_waiting("a", 0);
    confirm(&mut ana, "a");
    assert_eq!(stage.shown(), ["bo name:a read"]);
}

fn a_break_of_one_reader_leaves_the_others(stage: &Stage<'_>) {
    let [mut ana, mut bo, mut boss] = stage.agents(stage.apart(), ["ana", "bo", "boss"]);
    let broken = ana.take("a", Mode::Read);
    let other = bo.take("a", Mode::Read);
    let watching = ana.watch("a");
    boss.break_lease(&broken.lease, "it hangs");
    lost(&mut ana, watching);
    assert_eq!(state(stage, &other.lease), LeaseState::Held);
    // A reader whose lease is revoking is still a reader.
    boss.take("a", Mode::Read);
    confirm(&mut ana, "a");
    assert_eq!(stage.shown(), ["bo name:a read", "boss name:a read"]);
}

fn automated_owners_break_nothing(stage: &Stage<'_>) {
    let [mut ana] = stage.agents(stage.apart(), ["ana"]);
    let [mut agent, mut job] = stage.agents(stage.apart(), ["agent:7", "job:nightly"]);
    let (guarded, leased) = (
        ana.take("a", Mode::Write),
        ana.lock("b", Mode::Write, TTL_LONG),
    );
    let owned = agent.lock("c", Mode::Write, TTL_LONG);
    for automated in [&mut agent, &mut job] {
        // An automated owner may not ask: not for its own leases either, nor for leases that do not
        // exist.
        for lease in [&guarded, &leased, &owned] {
            let failure = automated.refused(break_it(&lease.lease, "it hangs"));
            assert_eq!(failure.kind, Kind::NotAllowed, "{failure:?}");
            assert_eq!(state(stage, &lease.lease), LeaseState::Held);
        }
    }
    for name in ["a", "b", "c"] {
        assert_eq!(stage.recorded(name).len(), 1);
    }
    ana.release_lease(&leased.lease);
    agent.release_lease(&owned.lease);
}

fn a_break_needs_a_reason(stage: &Stage<'_>) {
    let [mut ana, mut boss] = stage.agents(stage.apart(), ["ana", "boss"]);
    let lease = ana.take("a", Mode::Write);
    let long = "x".repeat(REASON_BYTES_MAX + 1);
    for reason in ["", " ", "a\u{1b}[2J", "two\nlines", &long] {
        let failure = boss.refused(break_it(&lease.lease, reason));
        assert_eq!(failure.kind, Kind::BadInput, "{reason:?}: {failure:?}");
        assert_eq!(state(stage, &lease.lease), LeaseState::Held);
    }
    boss.break_lease(&lease.lease, &long[1..]);
    confirm(&mut ana, "a");
}

fn a_lease_that_is_over_is_not_broken(stage: &Stage<'_>) {
    let [mut ana, mut boss] = stage.agents(stage.apart(), ["ana", "boss"]);
    let lease = ana.lock("a", Mode::Write, TTL_LONG).lease;
    ana.release_lease(&lease);
    let next = ana.lock("a", Mode::Write, TTL_LONG).lease;
    let failure = boss.refused(break_it(&lease, "it hangs"));
    assert_eq!(failure.kind, Kind::LeaseOver, "{failure:?}");
    // The break was meant for the lease before, and does not touch the new one.
    assert_eq!(state(stage, &next), LeaseState::Held);
    ana.release_lease(&next);
}

fn a_break_is_audited_with_who_and_why(stage: &Stage<'_>) {
    let [mut ana, mut boss] = stage.agents(stage.apart(), ["ana", "boss"]);
    let (guarded, leased) = (
        ana.take("a", Mode::Write),
        ana.lock("b", Mode::Write, TTL_LONG),
    );
    for (name, lease) in [("a", &guarded), ("b", &leased)] {
        boss.break_lease(&lease.lease, "the disk is full");
        let entries = stage.audit_of(name);
        let broken = entries.last().unwrap();
        assert_eq!(
            (broken.action, broken.lease.as_ref()),
            (Action::Break, Some(&lease.lease))
        );
        assert_eq!(
            (broken.owner.as_str(), broken.actor.as_str()),
            ("ana", "boss")
        );
        assert_eq!(broken.reason.as_deref(), Some("the disk is full"));
        assert_eq!(broken.token, Some(lease.token));
    }
    confirm(&mut ana, "a");
    ana.release_lease(&leased.lease);
    for name in ["a", "b"] {
        assert_eq!(
            stage.recorded(name),
            ["acquire ana", "break ana", "release ana"],
            "{name}"
        );
    }
}
