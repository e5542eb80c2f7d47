//! Futures dropped half-way, and panics.

use std::panic::AssertUnwindSafe;

use tenure::{Keeper, Mode, Session};

use crate::faulty_store::FaultyStore;
use crate::scene::*;

/// More polls than any call has await points; the loops check that.
const POLLS_MAX: usize = 40;

async fn two() -> (Keeper, Session, Session) {
    let (_, keeper) = FaultyStore::dawdling().keep();
    let (ana, bo) = (session(&keeper, "ana").await, session(&keeper, "bo").await);
    (keeper, ana, bo)
}

#[tokio::test]
async fn an_acquire_dropped_at_any_await_point_leaves_neither_lock_nor_waiter() {
    let (keeper, ana, bo) = two().await;
    let (a, options) = (resource("a"), patient());
    let mut waited = 0;
    for polls in 0..POLLS_MAX {
        let guard = take(&ana, "a", Mode::Write).await;
        let mut asking = Box::pin(bo.acquire(&a, Mode::Write, &options));
        assert!(poll_times(&mut asking, polls).is_none());
        waited += waiting(&keeper).await.len();
        drop(asking);
        assert!(waiting(&keeper).await.is_empty(), "after {polls} polls");
        drop(guard);
        assert_idle(&keeper).await;
        drop(take(&bo, "a", Mode::Write).await);
    }
    assert!(waited > 0 && waited < POLLS_MAX, "all points were met");
}

#[tokio::test]
async fn an_acquire_granted_and_dropped_in_one_instant_gives_the_lock_to_the_next() {
    let (keeper, ana, bo) = two().await;
    let cy = session(&keeper, "cy").await;
    let (a, options) = (resource("a"), patient());
    for polls in 0..POLLS_MAX {
        let guard = take(&ana, "a", Mode::Write).await;
        let mut asking = Box::pin(bo.acquire(&a, Mode::Write, &options));
        assert!(poll_times(&mut asking, polls).is_none());
        let next = ask(&cy, "a", Mode::Write).await;
        // The release grants to the future above, which is dropped before it hears of it.
        drop(guard);
        drop(asking);
        drop(next.await.unwrap().unwrap());
        assert_idle(&keeper).await;
    }
}

#[tokio::test]
async fn a_set_dropped_at_any_await_point_leaves_neither_lock_nor_waiter() {
    let (keeper, ana, bo) = two().await;
    let wanted = set(&[("a", Mode::Write), ("b", Mode::Read), ("c", Mode::Write)]);
    let options = patient();
    let guard = take(&ana, "c", Mode::Write).await;
    for polls in 0..POLLS_MAX {
        let mut asking = Box::pin(bo.acquire_many(&wanted, &options));
        assert!(poll_times(&mut asking, polls).is_none());
        drop(asking);
        assert_eq!(held(&keeper).await, ["name:c write"], "after {polls} polls");
        assert!(waiting(&keeper).await.is_empty(), "after {polls} polls");
    }
    drop(guard);
    drop(bo.acquire_many(&wanted, &options).await.unwrap());
}

#[tokio::test]
async fn an_upgrade_dropped_at_any_await_point_leaves_the_lock_as_before() {
    let (keeper, ana, bo) = two().await;
    for released_in_that_instant in [false, true] {
        for polls in 0..POLLS_MAX {
            let mut guard = take(&ana, "a", Mode::Upgradeable).await;
            let reader = take(&bo, "a", Mode::Read).await;
            let mut upgrading = Box::pin(guard.upgrade(patient().wait));
            assert!(poll_times(&mut upgrading, polls).is_none());
            let reader = (!released_in_that_instant).then_some(reader);
            drop(upgrading);
            assert_eq!(guard.mode(), Mode::Upgradeable);
            assert!(waiting(&keeper).await.is_empty(), "after {polls} polls");
            drop(reader);
            // Other sessions can read, so the lock is not write in the store either.
            drop(take(&bo, "a", Mode::Read).await);
            guard.upgrade(None).await.unwrap();
        }
    }
    assert_idle(&keeper).await;
}

#[tokio::test]
async fn a_release_dropped_at_any_await_point_releases_all_the_same() {
    let (keeper, ana, _) = two().await;
    let mut finished = 0;
    for polls in 0..POLLS_MAX {
        let guard = take(&ana, "a", Mode::Write).await;
        let mut releasing = Box::pin(guard.release());
        finished += usize::from(poll_times(&mut releasing, polls).is_some());
        drop(releasing);
        assert_idle(&keeper).await;
    }
    assert!(finished > 0 && finished < POLLS_MAX, "all points were met");
}

#[tokio::test]
async fn a_downgrade_dropped_at_any_await_point_counts_as_upgradeable() {
    let (keeper, ana, _) = two().await;
    for polls in 1..POLLS_MAX {
        let mut guard = take(&ana, "a", Mode::Upgradeable).await;
        guard.upgrade(None).await.unwrap();
        let mut downgrading = Box::pin(guard.downgrade());
        poll_times(&mut downgrading, polls);
        drop(downgrading);
        assert_eq!(guard.mode(), Mode::Upgradeable);
        drop(guard);
        assert_idle(&keeper).await;
    }
}

#[tokio::test]
async fn a_panic_while_holding_releases() {
    let keeper = keeper().await;
    let (ana, bo) = (session(&keeper, "ana").await, session(&keeper, "bo").await);
    let holder = ana.clone();
    let panicked = tokio::spawn(async move {
        let _guards = (
            take(&holder, "a", Mode::Write).await,
            take(&holder, "b", Mode::Read).await,
        );
        panic!("while holding");
    });
    assert!(panicked.await.unwrap_err().is_panic());
    assert_idle(&keeper).await;
    drop(take(&bo, "a", Mode::Write).await);
    drop(take(&ana, "a", Mode::Write).await);

    let guard = take(&ana, "a", Mode::Write).await;
    let unwound = std::panic::catch_unwind(AssertUnwindSafe(move || {
        let _guard = guard;
        panic!("while holding");
    }));
    assert!(unwound.is_err());
    assert_idle(&keeper).await;
}
