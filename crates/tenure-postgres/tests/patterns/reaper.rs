//! Background workers: the reaper goes through all agents, and skips agents that are locked.

use std::cell::RefCell;

use tenure_postgres::advisory::Settings;
use tenure_postgres::patterns::for_each_unlocked;

use crate::scene::{AGENT, Scene, Trouble, WAIT_MAX};

const AGENTS: &str =
    "CREATE TABLE agents (id int PRIMARY KEY, reaped boolean NOT NULL DEFAULT false);
                      INSERT INTO agents SELECT generate_series(1, 5)";

#[tokio::test(flavor = "multi_thread")]
async fn a_locked_agent_is_skipped_and_taken_in_the_next_cycle() {
    let scene = Scene::new(AGENTS).await;
    let hook = scene.locks.lock(AGENT, 3, WAIT_MAX).await.unwrap();
    let reaped = RefCell::new(Vec::new());
    let cycle = async || {
        let locks = scene.locks.of(AGENT);
        let go = for_each_unlocked(&locks, 1..=5, |agent, _| {
            reaped.borrow_mut().push(agent);
            async { Ok::<(), Trouble>(()) }
        });
        let tally = go.await.unwrap();
        (tally.done, tally.skipped)
    };
    assert_eq!(cycle().await, (4, 1));
    assert_eq!(*reaped.borrow(), [1, 2, 4, 5]);
    hook.release().await.unwrap();
    assert_eq!(cycle().await, (5, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_reaper_commits_inside_the_lock_and_gives_the_connection_back_before_the_next_agent() {
    let scene = Scene::new(AGENTS).await;
    let application = scene.application().await;
    let all = Settings::default().pool + Settings::default().overflow;
    let tally = for_each_unlocked(&scene.locks.of(AGENT), 1..=5, |agent, _| {
        let (scene, application) = (&scene, &application);
        async move {
            // This agent uses one connection; those of the agents before are back.
            let pool = scene.locks.pool_state();
            assert_eq!((pool.kept, pool.free), (0, all - 1), "agent {agent}");
            let held = scene.database.psql(
                "SELECT string_agg(objid::text, ',') FROM pg_locks WHERE locktype = 'advisory' AND granted AND
                 database = (SELECT oid FROM pg_database WHERE datname = current_database())",
            );
            assert_eq!(held, agent.to_string());
            let reap = "UPDATE agents SET reaped = true WHERE id = $1";
            application.execute(reap, &[&agent]).await?;
            // The change is committed inside the lock, so other connections see it.
            let seen = format!("SELECT reaped FROM agents WHERE id = {agent}");
            assert_eq!(scene.database.psql(&seen), "t");
            assert_eq!(scene.held(), 1);
            Ok::<(), Trouble>(())
        }
    })
    .await
    .unwrap();
    assert_eq!((tally.done, tally.skipped), (5, 0));
    let pool = scene.locks.pool_state();
    assert_eq!((pool.kept, pool.free), (1, all));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_ends_the_cycle_and_leaves_no_lock() {
    let scene = Scene::new(AGENTS).await;
    let locks = scene.locks.of(AGENT);
    let go = for_each_unlocked(&locks, 1..=5, |agent, _| async move {
        match agent {
            3 => Err(Trouble::Work("no")),
            _ => Ok(()),
        }
    });
    assert!(matches!(go.await, Err(Trouble::Work("no"))));
    assert_eq!(scene.held(), 0);
}
