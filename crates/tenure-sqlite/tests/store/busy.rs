//! Another process is stopped inside a transaction: no process can write, and every one can read.

use std::time::{Duration, Instant};

use tenure::{Error, GuardState, Mode};

use crate::scene::{
    DEADLINE, Scene, acquire, ask, held, list, session, take, try_take, until, until_in_line,
    until_nobody_waits,
};

const SECOND: Duration = Duration::from_secs(1);
/// The time that a busy machine may add.
const SLACK: Duration = Duration::from_millis(900);

#[tokio::test(flavor = "multi_thread")]
async fn an_acquire_of_a_busy_database_ends_with_its_time() {
    let scene = Scene::new();
    let keeper = scene.keeper().await;
    let ana = session(&keeper, "ana").await;
    let busy = scene.busy();
    let began = Instant::now();
    let asked = acquire(&ana, "a", Mode::Write, SECOND).await;
    let took = began.elapsed();
    assert!(matches!(asked, Err(Error::Timeout { .. })), "{asked:?}");
    assert!(took >= SECOND && took < SECOND + SLACK, "{took:?}");
    drop(busy);
    // The request that timed out is not granted later.
    assert_eq!(held(&keeper).await, [] as [&str; 0]);
    until_nobody_waits(&keeper).await;
    assert_eq!(take(&ana, "a", Mode::Write).await.state(), GuardState::Held);
}

/// The request has to give up its place in line, which a busy database prevents; the store tries
/// that for a second.
#[tokio::test(flavor = "multi_thread")]
async fn a_wait_in_line_of_a_busy_database_ends_with_its_time() {
    let scene = Scene::new();
    let keeper = scene.keeper().await;
    let (ana, bo) = (session(&keeper, "ana").await, session(&keeper, "bo").await);
    let guard = take(&ana, "a", Mode::Write).await;
    let began = Instant::now();
    let asking = ask(&bo, "a", Mode::Write, 2 * SECOND).await;
    let busy = scene.busy();
    let asked = asking.await.unwrap();
    let took = began.elapsed();
    assert!(matches!(asked, Err(Error::Timeout { .. })), "{asked:?}");
    assert!(took >= 2 * SECOND, "{took:?}");
    assert!(took < 3 * SECOND + SLACK, "{took:?}");
    drop(busy);
    until_nobody_waits(&keeper).await;
    guard.release().await.unwrap();
    assert_eq!(held(&keeper).await, [] as [&str; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_try_of_a_busy_database_is_not_acquired_within_three_seconds() {
    let scene = Scene::new();
    let keeper = scene.keeper().await;
    let ana = session(&keeper, "ana").await;
    let busy = scene.busy();
    let began = Instant::now();
    assert!(try_take(&ana, "a", Mode::Write).await.is_none());
    assert!(began.elapsed() < 3 * SECOND, "{:?}", began.elapsed());
    let began = Instant::now();
    let asked = acquire(&ana, "a", Mode::Write, Duration::ZERO).await;
    assert!(began.elapsed() < 3 * SECOND, "{:?}", began.elapsed());
    assert!(matches!(asked, Err(Error::Busy { .. })), "{asked:?}");
    drop(busy);
    assert_eq!(held(&keeper).await, [] as [&str; 0]);
    assert!(try_take(&ana, "a", Mode::Write).await.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listing_of_a_busy_database_is_there_at_once() {
    let scene = Scene::new();
    let keeper = scene.keeper().await;
    let ana = session(&keeper, "ana").await;
    let _guard = take(&ana, "a", Mode::Write).await;
    let _busy = scene.busy();
    let began = Instant::now();
    assert_eq!(held(&keeper).await, ["ana name:a write"]);
    assert!(began.elapsed() < SLACK, "{:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listing_of_a_busy_database_with_dead_sessions_is_there_at_once_and_without_them() {
    let scene = Scene::new();
    let keeper = scene.keeper().await;
    let ana = session(&keeper, "ana").await;
    let _guard = take(&ana, "a", Mode::Write).await;
    let mut bo = scene.process("bo");
    let mut cy = scene.process("cy");
    bo.take("b", Mode::Write);
    let _wanted = cy.want("a", Mode::Write);
    until_in_line(&keeper, "cy").await;
    bo.crash();
    cy.crash();
    let busy = scene.busy();
    let began = Instant::now();
    let listing = list(&keeper).await;
    assert!(began.elapsed() < SLACK, "{:?}", began.elapsed());
    assert_eq!(listing.waiting, Some(vec![]));
    let held: Vec<_> = listing
        .held
        .iter()
        .map(|lease| lease.owner.as_str())
        .collect();
    assert_eq!(held, ["ana"]);
    drop(busy);
    assert!(try_take(&ana, "b", Mode::Write).await.is_some());
}

/// The session goes on; only its guard has ended.
#[tokio::test(flavor = "multi_thread")]
async fn a_guard_dropped_while_the_database_is_busy_is_free_soon_after_the_database_is() {
    let scene = Scene::new();
    let keeper = scene.keeper().await;
    let ana = session(&keeper, "ana").await;
    let guard = take(&ana, "a", Mode::Write).await;
    let mut bo = scene.process("bo");
    let busy = scene.busy();
    let began = Instant::now();
    drop(guard);
    let took = began.elapsed();
    assert!(took < 2 * SECOND, "a drop may not take long: {took:?}");
    drop(busy);
    let freed = until("a is free", async || {
        bo.try_take("a", Mode::Write).is_some()
    });
    let freed = freed.await;
    assert!(freed < 2 * SECOND, "{freed:?}");
    assert_eq!(held(&keeper).await, ["bo name:a write"]);
    drop(ana);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_cancelled_while_the_database_is_busy_leaves_the_line_soon_after_the_database_is_free()
 {
    let scene = Scene::new();
    let keeper = scene.keeper().await;
    let (ana, bo) = (session(&keeper, "ana").await, session(&keeper, "bo").await);
    let _reading = take(&ana, "a", Mode::Read).await;
    let asking = ask(&bo, "a", Mode::Write, DEADLINE).await;
    let busy = scene.busy();
    asking.abort();
    assert!(asking.await.is_err_and(|end| end.is_cancelled()));
    drop(busy);
    // A waiting writer keeps readers out; a writer that left the line does not.
    let mut cy = scene.process("cy");
    let freed = until("readers are let in", async || {
        cy.try_take("a", Mode::Read).is_some()
    });
    let freed = freed.await;
    assert!(freed < 2 * SECOND, "{freed:?}");
    assert_eq!(scene.rows("waiters"), 0);
    // The session can ask again.
    assert!(try_take(&bo, "a", Mode::Read).await.is_some());
}
