//! PostgreSQL's bug 17686: the grant succeeds, and the statement fails.

use tenure_core::Error;

use crate::scene::{AGENT, SHORT, Scene, WAIT_MAX, until};

/// While this transaction is open no draw gets through: the lock is granted, and the draw waits.
const HOLD_THE_COUNTER: &str = "BEGIN; ALTER SEQUENCE tenure.advisory_tokens INCREMENT 1";

#[tokio::test(flavor = "multi_thread")]
async fn a_timeout_after_the_grant_leaves_no_lock_and_no_pooled_connection() {
    let scene = Scene::new().await;
    let guard = scene.locks.lock(AGENT, 6, WAIT_MAX).await.unwrap();
    guard.release().await.unwrap();
    let mut other = scene.database.session();
    other.run(HOLD_THE_COUNTER);
    let locks = scene.locks.clone();
    let asking = tokio::spawn(async move { locks.lock(AGENT, 6, SHORT * 3).await });
    until("the lock is granted", || !scene.is_free(AGENT, 6)).await;
    let error = asking.await.unwrap().unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "{error:?}");
    assert_eq!(scene.entries(true), 0, "somebody holds it");
    assert_eq!(
        scene.locks.pool_state().kept,
        0,
        "the connection was pooled"
    );
    scene.until_whole(25).await;
    other.run("ROLLBACK");
    let guard = scene.locks.lock(AGENT, 6, WAIT_MAX).await.unwrap();
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_after_the_grant_leaves_no_lock_and_no_pooled_connection() {
    let scene = Scene::new().await;
    let guard = scene.locks.lock(AGENT, 6, WAIT_MAX).await.unwrap();
    let last = guard.token();
    guard.release().await.unwrap();
    let alter = |maximum: &str| {
        let sql = format!("ALTER SEQUENCE tenure.advisory_tokens {maximum}");
        scene.database.psql(&sql);
    };
    alter(&format!("MAXVALUE {last}"));
    for asked in ["waits", "skips"] {
        let error = match asked {
            "waits" => scene.locks.lock(AGENT, 6, WAIT_MAX).await.unwrap_err(),
            _ => scene.locks.lock_or_skip(AGENT, 6).await.unwrap_err(),
        };
        assert!(error.to_string().contains("maximum"), "{asked}: {error}");
        assert_eq!(scene.entries(true), 0, "{asked}: somebody holds it");
        scene.until_whole(25).await;
        assert_eq!(scene.locks.pool_state().kept, 0, "{asked}: it was pooled");
    }
    alter("NO MAXVALUE");
    let guard = scene.locks.lock(AGENT, 6, WAIT_MAX).await.unwrap();
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_cancelled_by_an_administrator_leaves_no_lock() {
    let scene = Scene::new().await;
    let guard = scene.locks.lock(AGENT, 6, WAIT_MAX).await.unwrap();
    guard.release().await.unwrap();
    let mut other = scene.database.session();
    other.run(HOLD_THE_COUNTER);
    let locks = scene.locks.clone();
    let asking = tokio::spawn(async move { locks.lock(AGENT, 6, WAIT_MAX).await });
    until("the lock is granted", || !scene.is_free(AGENT, 6)).await;
    scene.database.psql(
        "SELECT pg_cancel_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted
         AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
    );
    let error = asking.await.unwrap().unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
    assert_eq!(scene.entries(true), 0, "somebody holds it");
    scene.until_whole(25).await;
    other.run("ROLLBACK");
}
