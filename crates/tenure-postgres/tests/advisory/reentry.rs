//! A session that asks for a lock it holds.

use std::sync::atomic::{AtomicU32, Ordering};

use tenure_core::patterns::{SERIALISE_WAIT, serialise};
use tenure_core::{Class, Error, Mode};
use tenure_postgres::advisory::{GuardState, Key};

use crate::scene::{AGENT, SHORT, Scene, WAIT_MAX, timed};

#[tokio::test(flavor = "multi_thread")]
async fn reentry_is_an_error_at_once_and_the_outer_lock_stays() {
    let scene = Scene::new().await;
    let session = scene.locks.session();
    let outer = session.lock(AGENT, 9, WAIT_MAX).await.unwrap();
    let (error, took) = timed(session.lock(AGENT, 9, WAIT_MAX)).await;
    let error = error.unwrap_err();
    assert!(matches!(error, Error::Reentry { .. }), "{error:?}");
    assert_eq!(error.class(), Class::Conflict);
    assert!(took < WAIT_MAX / 2, "{took:?}");
    let shared = session.lock_shared(AGENT, 9, WAIT_MAX).await;
    assert!(matches!(shared.unwrap_err(), Error::Reentry { .. }));
    assert_eq!(outer.state(), GuardState::Held);
    assert!(!scene.is_free(AGENT, 9));
    outer.release().await.unwrap();
    session
        .lock(AGENT, 9, WAIT_MAX)
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn reentry_without_waiting_is_skipped_and_the_outer_lock_stays() {
    let scene = Scene::new().await;
    let session = scene.locks.session();
    let outer = session.lock(AGENT, 9, WAIT_MAX).await.unwrap();
    assert!(session.lock_or_skip(AGENT, 9).await.unwrap().is_none());
    assert!(
        session
            .lock_shared_or_skip(AGENT, 9)
            .await
            .unwrap()
            .is_none()
    );
    assert!(!scene.is_free(AGENT, 9));
    outer.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn two_sessions_simply_contend() {
    let scene = Scene::new().await;
    let outer = scene
        .locks
        .session()
        .lock(AGENT, 9, WAIT_MAX)
        .await
        .unwrap();
    let error = scene
        .locks
        .session()
        .lock(AGENT, 9, SHORT)
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "{error:?}");
    outer.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_gave_up_may_ask_again() {
    let scene = Scene::new().await;
    let mut other = scene.database.session();
    other.run("SELECT pg_advisory_lock(1, 9)");
    let session = scene.locks.session();
    for _ in 0..2 {
        let error = session.lock(AGENT, 9, SHORT).await.unwrap_err();
        assert!(matches!(error, Error::Timeout { .. }), "{error:?}");
    }
    drop(session.lock(AGENT, 9, WAIT_MAX));
    let waiting = tokio::time::timeout(SHORT, session.lock(AGENT, 9, WAIT_MAX)).await;
    assert!(waiting.is_err(), "the other holds it");
    other.run("SELECT pg_advisory_unlock(1, 9)");
    session
        .lock(AGENT, 9, WAIT_MAX)
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn advisory_locks_are_never_upgradeable() {
    let scene = Scene::new().await;
    let session = scene.locks.session();
    let asked = session
        .acquire(Key::of_name("x"), Mode::Upgradeable, SHORT)
        .await;
    assert_eq!(asked.unwrap_err().class(), Class::BadInput);
}

#[tokio::test(flavor = "multi_thread")]
async fn work_under_a_lock_that_asks_for_it_again_is_refused_at_once_however_deep() {
    let scene = Scene::new().await;
    let locks = scene.locks.of(AGENT);
    let deep = async || {
        let again = serialise(&locks, 1, |_| async { Ok::<_, Error>(()) });
        let (error, waited) = timed(again).await;
        let error = error.unwrap_err();
        assert!(matches!(error, Error::Reentry { .. }), "{error:?}");
        assert!(waited < SERIALISE_WAIT / 2, "{waited:?}");
        let again = scene.locks.lock(AGENT, 1, WAIT_MAX).await.unwrap_err();
        assert!(matches!(again, Error::Reentry { .. }), "{again:?}");
        assert!(scene.locks.lock_or_skip(AGENT, 1).await.unwrap().is_none());
        // The outer lock is still held, and another lock can be taken.
        assert!(!scene.is_free(AGENT, 1));
        serialise(&locks, 2, |_| async { Ok::<_, Error>(()) }).await
    };
    serialise(&locks, 1, |_| deep()).await.unwrap();
    assert!(scene.is_free(AGENT, 1));
    // The scope ended with the work, so the lock can be taken again.
    let guard = scene.locks.lock(AGENT, 1, WAIT_MAX).await.unwrap();
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn deferred_work_that_asks_for_its_lock_again_is_refused_at_once() {
    let scene = Scene::new().await;
    let locks = scene.locks.of(AGENT);
    let again = async |_| {
        let again = serialise(&locks, 1, |_| async { Ok::<_, Error>(()) });
        let (error, waited) = timed(again).await;
        let error = error.unwrap_err();
        assert!(matches!(error, Error::Reentry { .. }), "{error:?}");
        assert!(waited < SERIALISE_WAIT / 2, "{waited:?}");
        Ok::<_, Error>(())
    };
    tokio::task::yield_now().await;
    serialise(&locks, 1, again).await.unwrap();
    assert!(scene.is_free(AGENT, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_outside_of_a_scope_contend_though_they_share_a_task() {
    let scene = Scene::new().await;
    let locks = scene.locks.of(AGENT);
    let inside = AtomicU32::new(0);
    let work = async |_| {
        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "one at a time");
        tokio::task::yield_now().await;
        inside.fetch_sub(1, Ordering::SeqCst);
        Ok::<_, Error>(())
    };
    let (one, other) = tokio::join!(serialise(&locks, 1, work), serialise(&locks, 1, work));
    one.unwrap();
    other.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn work_in_a_scope_can_be_given_to_another_thread() {
    let scene = Scene::new().await;
    let locks = scene.locks.of(AGENT);
    let done = tokio::spawn(async move {
        serialise(&locks, 1, |token| async move { Ok::<_, Error>(token) }).await
    });
    done.await.unwrap().unwrap();
}
