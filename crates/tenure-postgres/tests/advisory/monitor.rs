//! Who holds, and who waits.

use tenure_core::Mode;
use tenure_postgres::{Key, Namespace};
use tenure_testkit::postgres::Cluster;

use crate::scene::{AGENT, PATIENCE, Scene, until};

#[tokio::test(flavor = "multi_thread")]
async fn holders_and_waiters_are_listed_with_all_there_is_to_know() {
    let scene = Scene::new().await;
    let holder = scene.locks.lock(AGENT, 42, PATIENCE).await.unwrap();
    let reader = scene
        .locks
        .lock_shared(Namespace::CHANNEL, -7, PATIENCE)
        .await;
    let reader = reader.unwrap();
    let mut psql = scene.database.session();
    psql.send("SELECT pg_advisory_lock(1, 42)");
    until("psql waits", || scene.entries(false) == 1).await;
    let listed = scene.locks.list().await.unwrap();
    assert_eq!(listed.total, 3);
    let [ours, foreign, shared] = &listed.locks[..] else {
        panic!("{listed:?}");
    };
    assert_eq!(ours.key(), Key::Pair(AGENT, 42));
    assert_eq!((ours.mode, ours.granted), (Mode::Write, true));
    assert_eq!(ours.pid, holder.backend_pid());
    assert_eq!(ours.application_name.as_deref(), Some("tenure advisory"));
    assert!(ours.state.is_some() && ours.query_start.is_some());
    assert!(ours.held_for.unwrap() < PATIENCE);
    assert_eq!(foreign.key(), Key::Pair(AGENT, 42));
    assert!(!foreign.granted && foreign.held_for.is_none());
    assert_eq!(foreign.state.as_deref(), Some("active"));
    assert_eq!(shared.key(), Key::Pair(Namespace::CHANNEL, -7));
    assert_eq!((shared.mode, shared.granted), (Mode::Read, true));
    assert!(shared.held_for.unwrap() < PATIENCE);
    holder.release().await.unwrap();
    reader.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn how_long_a_foreign_program_holds_is_not_known() {
    let scene = Scene::new().await;
    // Ours held it before, which is no business of whoever holds it now.
    let guard = scene.locks.lock(AGENT, 1, PATIENCE).await.unwrap();
    guard.release().await.unwrap();
    let mut psql = scene.database.session();
    psql.run("SELECT pg_advisory_lock(1, 1), pg_advisory_lock(-5)");
    let listed = scene.locks.list().await.unwrap();
    assert_eq!(listed.total, 2);
    assert_eq!(listed.locks[0].key(), Key::Name64(-5));
    assert!(listed.locks.iter().all(|lock| lock.held_for.is_none()));
}

#[tokio::test(flavor = "multi_thread")]
async fn locks_of_other_databases_are_not_listed() {
    let scene = Scene::new().await;
    let elsewhere = Cluster::shared().database();
    let mut psql = elsewhere.session();
    psql.run("SELECT pg_advisory_lock(1, 1)");
    assert_eq!(scene.locks.list().await.unwrap().total, 0);
    assert!(scene.locks.lock_or_skip(AGENT, 1).await.unwrap().is_some());
}
