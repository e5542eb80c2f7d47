//! Hook routes: requests about one agent run one after the other.

use std::sync::Arc;

use tenure_postgres::patterns::serialise;
use tokio::sync::{Barrier, Notify};

use crate::scene::{AGENT, Scene, Trouble, WAIT_MAX, until};

const AGENTS: &str = "CREATE TABLE agents (id int PRIMARY KEY, events int NOT NULL DEFAULT 0);
                      INSERT INTO agents VALUES (1), (2)";

/// A hook: it reads the agent, waits until it may go on, and writes the value it read plus one, in
/// two commits.
async fn hook(scene: &Scene, agent: i32, go_on: Option<Arc<Notify>>) -> Result<i32, Trouble> {
    let application = scene.application().await;
    serialise(&scene.locks.of(AGENT), agent, |_token| async move {
        let row = application
            .query_one("SELECT events FROM agents WHERE id = $1", &[&agent])
            .await?;
        let seen: i32 = row.get(0);
        if let Some(go_on) = go_on {
            go_on.notified().await;
        }
        let write = "UPDATE agents SET events = $2 WHERE id = $1";
        application.execute(write, &[&agent, &(seen + 1)]).await?;
        application.execute(write, &[&agent, &(seen + 1)]).await?;
        Ok(seen)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn two_concurrent_hooks_of_one_agent_serialise_and_the_second_sees_fresh_state() {
    let scene = Arc::new(Scene::new(AGENTS).await);
    let go_on = Arc::new(Notify::new());
    let first = {
        let (scene, go_on) = (Arc::clone(&scene), Arc::clone(&go_on));
        tokio::spawn(async move { hook(&scene, 1, Some(go_on)).await })
    };
    until("the first holds", || scene.held() == 1).await;
    let second = {
        let scene = Arc::clone(&scene);
        tokio::spawn(async move { hook(&scene, 1, None).await })
    };
    until("the second waits", || scene.waiting() == 1).await;
    assert!(!second.is_finished());
    go_on.notify_one();
    assert_eq!(first.await.unwrap().unwrap(), 0);
    assert_eq!(second.await.unwrap().unwrap(), 1, "what the first wrote");
    assert_eq!(
        scene
            .database
            .psql("SELECT events FROM agents WHERE id = 1"),
        "2"
    );
    assert_eq!(scene.held(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn hooks_of_different_agents_run_in_parallel() {
    let scene = Scene::new(AGENTS).await;
    // Neither request ends before the other has come.
    let both = Barrier::new(2);
    let work = async |agent| {
        let both = &both;
        serialise(&scene.locks.of(AGENT), agent, |_| async move {
            both.wait().await;
            Ok::<_, Trouble>(())
        })
        .await
    };
    let ran = async { tokio::join!(work(1), work(2)) };
    let (one, two) = tokio::time::timeout(WAIT_MAX, ran).await.unwrap();
    one.unwrap();
    two.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_of_the_work_is_passed_on_and_the_lock_is_free() {
    let scene = Scene::new(AGENTS).await;
    let failed: Result<(), Trouble> = serialise(&scene.locks.of(AGENT), 1, |_| async {
        Err(Trouble::Work("no"))
    })
    .await;
    assert!(matches!(failed, Err(Trouble::Work("no"))), "{failed:?}");
    assert_eq!(scene.held(), 0);
    assert_eq!(scene.locks.pool_state().kept, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn work_under_a_lock_that_is_lost_is_dropped_and_the_caller_told() {
    let scene = Scene::new(AGENTS).await;
    let application = scene.application().await;
    let lost: Result<(), Trouble> = serialise(&scene.locks.of(AGENT), 1, |_| async {
        let kill = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted AND database =
                    (SELECT oid FROM pg_database WHERE datname = current_database())";
        application.execute(kill, &[]).await?;
        std::future::pending::<()>().await;
        panic!("it went on");
    })
    .await;
    let Err(Trouble::Lock(error)) = lost else {
        panic!("{lost:?}");
    };
    assert_eq!(error.class(), tenure_core::Class::Lost, "{error}");
}
