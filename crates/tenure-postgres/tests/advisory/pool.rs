//! The pool: 15 connections, 10 more when needed, and a clear end.

use std::time::Duration;

use tenure_core::{Class, Error};
use tenure_postgres::advisory::Settings;
use tokio::task::JoinSet;

use crate::scene::{AGENT, SHORT, Scene, WAIT_MAX, timed, until};

#[tokio::test(flavor = "multi_thread")]
async fn the_pool_keeps_15_and_opens_10_more() {
    let scene = Scene::new().await;
    assert_eq!(
        (Settings::default().pool, Settings::default().overflow),
        (15, 10)
    );
    let mut guards = Vec::new();
    for id in 0..25 {
        guards.push(scene.locks.lock(AGENT, id, WAIT_MAX).await.unwrap());
    }
    assert_eq!(scene.sessions(), 25);
    let (error, waited) = timed(scene.locks.lock(AGENT, 99, SHORT)).await;
    let error = error.unwrap_err();
    assert!(
        matches!(error, Error::Exhausted { limit: 25, .. }),
        "{error:?}"
    );
    assert_eq!(error.class(), Class::Busy);
    assert!(waited >= SHORT && waited < WAIT_MAX, "{waited:?}");
    for guard in guards {
        guard.release().await.unwrap();
    }
    scene.until_whole(25).await;
    let pool = scene.locks.pool_state();
    assert_eq!((pool.kept, pool.free), (15, 25));
}

#[tokio::test(flavor = "multi_thread")]
async fn skipping_does_not_wait_for_ever_for_a_connection() {
    let settings = Settings::default()
        .with_pool(1)
        .with_overflow(0)
        .with_wait(Duration::from_millis(1500));
    let scene = Scene::with(settings).await;
    let guard = scene.locks.lock(AGENT, 1, WAIT_MAX).await.unwrap();
    let error = scene.locks.lock_or_skip(AGENT, 2).await.unwrap_err();
    assert!(
        matches!(error, Error::Exhausted { limit: 1, .. }),
        "{error:?}"
    );
    guard.release().await.unwrap();
    scene
        .locks
        .lock_or_skip(AGENT, 2)
        .await
        .unwrap()
        .unwrap()
        .release()
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_waits_for_a_connection_gets_the_next_one() {
    let settings = Settings::default().with_pool(1).with_overflow(0);
    let scene = Scene::with(settings).await;
    let guard = scene.locks.lock(AGENT, 1, WAIT_MAX).await.unwrap();
    let locks = scene.locks.clone();
    let waiter = tokio::spawn(async move { locks.lock(AGENT, 2, WAIT_MAX).await });
    guard.release().await.unwrap();
    waiter.await.unwrap().unwrap().release().await.unwrap();
    assert_eq!(scene.sessions(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn more_waiters_of_one_process_than_connections_are_all_served() {
    let settings = Settings::default().with_pool(2).with_overflow(1);
    let scene = Scene::with(settings).await;
    let guard = scene.locks.lock(AGENT, 1, WAIT_MAX).await.unwrap();
    let mut waiters = JoinSet::new();
    for _ in 0..30 {
        let locks = scene.locks.clone();
        waiters.spawn(async move {
            let guard = locks.lock(AGENT, 1, WAIT_MAX * 4).await.unwrap();
            guard.release().await.unwrap();
        });
    }
    until("two wait for the lock, the others for a connection", || {
        scene.entries(false) == 2
    })
    .await;
    guard.release().await.unwrap();
    assert_eq!(waiters.join_all().await.len(), 30);
    scene.until_whole(3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kept_connections_that_ended_are_replaced_unnoticed() {
    let scene = Scene::new().await;
    let one = scene.locks.lock(AGENT, 1, WAIT_MAX).await.unwrap();
    let two = scene.locks.lock(AGENT, 2, WAIT_MAX).await.unwrap();
    one.release().await.unwrap();
    two.release().await.unwrap();
    scene.database.psql(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
         WHERE datname = current_database() AND application_name LIKE 'tenure advisory%'",
    );
    let guard = scene.locks.lock(AGENT, 1, WAIT_MAX).await.unwrap();
    guard.release().await.unwrap();
    scene.until_whole(25).await;
}

/// The test runs on one thread, so that the service learns of the ends only when it asks.
#[tokio::test]
async fn kept_connections_that_ended_unheard_are_replaced_unnoticed() {
    let scene = Scene::new().await;
    let one = scene.locks.lock(AGENT, 1, WAIT_MAX).await.unwrap();
    let two = scene.locks.lock(AGENT, 2, WAIT_MAX).await.unwrap();
    let pids = [one.backend_pid(), two.backend_pid()];
    one.release().await.unwrap();
    two.release().await.unwrap();
    scene.database.psql(&format!(
        "SELECT pg_terminate_backend({}, 5000), pg_terminate_backend({}, 5000)",
        pids[0], pids[1]
    ));
    let guard = scene.locks.lock(AGENT, 1, WAIT_MAX).await.unwrap();
    assert!(!pids.contains(&guard.backend_pid()));
    guard.release().await.unwrap();
    scene.until_whole(25).await;
}
