//! Futures dropped half-way.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use tenure::{Mode, Options};

use super::case::{Case, case};
use crate::agent::resource;
use crate::stage::{Stage, patient, set};

pub(super) const CASES: &[Case] = &[
    case!(an_acquire_dropped_at_any_await_leaves_neither_lock_nor_waiter),
    case!(an_acquire_dropped_in_the_instant_of_the_grant_gives_the_lock_on),
    case!(a_set_dropped_at_any_await_leaves_nothing_of_it),
    case!(an_upgrade_dropped_at_any_await_leaves_the_lock_as_before),
    case!(a_release_dropped_at_any_await_releases),
    case!(a_dropped_guard_releases),
    case!(an_aborted_task_releases_what_it_holds_and_awaits),
];

/// The number of polls to try on one machine, more than a request makes progress by. After the last
/// of them it goes on until it waits.
const POLLS_MAX: usize = 8;
/// The number of polls to try where every step is a round trip or two.
const POLLS_MAX_REMOTE: usize = 32;

pub(super) fn polls_max(stage: &Stage<'_>) -> usize {
    if stage.is_lease_bound() {
        POLLS_MAX_REMOTE
    } else {
        POLLS_MAX
    }
}

/// Polls a future so often, and returns its result if it is done. Between polls other tasks run,
/// and the waker is that of this task, so the future goes on exactly as it would without us.
pub(super) async fn poll_times<F: Future>(
    future: &mut Pin<Box<F>>,
    times: usize,
) -> Option<F::Output> {
    for _ in 0..times {
        let once = poll_fn(|context| Poll::Ready(future.as_mut().poll(context)));
        if let Poll::Ready(done) = once.await {
            return Some(done);
        }
        tokio::task::yield_now().await;
    }
    None
}

/// Goes on with a future until it is in line for a resource, where no other request is.
pub(super) fn poll_until_waiting<F: Future>(
    stage: &Stage<'_>,
    future: &mut Pin<Box<F>>,
    name: &str,
) {
    let query = tenure::Query::default().with_resource(resource(name));
    stage.block_on(async {
        let waits = async {
            loop {
                let listing = stage.keeper().list(&query).await.unwrap();
                match listing.waiting {
                    Some(waiting) if waiting.len() == 1 => return,
                    Some(_) => tokio::task::yield_now().await,
                    // Where waiters are not listed, the future waits after the polls it was given.
                    None => return,
                }
            }
        };
        tokio::select! {
            _ = future => panic!("it was to wait for {name}"),
            () = waits => {}
        }
    });
    stage.until_waiting(name, 1);
}

fn an_acquire_dropped_at_any_await_leaves_neither_lock_nor_waiter(stage: &Stage<'_>) {
    let [mut ana, mut cy] = stage.agents(stage.apart(), ["ana", "cy"]);
    let bo = stage.session("bo");
    let (a, options) = (resource("a"), patient());
    let mut waited = 0;
    for mode in Mode::ALL {
        for polls in 0..polls_max(stage) {
            ana.take("a", Mode::Write);
            let mut asking = Box::pin(bo.acquire(&a, mode, &options));
            let done = stage.block_on(poll_times(&mut asking, polls));
            assert!(done.is_none());
            if polls == polls_max(stage) - 1 {
                poll_until_waiting(stage, &mut asking, "a");
                waited += 1;
            }
            drop(asking);
            assert_eq!(stage.waiting("a"), 0, "after {polls} polls");
            ana.release("a");
            stage.assert_idle();
            cy.take("a", Mode::Write);
            cy.release("a");
            // The session does not believe, either, that it still waits.
            drop(stage.block_on(bo.acquire(&a, mode, &options)).unwrap());
            stage.settle();
        }
    }
    assert_eq!(waited, Mode::ALL.len());
}

fn an_acquire_dropped_in_the_instant_of_the_grant_gives_the_lock_on(stage: &Stage<'_>) {
    const ROUNDS: u32 = 100;
    for placement in stage.placements() {
        let [mut ana, mut bo, mut cy] = stage.agents(*placement, ["ana", "bo", "cy"]);
        let mut dropped = 0;
        for round in 0..ROUNDS {
            ana.take("a", Mode::Write);
            let wanted = bo.want("a", [Mode::Write, Mode::Read][round as usize % 2]);
            stage.until_waiting("a", 1);
            // The release and the cancellation go to two threads or processes at once, in turn the
            // one or the other first.
            let release = crate::agent::words::Command::Release {
                resource: resource("a"),
            };
            let (released, cancelled);
            if round % 4 < 2 {
                released = ana.send(release);
                for _ in 0..round * 20 {
                    std::hint::spin_loop();
                }
                cancelled = bo.cancel(wanted);
            } else {
                cancelled = bo.cancel(wanted);
                released = ana.send(release);
            }
            ana.answer(released);
            if cancelled {
                dropped += 1;
            } else {
                bo.release("a");
            }
            let next = cy.want("a", Mode::Write);
            cy.granted(next);
            assert_eq!(stage.shown(), ["cy name:a write"], "{placement:?}");
            cy.release("a");
        }
        assert!(dropped >= ROUNDS / 2, "{placement:?}: {dropped}");
    }
}

fn a_set_dropped_at_any_await_leaves_nothing_of_it(stage: &Stage<'_>) {
    let [mut ana, mut cy] = stage.agents(stage.apart(), ["ana", "cy"]);
    let bo = stage.session("bo");
    let wanted = set(&[("a", Mode::Write), ("b", Mode::Read), ("c", Mode::Write)]);
    let options = patient();
    ana.take("c", Mode::Write);
    for polls in 0..polls_max(stage) {
        let mut asking = Box::pin(bo.acquire_many(&wanted, &options));
        assert!(stage.block_on(poll_times(&mut asking, polls)).is_none());
        if polls == polls_max(stage) - 1 {
            poll_until_waiting(stage, &mut asking, "c");
            assert!(cy.try_take("a", Mode::Read).is_none());
        }
        drop(asking);
        assert_eq!(stage.waiting("c"), 0, "after {polls} polls");
        assert_eq!(stage.shown(), ["ana name:c write"], "after {polls} polls");
        cy.take("a", Mode::Write);
        cy.release("a");
    }
    ana.release("c");
    drop(stage.block_on(bo.acquire_many(&wanted, &options)).unwrap());
}

fn an_upgrade_dropped_at_any_await_leaves_the_lock_as_before(stage: &Stage<'_>) {
    let [mut bo, mut cy] = stage.agents(stage.apart(), ["bo", "cy"]);
    let ana = stage.session("ana");
    let (a, options) = (resource("a"), patient());
    for polls in 0..polls_max(stage) {
        let mut guard = stage
            .block_on(ana.acquire(&a, Mode::Upgradeable, &options))
            .unwrap();
        bo.take("a", Mode::Read);
        let token = guard.token();
        let mut upgrading = Box::pin(guard.upgrade(options.wait));
        assert!(stage.block_on(poll_times(&mut upgrading, polls)).is_none());
        if polls == polls_max(stage) - 1 {
            poll_until_waiting(stage, &mut upgrading, "a");
        }
        drop(upgrading);
        assert_eq!(stage.waiting("a"), 0, "after {polls} polls");
        assert_eq!((guard.mode(), guard.token()), (Mode::Upgradeable, token));
        // Readers come in; another upgradeable holder does not.
        cy.take("a", Mode::Read);
        cy.release("a");
        assert!(cy.try_take("a", Mode::Upgradeable).is_none());
        bo.release("a");
        stage.block_on(guard.upgrade(options.wait)).unwrap();
    }
}

fn a_release_dropped_at_any_await_releases(stage: &Stage<'_>) {
    let ana = stage.session("ana");
    let [mut bo] = stage.agents(stage.apart(), ["bo"]);
    let (a, options) = (resource("a"), patient());
    for polls in 0..polls_max(stage) {
        let guard = stage
            .block_on(ana.acquire(&a, Mode::Write, &options))
            .unwrap();
        let mut releasing = Box::pin(guard.release());
        stage.block_on(poll_times(&mut releasing, polls));
        drop(releasing);
        stage.settle();
        bo.take("a", Mode::Write);
        bo.release("a");
    }
}

fn a_dropped_guard_releases(stage: &Stage<'_>) {
    let ana = stage.session("ana");
    let [mut bo] = stage.agents(stage.apart(), ["bo"]);
    let (a, options) = (resource("a"), Options::default());
    for mode in Mode::ALL {
        let guard = ana.try_acquire(&a, mode, &options);
        let mut guard = stage.block_on(guard).unwrap().unwrap();
        assert!(bo.try_take("a", Mode::Write).is_none());
        if mode == Mode::Upgradeable {
            stage.block_on(guard.upgrade(Some(Duration::ZERO))).unwrap();
        }
        drop(guard);
        stage.settle();
        bo.take("a", Mode::Write);
        bo.release("a");
    }
}

fn an_aborted_task_releases_what_it_holds_and_awaits(stage: &Stage<'_>) {
    let [mut ana, mut bo] = stage.agents(stage.apart(), ["ana", "bo"]);
    let cy = stage.session("cy");
    ana.take("b", Mode::Write);
    let task = stage.runtime().spawn(async move {
        let (a, b, options) = (resource("a"), resource("b"), patient());
        let held = cy.acquire(&a, Mode::Write, &options).await.unwrap();
        let awaited = cy.acquire(&b, Mode::Write, &options).await.unwrap();
        drop((held, awaited));
    });
    stage.until_waiting("b", 1);
    assert!(bo.try_take("a", Mode::Write).is_none());
    task.abort();
    assert!(stage.block_on(task).unwrap_err().is_cancelled());
    assert_eq!(stage.waiting("b"), 0);
    assert_eq!(stage.shown(), ["ana name:b write"]);
    bo.take("a", Mode::Write);
}
