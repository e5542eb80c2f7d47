//! Holders and waiters that die or stop.
//!
//! Agents are as far apart as the store allows: where processes meet in it, they are killed with
//! SIGKILL and stopped with SIGSTOP; else their threads unwind, and do nothing at all.

use std::time::Duration;

use tenure::Mode;

use super::case::{Case, case};
use crate::agent::words::{Answer, Command, Kind};
use crate::agent::{LONG_WAIT, resource};
use crate::stage::{Stage, until};

pub(super) const CASES: &[Case] = &[
    case!(a_killed_holder_gives_way_to_who_waits),
    case!(a_killed_holder_leaves_nothing_for_who_tries),
    case!(a_holder_killed_after_an_upgrade_gives_way),
    case!(a_killed_holder_of_a_set_leaves_all_of_it),
    case!(a_killed_reader_lets_an_upgrade_through),
    case!(a_killed_waiter_leaves_no_trace),
    case!(a_killed_upgrade_lets_those_behind_it_in),
    case!(a_stopped_holder_keeps_its_lock),
    case!(a_stopped_holder_whose_waiters_gave_up_still_has_it),
    case!(a_process_that_ends_without_releasing_gives_way),
    case!(a_panic_while_holding_releases),
    case!(a_panic_of_a_thread_while_holding_releases),
];

fn a_killed_holder_gives_way_to_who_waits(stage: &Stage<'_>) {
    for held in Mode::ALL {
        let [mut ana, mut bo] = stage.agents(stage.apart(), ["ana", "bo"]);
        ana.take("a", held);
        let wanted = bo.want("a", Mode::Write);
        stage.until_waiting("a", 1);
        ana.crash();
        bo.granted(wanted);
        assert_eq!(stage.shown(), ["bo name:a write"], "{held}");
    }
}

fn a_killed_holder_leaves_nothing_for_who_tries(stage: &Stage<'_>) {
    for held in Mode::ALL {
        let [mut ana, mut bo] = stage.agents(stage.apart(), ["ana", "bo"]);
        ana.take("a", held);
        ana.crash();
        until("what it held is free", || {
            bo.try_take("a", Mode::Write).is_some()
        });
        assert_eq!(stage.shown(), ["bo name:a write"], "{held}");
    }
}

fn a_holder_killed_after_an_upgrade_gives_way(stage: &Stage<'_>) {
    for downgraded in [false, true] {
        let [mut ana, mut bo] = stage.agents(stage.apart(), ["ana", "bo"]);
        ana.take("a", Mode::Upgradeable);
        ana.try_upgrade("a").unwrap();
        if downgraded {
            ana.downgrade("a");
        }
        let wanted = bo.want("a", Mode::Write);
        stage.until_waiting("a", 1);
        ana.crash();
        bo.granted(wanted);
        assert_eq!(stage.shown(), ["bo name:a write"]);
    }
}

fn a_killed_holder_of_a_set_leaves_all_of_it(stage: &Stage<'_>) {
    let [mut ana, mut bo] = stage.agents(stage.apart(), ["ana", "bo"]);
    let items = || {
        ["a", "b", "c"]
            .map(|name| (resource(name), Mode::Write))
            .to_vec()
    };
    let taken = ana.ask(Command::TryMany { items: items() });
    assert!(matches!(taken, Answer::Granted { .. }), "{taken:?}");
    let wanted = bo.send(Command::AcquireMany {
        items: items(),
        wait: LONG_WAIT,
    });
    stage.until_waiting("a", 1);
    ana.crash();
    assert!(matches!(bo.answer(wanted), Answer::Granted { .. }));
}

fn a_killed_reader_lets_an_upgrade_through(stage: &Stage<'_>) {
    let [mut ana, mut bo] = stage.agents(stage.apart(), ["ana", "bo"]);
    ana.take("a", Mode::Upgradeable);
    bo.take("a", Mode::Read);
    let upgrade = ana.want_upgrade("a", LONG_WAIT);
    stage.until_waiting("a", 1);
    bo.crash();
    ana.upgraded(upgrade);
    assert_eq!(stage.shown(), ["ana name:a write"]);
}

fn a_killed_waiter_leaves_no_trace(stage: &Stage<'_>) {
    let [mut ana, mut bo, mut cy] = stage.agents(stage.seen_waiting(), ["ana", "bo", "cy"]);
    ana.take("a", Mode::Read);
    let wanted = bo.want("a", Mode::Write);
    stage.until_waiting("a", 1);
    let behind = cy.want("a", Mode::Read);
    stage.until_waiting("a", 2);
    assert!(bo.answered(wanted).is_none());
    bo.crash();
    // The waiter behind it, which waited only because of it, moves up.
    cy.granted(behind);
    stage.until_waiting("a", 0);
    assert_eq!(stage.shown(), ["ana name:a read", "cy name:a read"]);
    cy.release("a");
    // A writer that is gone holds up no new reader.
    cy.take("a", Mode::Read);
}

fn a_killed_upgrade_lets_those_behind_it_in(stage: &Stage<'_>) {
    let [mut ana, mut bo, mut cy] = stage.agents(stage.seen_waiting(), ["ana", "bo", "cy"]);
    ana.take("a", Mode::Upgradeable);
    bo.take("a", Mode::Read);
    let upgrade = ana.want_upgrade("a", LONG_WAIT);
    stage.until_waiting("a", 1);
    let behind = cy.want("a", Mode::Upgradeable);
    stage.until_waiting("a", 2);
    assert!(ana.answered(upgrade).is_none());
    ana.crash();
    cy.granted(behind);
    assert_eq!(stage.shown(), ["bo name:a read", "cy name:a upgradeable"]);
}

fn a_stopped_holder_keeps_its_lock(stage: &Stage<'_>) {
    for held in Mode::ALL {
        let [mut ana, mut bo] = stage.agents(stage.apart(), ["ana", "bo"]);
        ana.take("a", held);
        stage.stop(&mut ana);
        assert!(bo.try_take("a", Mode::Write).is_none(), "{held}");
        let wanted = bo.want("a", Mode::Write);
        stage.until_waiting("a", 1);
        assert_eq!(stage.shown(), [format!("ana name:a {held}")]);
        assert!(bo.answered(wanted).is_none(), "{held}");
        ana.resume();
        ana.release("a");
        bo.granted(wanted);
    }
}

fn a_stopped_holder_whose_waiters_gave_up_still_has_it(stage: &Stage<'_>) {
    let [mut ana, mut bo] = stage.agents(stage.apart(), ["ana", "bo"]);
    let lease = ana.take("a", Mode::Write);
    stage.stop(&mut ana);
    // This is longer than the interval of checks: silence alone takes nothing away.
    let check = stage.capabilities().check_every.unwrap_or_default();
    let wanted = bo.want_for("a", Mode::Read, check + Duration::from_millis(50));
    assert_eq!(bo.failed(wanted).kind, Kind::Timeout);
    assert_eq!(bo.list()[0].lease, lease.lease);
    ana.resume();
    assert_eq!(ana.list()[0].lease, lease.lease);
    ana.release("a");
    bo.take("a", Mode::Write);
}

fn a_process_that_ends_without_releasing_gives_way(stage: &Stage<'_>) {
    let [mut ana, mut bo] = stage.agents(stage.apart(), ["ana", "bo"]);
    ana.take("a", Mode::Write);
    let wanted = bo.want("a", Mode::Write);
    stage.until_waiting("a", 1);
    ana.exit();
    bo.granted(wanted);
    assert_eq!(stage.shown(), ["bo name:a write"]);
}

fn a_panic_while_holding_releases(stage: &Stage<'_>) {
    for placement in stage.placements() {
        let [mut ana, mut bo] = stage.agents(*placement, ["ana", "bo"]);
        ana.take("a", Mode::Write);
        ana.take("b", Mode::Upgradeable);
        ana.try_upgrade("b").unwrap();
        let wanted = bo.want("a", Mode::Write);
        stage.until_waiting("a", 1);
        let answer = ana.ask(Command::Panic);
        assert!(matches!(answer, Answer::Done), "{answer:?}");
        bo.granted(wanted);
        bo.take("b", Mode::Write);
        // The session of the task that panicked goes on, and holds nothing.
        assert!(ana.try_take("b", Mode::Write).is_none(), "{placement:?}");
        bo.release("a");
        ana.take("a", Mode::Write);
    }
}

fn a_panic_of_a_thread_while_holding_releases(stage: &Stage<'_>) {
    let ana = stage.session("ana");
    let [mut bo] = stage.agents(stage.apart(), ["bo"]);
    let (a, options) = (resource("a"), crate::stage::patient());
    let guard = stage
        .block_on(ana.acquire(&a, Mode::Write, &options))
        .unwrap();
    let wanted = bo.want("a", Mode::Write);
    stage.until_waiting("a", 1);
    let thread = std::thread::spawn(move || {
        let _guard = guard;
        std::panic::resume_unwind(Box::new("while holding"));
    });
    assert!(thread.join().is_err());
    bo.granted(wanted);
}
