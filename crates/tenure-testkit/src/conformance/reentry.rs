//! Sessions that ask for a lock they hold.

use std::time::{Duration, Instant};

use tenure::{Error, Mode, Options};

use super::case::{Case, case};
use crate::agent::words::{Answer, Command, Kind};
use crate::agent::{LONG_WAIT, resource};
use crate::stage::{Stage, patient, set};

pub(super) const CASES: &[Case] = &[
    case!(acquire_is_refused_at_once_and_names_the_lease),
    case!(try_acquire_answers_not_acquired_and_the_outer_lock_stays),
    case!(a_set_with_something_held_is_refused_whole),
    case!(what_is_awaited_counts_as_held),
    case!(a_released_lock_can_be_asked_for_again),
    case!(clones_of_a_session_are_the_same_session),
];

fn acquire_is_refused_at_once_and_names_the_lease(stage: &Stage<'_>) {
    let ana = stage.session("ana");
    let [mut bo] = stage.agents(stage.apart(), ["bo"]);
    let a = resource("a");
    for held in Mode::ALL {
        let outer = stage.block_on(ana.acquire(&a, held, &patient())).unwrap();
        for asked in Mode::ALL {
            let began = Instant::now();
            let error = stage.block_on(ana.acquire(&a, asked, &patient()));
            let error = error.unwrap_err();
            assert!(began.elapsed() < LONG_WAIT, "it was waited for");
            let Error::Reentry { context, lease } = &error else {
                panic!("{error:?}");
            };
            assert_eq!((&context.resource, context.mode), (&a, asked));
            assert_eq!(*lease, outer.lease().lease);
            assert_eq!(stage.shown(), [format!("ana name:a {held}")]);
            assert!(bo.try_take("a", Mode::Write).is_none());
        }
        drop(outer);
    }
}

fn try_acquire_answers_not_acquired_and_the_outer_lock_stays(stage: &Stage<'_>) {
    for placement in stage.placements() {
        let [mut ana, mut bo] = stage.agents(*placement, ["ana", "bo"]);
        for held in Mode::ALL {
            let outer = ana.take("a", held);
            for asked in Mode::ALL {
                assert!(ana.try_take("a", asked).is_none(), "{asked} while {held}");
                let listed = bo.list();
                assert_eq!(listed.len(), 1);
                assert_eq!((&listed[0].lease, listed[0].mode), (&outer.lease, held));
                assert!(bo.try_take("a", Mode::Write).is_none());
            }
            ana.release("a");
        }
    }
}

fn a_set_with_something_held_is_refused_whole(stage: &Stage<'_>) {
    let [mut ana, mut bo] = stage.agents(stage.apart(), ["ana", "bo"]);
    let items = || {
        ["a", "b", "c"]
            .map(|name| (resource(name), Mode::Write))
            .to_vec()
    };
    ana.take("b", Mode::Read);
    let answer = ana.ask(Command::AcquireMany {
        items: items(),
        wait: LONG_WAIT,
    });
    match answer {
        Answer::Failed(failure) => {
            assert_eq!(
                (failure.kind, &*failure.names),
                (Kind::Reentry, &[resource("b")][..])
            );
        }
        other => panic!("{other:?}"),
    }
    let answer = ana.ask(Command::TryMany { items: items() });
    assert!(matches!(answer, Answer::NotAcquired), "{answer:?}");
    assert_eq!(stage.shown(), ["ana name:b read"]);
    for name in ["a", "c"] {
        bo.take(name, Mode::Write);
        bo.release(name);
    }
}

fn what_is_awaited_counts_as_held(stage: &Stage<'_>) {
    let [mut ana, mut bo] = stage.agents(stage.apart(), ["ana", "bo"]);
    ana.take("a", Mode::Write);
    let wanted = bo.want("a", Mode::Write);
    stage.until_waiting("a", 1);
    assert!(bo.try_take("a", Mode::Read).is_none());
    let again = bo.want("a", Mode::Read);
    assert_eq!(bo.failed(again).kind, Kind::Reentry);
    ana.release("a");
    bo.granted(wanted);
    assert_eq!(stage.shown(), ["bo name:a write"]);
}

fn a_released_lock_can_be_asked_for_again(stage: &Stage<'_>) {
    for placement in stage.placements() {
        let [mut ana] = stage.agents(*placement, ["ana"]);
        for mode in [Mode::ALL, Mode::ALL].concat() {
            ana.take("a", mode);
            ana.release("a");
        }
    }
}

fn clones_of_a_session_are_the_same_session(stage: &Stage<'_>) {
    let ana = stage.session("ana");
    let clone = ana.clone();
    let (a, options) = (resource("a"), Options::default());
    stage.block_on(async {
        let outer = ana.try_acquire(&a, Mode::Read, &options).await.unwrap();
        assert!(outer.is_some());
        // Another session could also read.
        assert!(
            clone
                .try_acquire(&a, Mode::Read, &options)
                .await
                .unwrap()
                .is_none()
        );
        let wait = Options::default().with_wait(Duration::ZERO);
        let items = set(&[("a", Mode::Read)]);
        let error = clone.acquire_many(&items, &wait).await.unwrap_err();
        assert!(matches!(error, Error::Reentry { .. }), "{error:?}");
    });
}
