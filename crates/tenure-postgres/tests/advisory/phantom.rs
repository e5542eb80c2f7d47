//! PostgreSQL's bug 17686: the grant succeeds, and the statement fails.

use tenure_core::Error;

use crate::scene::{AGENT, PATIENCE, SHORT, Scene, until};

/// A row of the tokens that somebody else has locked: the advisory lock is granted, and then the very
/// `lock_timeout` of the statement fires.
#[tokio::test(flavor = "multi_thread")]
async fn a_timeout_after_the_grant_leaves_no_lock_and_no_pooled_connection() {
    let scene = Scene::new().await;
    let guard = scene.locks.lock(AGENT, 6, PATIENCE).await.unwrap();
    guard.release().await.unwrap();
    let mut other = scene.database.session();
    other.run("BEGIN; SELECT last FROM tenure.advisory_tokens FOR UPDATE");
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
    let guard = scene.locks.lock(AGENT, 6, PATIENCE).await.unwrap();
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_after_the_grant_leaves_no_lock_and_no_pooled_connection() {
    let scene = Scene::new().await;
    scene.database.psql(
        "CREATE FUNCTION public.fail() RETURNS trigger LANGUAGE plpgsql AS
         $$ BEGIN RAISE EXCEPTION 'held: %', (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'
            AND granted AND pid = pg_backend_pid()); END $$;
         CREATE TRIGGER fail BEFORE INSERT ON tenure.advisory_tokens
         FOR EACH ROW EXECUTE FUNCTION public.fail()",
    );
    for asked in ["waits", "skips"] {
        let error = match asked {
            "waits" => scene.locks.lock(AGENT, 6, PATIENCE).await.unwrap_err(),
            _ => scene.locks.lock_or_skip(AGENT, 6).await.unwrap_err(),
        };
        assert!(error.to_string().contains("held: 1"), "{asked}: {error}");
        assert_eq!(scene.entries(true), 0, "{asked}: somebody holds it");
        scene.until_whole(25).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_cancelled_by_an_administrator_leaves_no_lock() {
    let scene = Scene::new().await;
    let guard = scene.locks.lock(AGENT, 6, PATIENCE).await.unwrap();
    guard.release().await.unwrap();
    let mut other = scene.database.session();
    other.run("BEGIN; SELECT last FROM tenure.advisory_tokens FOR UPDATE");
    let locks = scene.locks.clone();
    let asking = tokio::spawn(async move { locks.lock(AGENT, 6, PATIENCE).await });
    until("the lock is granted", || !scene.is_free(AGENT, 6)).await;
    scene.database.psql(
        "SELECT pg_cancel_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted
         AND pid <> pg_backend_pid()",
    );
    let error = asking.await.unwrap().unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
    assert_eq!(scene.entries(true), 0, "somebody holds it");
    scene.until_whole(25).await;
    other.run("ROLLBACK");
}
