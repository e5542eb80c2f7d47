//! The background check.

use std::sync::Arc;
use std::time::Duration;

use tenure::{Class, GuardState, Keeper, Mode};
use tokio::runtime::Handle;
use tokio::time::{sleep, timeout};

use crate::faulty_store::{FaultyStore, broken, over};
use crate::scene::*;

const EVERY: Duration = Duration::from_secs(10);

fn watched() -> (Arc<FaultyStore>, Keeper) {
    FaultyStore::checked(EVERY).keep()
}

#[tokio::test(start_paused = true)]
async fn any_number_hear_of_a_loss_and_why() {
    let (store, keeper) = watched();
    let ana = session(&keeper, "ana").await;
    let guard = take(&ana, "a", Mode::Write).await;
    assert!(timeout(5 * EVERY, guard.lost()).await.is_err(), "not lost");
    guard.check().unwrap();
    store.fail("renew", over("the file was replaced"));
    let (one, two) = tokio::join!(guard.lost(), guard.lost());
    for error in [one, two, guard.lost().await, guard.check().unwrap_err()] {
        assert_eq!(error.class(), Class::Lost);
        assert_eq!(error.resource(), Some(&resource("a")));
        assert!(error.to_string().contains("the file was replaced"));
    }
    sleep(3 * EVERY).await;
    assert_eq!(guard.state(), GuardState::Lost, "the store says yes again");
}

#[tokio::test(start_paused = true)]
async fn a_failed_check_makes_a_guard_unknown_until_the_next_good_one() {
    let (store, keeper) = watched();
    let ana = session(&keeper, "ana").await;
    let guard = take(&ana, "a", Mode::Write).await;
    store.fail("renew", broken());
    sleep(EVERY + EVERY / 2).await;
    assert_eq!(guard.state(), GuardState::Unknown);
    sleep(EVERY).await;
    assert_eq!(guard.state(), GuardState::Held);
}

#[tokio::test(start_paused = true)]
async fn every_lock_of_the_session_is_checked_and_only_the_lost_one_is_lost() {
    let (store, keeper) = watched();
    let ana = session(&keeper, "ana").await;
    let (a, b) = (
        take(&ana, "a", Mode::Write).await,
        take(&ana, "b", Mode::Read).await,
    );
    store.fail("renew", over("gone"));
    assert_eq!(a.lost().await.class(), Class::Lost);
    sleep(EVERY / 2).await;
    assert_eq!(b.state(), GuardState::Held);
    for guard in [&a, &b] {
        let renewed = format!("renew {}", guard.lease().lease);
        assert!(store.log().contains(&renewed));
    }
}

#[tokio::test(start_paused = true)]
async fn the_checks_end_with_the_last_guard_and_begin_again_with_the_next() {
    let (store, keeper) = watched();
    let ana = session(&keeper, "ana").await;
    let tasks = || Handle::current().metrics().num_alive_tasks();
    let none = tasks();
    let (a, b) = (
        take(&ana, "a", Mode::Write).await,
        take(&ana, "b", Mode::Write).await,
    );
    assert_eq!(tasks(), none + 1, "one task a session");
    drop(a);
    sleep(2 * EVERY).await;
    assert!(store.count("renew") > 0);
    b.release().await.unwrap();
    until("the task is gone", async || tasks() == none).await;
    let checks = store.count("renew");
    sleep(5 * EVERY).await;
    assert_eq!(store.count("renew"), checks);

    let again = take(&ana, "a", Mode::Write).await;
    sleep(2 * EVERY).await;
    assert!(store.count("renew") > checks);
    drop(again);
}

#[tokio::test(start_paused = true)]
async fn the_checks_keep_neither_session_nor_store_alive() {
    let (store, keeper) = watched();
    let weak = Arc::downgrade(&store);
    let ana = session(&keeper, "ana").await;
    let guard = take(&ana, "a", Mode::Write).await;
    sleep(2 * EVERY).await;
    drop((store, keeper, ana, guard));
    assert_eq!(weak.strong_count(), 0);
}
