//! A session that asks for what it holds.

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
