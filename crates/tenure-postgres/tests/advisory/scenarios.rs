//! The scenarios of the seed, run on the lock service and named as in the seed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tenure_core::{Class, Error};
use tenure_postgres::advisory::{DEFAULT_WAIT, GuardState, Namespace};

use crate::scene::{AGENT, SHORT, Scene, WAIT_MAX, timed, until};

#[tokio::test(flavor = "multi_thread")]
async fn blocking_lock_acquisition_survives_commits_of_the_application() {
    let scene = Scene::new().await;
    let guard = scene.locks.lock(AGENT, 42, DEFAULT_WAIT).await.unwrap();
    let mut application = scene.database.session();
    application.run("CREATE TABLE work (done int)");
    for _ in 0..3 {
        application.run("BEGIN; INSERT INTO work VALUES (1); COMMIT");
        assert!(!scene.is_free(AGENT, 42));
    }
    assert_eq!(guard.state(), GuardState::Held);
    guard.release().await.unwrap();
    assert!(scene.is_free(AGENT, 42));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_is_held_outside_any_transaction() {
    let scene = Scene::new().await;
    let guard = scene.locks.lock(AGENT, 1, WAIT_MAX).await.unwrap();
    let sql = format!(
        "SELECT xact_start IS NULL FROM pg_stat_activity WHERE pid = {}",
        guard.backend_pid()
    );
    until("no transaction is open", || {
        scene.database.psql(&sql).trim() == "t"
    })
    .await;
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn lock_timeout_is_an_error_and_leaves_the_pool_whole() {
    let scene = Scene::new().await;
    let mut other = scene.database.session();
    other.run("SELECT pg_advisory_lock(1, 7)");
    let (error, waited) = timed(scene.locks.lock(AGENT, 7, SHORT)).await;
    let error = error.unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "{error:?}");
    assert_eq!(error.class(), Class::Busy);
    assert_eq!(error.resource().unwrap().as_str(), "advisory:1/7");
    assert!(waited >= SHORT && waited < WAIT_MAX, "{waited:?}");
    assert_eq!(scene.entries(true), 1, "only the other holds");
    scene.until_whole(25).await;
    other.run("SELECT pg_advisory_unlock(1, 7)");
    let guard = scene.locks.lock(AGENT, 7, SHORT).await.unwrap();
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_lock_is_skipped_without_waiting_and_without_an_error() {
    let scene = Scene::new().await;
    let guard = scene.locks.lock(AGENT, 3, WAIT_MAX).await.unwrap();
    assert!(scene.locks.lock_or_skip(AGENT, 3).await.unwrap().is_none());
    guard.release().await.unwrap();
    scene.until_whole(25).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_free_lock_is_not_skipped_and_is_held_to_the_end() {
    let scene = Scene::new().await;
    let guard = scene.locks.lock_or_skip(AGENT, 3).await.unwrap().unwrap();
    assert!(!scene.is_free(AGENT, 3));
    guard.release().await.unwrap();
    assert!(scene.is_free(AGENT, 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_inside_releases_and_goes_on_to_the_caller() {
    let scene = Scene::new().await;
    let panics = async || {
        let locks = scene.locks.clone();
        let task = tokio::spawn(async move {
            let _guard = locks.lock(AGENT, 5, WAIT_MAX).await.unwrap();
            panic!("work went wrong");
        });
        let panic = task.await.unwrap_err().into_panic();
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"work went wrong"));
        scene.until_free(AGENT, 5).await;
        scene.until_whole(25).await;
        scene.locks.pool_state().kept == 1
    };
    // A connection that is slow to say that it is clean is closed, so one of three tries has to
    // keep its connection.
    assert!(panics().await || panics().await || panics().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_released_connection_is_used_again() {
    let scene = Scene::new().await;
    let mut pids = Vec::new();
    for _ in 0..3 {
        let guard = scene.locks.lock(AGENT, 5, WAIT_MAX).await.unwrap();
        pids.push(guard.backend_pid());
        guard.release().await.unwrap();
    }
    assert_eq!(pids[0], pids[1]);
    assert_eq!(pids[1], pids[2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn hooks_of_one_agent_run_one_after_the_other_and_of_others_in_parallel() {
    let scene = Scene::new().await;
    let inside = Arc::new(AtomicU32::new(0));
    let tasks: Vec<_> = (0..10)
        .map(|_| {
            let (locks, inside) = (scene.locks.clone(), Arc::clone(&inside));
            tokio::spawn(async move {
                let guard = locks.lock(AGENT, 1, WAIT_MAX).await.unwrap();
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two inside");
                tokio::task::yield_now().await;
                inside.fetch_sub(1, Ordering::SeqCst);
                guard.release().await.unwrap();
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let first = scene.locks.lock(AGENT, 1, WAIT_MAX).await.unwrap();
    let second = scene.locks.lock(AGENT, 2, SHORT).await.unwrap();
    let channel = scene
        .locks
        .lock(Namespace::CHANNEL, 1, SHORT)
        .await
        .unwrap();
    for guard in [first, second, channel] {
        guard.release().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_is_granted_when_the_holder_releases() {
    let scene = Scene::new().await;
    let holder = scene.locks.lock(AGENT, 1, WAIT_MAX).await.unwrap();
    let locks = scene.locks.clone();
    let waiter = tokio::spawn(async move {
        let guard = locks.lock(AGENT, 1, WAIT_MAX).await.unwrap();
        (guard.state(), guard)
    });
    until("it waits", || scene.entries(false) == 1).await;
    // The waiter waits longer than an answer is trusted, so its grant must be proved anew.
    tokio::time::sleep(Duration::from_millis(1200)).await;
    holder.release().await.unwrap();
    let (state, guard) = waiter.await.unwrap();
    assert_eq!(state, GuardState::Held);
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn shared_locks_share_and_keep_exclusive_ones_out() {
    let scene = Scene::new().await;
    let one = scene.locks.lock_shared(AGENT, 1, WAIT_MAX).await.unwrap();
    let two = scene.locks.lock_shared_or_skip(AGENT, 1).await.unwrap();
    let two = two.unwrap();
    assert!(scene.locks.lock_or_skip(AGENT, 1).await.unwrap().is_none());
    one.release().await.unwrap();
    assert!(scene.locks.lock_or_skip(AGENT, 1).await.unwrap().is_none());
    two.release().await.unwrap();
    let alone = scene.locks.lock_or_skip(AGENT, 1).await.unwrap().unwrap();
    let shared = scene.locks.lock_shared_or_skip(AGENT, 1).await.unwrap();
    assert!(shared.is_none());
    let error = scene.locks.lock_shared(AGENT, 1, SHORT).await.unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "{error:?}");
    alone.release().await.unwrap();
}
