//! Upgrades from upgradeable to write, and downgrades back.

use std::time::Duration;

use tenure::Mode;

use super::case::{Case, case};
use crate::agent::words::{Answer, Command, Kind};
use crate::agent::{LONG_WAIT, resource};
use crate::stage::Stage;

pub(super) const CASES: &[Case] = &[
    case!(an_upgrade_with_nobody_else_there_is_granted_at_once),
    case!(an_upgrade_waits_for_the_last_reader),
    case!(while_an_upgrade_waits_new_readers_wait),
    case!(a_waiting_upgrade_goes_before_the_queue),
    case!(an_upgrade_that_runs_out_of_time_leaves_the_lock_as_before),
    case!(an_upgrade_that_is_not_waited_for_leaves_the_lock_as_before),
    case!(a_dropped_upgrade_lets_the_readers_behind_it_in),
    case!(a_downgrade_goes_back_to_upgradeable_and_lets_readers_in),
    case!(a_lock_goes_up_and_down_again_and_again),
    case!(only_an_upgradeable_lock_is_upgraded_and_only_an_upgraded_one_downgraded),
];

fn an_upgrade_with_nobody_else_there_is_granted_at_once(stage: &Stage<'_>) {
    for placement in stage.placements() {
        let [mut ana, mut bo] = stage.agents(*placement, ["ana", "bo"]);
        ana.take("a", Mode::Upgradeable);
        assert!(ana.try_upgrade("a").is_some(), "{placement:?}");
        assert_eq!(stage.shown(), ["ana name:a write"]);
        for mode in Mode::ALL {
            assert!(bo.try_take("a", mode).is_none(), "{placement:?}: {mode}");
        }
        ana.release("a");
        bo.take("a", Mode::Write);
    }
}

fn an_upgrade_waits_for_the_last_reader(stage: &Stage<'_>) {
    for placement in stage.placements() {
        let [mut ana, mut r1, mut r2] = stage.agents(*placement, ["ana", "r1", "r2"]);
        r1.take("a", Mode::Read);
        ana.take("a", Mode::Upgradeable);
        r2.take("a", Mode::Read);
        let upgrade = ana.want_upgrade("a", LONG_WAIT);
        for reader in [&mut r1, &mut r2] {
            stage.until_waiting("a", 1);
            assert!(ana.answered(upgrade).is_none(), "{placement:?}");
            reader.release("a");
        }
        ana.upgraded(upgrade);
        assert_eq!(stage.shown(), ["ana name:a write"]);
    }
}

fn while_an_upgrade_waits_new_readers_wait(stage: &Stage<'_>) {
    let [mut ana, mut r1, mut r2] = stage.agents(stage.seen_waiting(), ["ana", "r1", "r2"]);
    ana.take("a", Mode::Upgradeable);
    r1.take("a", Mode::Read);
    let upgrade = ana.want_upgrade("a", LONG_WAIT);
    stage.until_waiting("a", 1);
    assert!(r2.try_take("a", Mode::Read).is_none());
    let wanted = r2.want("a", Mode::Read);
    stage.until_waiting("a", 2);
    r1.release("a");
    ana.upgraded(upgrade);
    stage.until_waiting("a", 1);
    assert!(r2.answered(wanted).is_none());
    ana.release("a");
    r2.granted(wanted);
}

fn a_waiting_upgrade_goes_before_the_queue(stage: &Stage<'_>) {
    for behind in Mode::ALL {
        let [mut ana, mut r1, mut bo, mut cy] =
            stage.agents(stage.seen_waiting(), ["ana", "r1", "bo", "cy"]);
        ana.take("a", Mode::Upgradeable);
        r1.take("a", Mode::Read);
        let queued = bo.want("a", Mode::Write);
        stage.until_waiting("a", 1);
        let last = cy.want("a", behind);
        stage.until_waiting("a", 2);
        let upgrade = ana.want_upgrade("a", LONG_WAIT);
        stage.until_waiting("a", 3);
        r1.release("a");
        ana.upgraded(upgrade);
        stage.until_waiting("a", 2);
        assert!(bo.answered(queued).is_none() && cy.answered(last).is_none());
        assert_eq!(stage.shown(), ["ana name:a write"]);
        ana.release("a");
        bo.granted(queued);
        bo.release("a");
        cy.granted(last);
    }
}

fn an_upgrade_that_runs_out_of_time_leaves_the_lock_as_before(stage: &Stage<'_>) {
    for placement in stage.placements() {
        let [mut ana, mut r1, mut r2] = stage.agents(*placement, ["ana", "r1", "r2"]);
        let before = ana.take("a", Mode::Upgradeable);
        r1.take("a", Mode::Read);
        let upgrade = ana.want_upgrade("a", Duration::from_millis(20));
        let failure = ana.failed(upgrade);
        assert_eq!(failure.kind, Kind::Timeout, "{failure:?}");
        assert_eq!(stage.waiting("a"), 0);
        r2.take("a", Mode::Read);
        assert!(r2.list().iter().any(|lease| {
            lease.lease == before.lease
                && lease.mode == Mode::Upgradeable
                && lease.token == before.token
        }));
        r1.release("a");
        r2.release("a");
        assert!(ana.try_upgrade("a").is_some(), "{placement:?}");
    }
}

fn an_upgrade_that_is_not_waited_for_leaves_the_lock_as_before(stage: &Stage<'_>) {
    for placement in stage.placements() {
        let [mut ana, mut r1, mut bo] = stage.agents(*placement, ["ana", "r1", "bo"]);
        ana.take("a", Mode::Upgradeable);
        r1.take("a", Mode::Read);
        assert!(ana.try_upgrade("a").is_none(), "{placement:?}");
        assert!(bo.try_take("a", Mode::Upgradeable).is_none());
        assert_eq!(stage.shown(), ["ana name:a upgradeable", "r1 name:a read"]);
        bo.take("a", Mode::Read);
    }
}

fn a_dropped_upgrade_lets_the_readers_behind_it_in(stage: &Stage<'_>) {
    let [mut ana, mut r1, mut r2] = stage.agents(stage.seen_waiting(), ["ana", "r1", "r2"]);
    ana.take("a", Mode::Upgradeable);
    r1.take("a", Mode::Read);
    let upgrade = ana.want_upgrade("a", LONG_WAIT);
    stage.until_waiting("a", 1);
    let wanted = r2.want("a", Mode::Read);
    stage.until_waiting("a", 2);
    assert!(ana.cancel(upgrade));
    r2.granted(wanted);
    assert_eq!(
        stage.shown(),
        ["ana name:a upgradeable", "r1 name:a read", "r2 name:a read"]
    );
}

fn a_downgrade_goes_back_to_upgradeable_and_lets_readers_in(stage: &Stage<'_>) {
    for placement in stage.placements() {
        let [mut ana, mut r1, mut bo] = stage.agents(*placement, ["ana", "r1", "bo"]);
        ana.take("a", Mode::Upgradeable);
        ana.try_upgrade("a").unwrap();
        let wanted = r1.want("a", Mode::Read);
        stage.until_waiting("a", 1);
        assert_eq!(ana.downgrade("a").mode, Mode::Upgradeable, "{placement:?}");
        r1.granted(wanted);
        assert!(bo.try_take("a", Mode::Upgradeable).is_none());
        assert_eq!(stage.shown(), ["ana name:a upgradeable", "r1 name:a read"]);
    }
}

fn a_lock_goes_up_and_down_again_and_again(stage: &Stage<'_>) {
    for placement in stage.placements() {
        let [mut ana, mut bo] = stage.agents(*placement, ["ana", "bo"]);
        ana.take("a", Mode::Upgradeable);
        for _ in 0..5 {
            ana.try_upgrade("a").unwrap();
            assert!(bo.try_take("a", Mode::Read).is_none(), "{placement:?}");
            ana.downgrade("a");
            bo.take("a", Mode::Read);
            bo.release("a");
        }
    }
}

fn only_an_upgradeable_lock_is_upgraded_and_only_an_upgraded_one_downgraded(stage: &Stage<'_>) {
    let conflict = |answer: Answer| match answer {
        Answer::Failed(failure) => assert_eq!(failure.kind, Kind::Conflict, "{failure:?}"),
        other => panic!("{other:?}"),
    };
    let a = || resource("a");
    let [mut ana] = stage.agents(stage.apart(), ["ana"]);
    for mode in Mode::ALL {
        ana.take("a", mode);
        conflict(ana.ask(Command::Downgrade { resource: a() }));
        if mode != Mode::Upgradeable {
            conflict(ana.ask(Command::TryUpgrade { resource: a() }));
            let wait = LONG_WAIT;
            conflict(ana.ask(Command::Upgrade {
                resource: a(),
                wait,
            }));
        }
        assert_eq!(stage.shown(), [format!("ana name:a {mode}")]);
        ana.release("a");
    }
}
