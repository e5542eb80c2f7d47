//! Exclusion: the locks that keep others out.

use std::fs;

use tenure::{Mode, Options, SessionOptions, blocking};

use super::case::{Case, case};
use crate::agent::resource;
use crate::agent::words::{Answer, Command};
use crate::stage::Stage;

pub(super) const CASES: &[Case] = &[
    case!(each_cell_of_the_matrix_holds_for_who_tries),
    case!(each_cell_of_the_matrix_holds_for_who_waits),
    case!(two_sessions_of_one_process_contend),
    case!(counting_under_the_lock_loses_nothing),
    case!(different_names_are_different_locks),
    case!(different_spellings_of_a_name_are_one_lock),
    case!(the_blocking_front_excludes_and_is_excluded),
];

/// Returns the matrix, written out once more: the suite does not trust what it tests.
pub(super) fn shares(held: Mode, asked: Mode) -> bool {
    match (held, asked) {
        (Mode::Read, Mode::Read) => true,
        (Mode::Read, Mode::Upgradeable) => true,
        (Mode::Read, Mode::Write) => false,
        (Mode::Upgradeable, Mode::Read) => true,
        (Mode::Upgradeable, Mode::Upgradeable) => false,
        (Mode::Upgradeable, Mode::Write) => false,
        (Mode::Write, Mode::Read) => false,
        (Mode::Write, Mode::Upgradeable) => false,
        (Mode::Write, Mode::Write) => false,
    }
}

fn each_cell_of_the_matrix_holds_for_who_tries(stage: &Stage<'_>) {
    for placement in stage.placements() {
        let [mut ana, mut bo] = stage.agents(*placement, ["ana", "bo"]);
        for held in Mode::ALL {
            for asked in Mode::ALL {
                ana.take("a", held);
                let got = bo.try_take("a", asked).is_some();
                assert_eq!(
                    got,
                    shares(held, asked),
                    "{placement:?}: {asked} while {held}"
                );
                if got {
                    bo.release("a");
                }
                ana.release("a");
                bo.take("a", asked);
                bo.release("a");
            }
        }
    }
}

fn each_cell_of_the_matrix_holds_for_who_waits(stage: &Stage<'_>) {
    for placement in stage.placements() {
        let [mut ana, mut bo] = stage.agents(*placement, ["ana", "bo"]);
        for held in Mode::ALL {
            for asked in Mode::ALL {
                ana.take("a", held);
                let wanted = bo.want("a", asked);
                if shares(held, asked) {
                    bo.granted(wanted);
                    assert_eq!(stage.held().len(), 2, "{placement:?}: {asked} while {held}");
                    ana.release("a");
                } else {
                    stage.until_waiting("a", 1);
                    assert!(bo.answered(wanted).is_none(), "{asked} while {held}");
                    assert_eq!(stage.shown(), [format!("ana name:a {held}")]);
                    ana.release("a");
                    bo.granted(wanted);
                }
                assert_eq!(stage.shown(), [format!("bo name:a {asked}")]);
                bo.release("a");
            }
        }
    }
}

fn two_sessions_of_one_process_contend(stage: &Stage<'_>) {
    let (ana, again) = (stage.session("ana"), stage.session("ana"));
    assert_ne!(ana.id(), again.id());
    let (a, options) = (resource("a"), Options::default());
    stage.block_on(async {
        let guard = ana.try_acquire(&a, Mode::Write, &options).await.unwrap();
        assert!(guard.is_some());
        for mode in Mode::ALL {
            let refused = again.try_acquire(&a, mode, &options).await.unwrap();
            assert!(refused.is_none(), "{mode}");
        }
        drop(guard);
        let guard = again.try_acquire(&a, Mode::Write, &options).await.unwrap();
        assert!(guard.is_some());
    });
}

fn counting_under_the_lock_loses_nothing(stage: &Stage<'_>) {
    const TIMES: u32 = 40;
    let directory = tempfile::tempdir().unwrap();
    for placement in stage.placements() {
        let file = directory.path().join("count");
        fs::write(&file, "0").unwrap();
        let mut agents = stage.agents(*placement, ["ana", "bo", "cy", "di"]);
        let count = || Command::Count {
            resource: resource("a"),
            file: file.clone(),
            times: TIMES,
        };
        let counting: Vec<_> = agents.iter_mut().map(|agent| agent.send(count())).collect();
        for (agent, counting) in agents.iter_mut().zip(counting) {
            let answer = agent.answer(counting);
            assert!(matches!(answer, Answer::Done), "{answer:?}");
        }
        let counted: u32 = fs::read_to_string(&file).unwrap().parse().unwrap();
        assert_eq!(counted, TIMES * 4, "{placement:?}");
    }
}

fn different_names_are_different_locks(stage: &Stage<'_>) {
    let long = format!("name:{}", "x".repeat(1000));
    let longer = format!("{long}y");
    let names = [
        "a", "A", "b", "a/b", "a%2Cb", "a:b", "a.b", "a-b", "map:a", "map:a/b", "..", ".",
        "a.lock", "é", "e%CC%81", "%00", "%FF", "%2F", "-a", "a%20", &long, &longer,
    ];
    let [mut ana, mut bo] = stage.agents(stage.apart(), ["ana", "bo"]);
    for name in names {
        ana.take(name, Mode::Write);
        for other in names {
            // `%2F` is another spelling of `/`.
            if resource(other) == resource(name) {
                assert!(bo.try_take(other, Mode::Write).is_none(), "{name}");
            } else {
                bo.take(other, Mode::Write);
                bo.release(other);
            }
        }
        ana.release(name);
    }
}

fn different_spellings_of_a_name_are_one_lock(stage: &Stage<'_>) {
    let [mut ana, mut bo] = stage.agents(stage.apart(), ["ana", "bo"]);
    for (one, other) in [("a", "name:a"), ("a%2cb", "a%2Cb"), ("%61", "a")] {
        ana.take(one, Mode::Write);
        assert!(bo.try_take(other, Mode::Read).is_none(), "{one} {other}");
        ana.release(other);
    }
}

fn the_blocking_front_excludes_and_is_excluded(stage: &Stage<'_>) {
    let settings = stage.keeper().settings().clone();
    let store = tenure::internal::store(stage.keeper()).clone();
    let keeper = blocking::Keeper::from_store(store, settings).unwrap();
    let ana = SessionOptions::new(tenure::Owner::parse("ana").unwrap());
    let ana = keeper.session(ana);
    let [mut bo] = stage.agents(stage.apart(), ["bo"]);
    let (a, options) = (resource("a"), crate::stage::patient());
    let mut contend = || {
        let mut guard = ana.acquire(&a, Mode::Upgradeable, &options).unwrap();
        assert!(bo.try_take("a", Mode::Write).is_none());
        bo.take("a", Mode::Read);
        assert!(guard.try_upgrade().unwrap().is_none());
        bo.release("a");
        guard.upgrade(None).unwrap();
        assert!(bo.try_take("a", Mode::Read).is_none());
        guard.release().unwrap();
        bo.take("a", Mode::Read);
        assert!(
            ana.try_acquire(&a, Mode::Write, &options)
                .unwrap()
                .is_none()
        );
        bo.release("a");
        drop(ana.acquire(&a, Mode::Write, &options).unwrap());
        // Listing is a blocking call, too, and also works inside a runtime.
        keeper.list(&tenure::Query::default()).unwrap();
        bo.take("a", Mode::Write);
        bo.release("a");
    };
    contend();
    // Code inside a runtime may block, too.
    stage.block_on(async { contend() });

    let guard = ana.acquire(&a, Mode::Write, &options).unwrap();
    let wanted = bo.want("a", Mode::Read);
    stage.until_waiting("a", 1);
    guard.release().unwrap();
    bo.granted(wanted);
}
