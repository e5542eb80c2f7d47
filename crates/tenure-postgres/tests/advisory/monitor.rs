//! The list of who holds and who waits.

use std::time::{Duration, Instant};

use tenure_core::Mode;
use tenure_postgres::advisory::{AdvisoryLocks, GuardState, Key, Namespace, Settings};
use tenure_testkit::postgres::Cluster;

use crate::scene::{AGENT, SHORT, Scene, WAIT_MAX, until};

/// The difference that two clocks on one machine may show.
const CLOCKS: Duration = Duration::from_millis(20);

/// Selects the names of the service's connections.
const NAMES: &str = "SELECT DISTINCT application_name FROM pg_stat_activity
                     WHERE datname = current_database() AND application_name LIKE 'tenure%'";

#[tokio::test(flavor = "multi_thread")]
async fn holders_and_waiters_are_listed_with_all_there_is_to_know() {
    let scene = Scene::new().await;
    let holder = scene.locks.lock(AGENT, 42, WAIT_MAX).await.unwrap();
    let reader = scene
        .locks
        .lock_shared(Namespace::CHANNEL, -7, WAIT_MAX)
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
    assert_eq!(Key::of(ours), Key::Pair(AGENT, 42));
    assert_eq!((ours.mode, ours.granted), (Mode::Write, true));
    assert_eq!(ours.pid, holder.backend_pid());
    let name = ours.application_name.as_deref().unwrap();
    assert!(name.starts_with("tenure advisory"), "{name}");
    assert!(ours.state.is_some() && ours.query_start.is_some());
    assert!(ours.held_for.unwrap() < WAIT_MAX);
    assert_eq!(Key::of(foreign), Key::Pair(AGENT, 42));
    assert!(!foreign.granted && foreign.held_for.is_none());
    assert_eq!(foreign.state.as_deref(), Some("active"));
    assert_eq!(Key::of(shared), Key::Pair(Namespace::CHANNEL, -7));
    assert_eq!((shared.mode, shared.granted), (Mode::Read, true));
    assert!(shared.held_for.unwrap() < WAIT_MAX);
    holder.release().await.unwrap();
    reader.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn how_long_a_lock_is_held_is_known_before_and_after_the_first_probe() {
    let scene = Scene::new().await;
    let before = Instant::now();
    let guard = scene.locks.lock(AGENT, 1, WAIT_MAX).await.unwrap();
    let held_for = async || {
        let listed = scene.locks.list().await.unwrap();
        (
            listed.locks[0].held_for.unwrap(),
            listed.locks[0].application_name.clone().unwrap(),
        )
    };
    let (first, name) = held_for().await;
    assert!(first <= before.elapsed() + CLOCKS, "{first:?}");
    if guard.state() == GuardState::Held && before.elapsed() < SHORT {
        assert_eq!(name, "tenure advisory");
    }
    let shown = || {
        scene
            .database
            .psql(NAMES)
            .contains("tenure advisory, since 20")
    };
    until("the first probe shows it", shown).await;
    let granted = before.elapsed();
    let (later, _) = held_for().await;
    assert!(
        later >= first && later <= before.elapsed() + CLOCKS,
        "{later:?}"
    );
    assert!(later + SHORT >= granted, "{later:?} of {granted:?}");
    guard.release().await.unwrap();
    assert_eq!(scene.database.psql(NAMES).trim(), "tenure advisory");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_name_of_the_program_leaves_room_for_the_time() {
    let database = Cluster::shared().database();
    let url = format!("{}?application_name={}", database.url(), "x".repeat(60));
    let locks = AdvisoryLocks::open(&url, Settings::default())
        .await
        .unwrap();
    let guard = locks.lock(AGENT, 1, WAIT_MAX).await.unwrap();
    let shown = || database.psql(NAMES).contains("xxx, since 20");
    until("the first probe shows it", shown).await;
    let listed = locks.list().await.unwrap();
    assert!(listed.locks[0].held_for.unwrap() < WAIT_MAX);
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timeout_names_the_holders_and_where_to_look() {
    let scene = Scene::new().await;
    let mut psql = scene.database.session();
    psql.run("SET application_name = 'nightly'; SELECT pg_advisory_lock(1, 1)");
    let pid = psql.run("SELECT pg_backend_pid()").trim().to_owned();
    let error = scene.locks.lock(AGENT, 1, SHORT).await.unwrap_err();
    let said = error.to_string();
    assert!(
        said.contains(&format!("held by nightly (server process {pid}, idle)")),
        "{said}"
    );
    assert!(
        error.remedy().to_string().contains("advisory.ls"),
        "{}",
        error.remedy()
    );
    assert_eq!(error.holders().len(), 1);
    let ours = scene.locks.lock(AGENT, 2, WAIT_MAX).await.unwrap();
    let error = scene.locks.lock(AGENT, 2, SHORT).await.unwrap_err();
    let said = error.to_string();
    let begin = format!(
        "held by tenure advisory (server process {}, ",
        ours.backend_pid()
    );
    assert!(
        said.contains(&begin) && said.contains(", since 20"),
        "{said}"
    );
    ours.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn how_long_a_foreign_program_holds_is_not_known() {
    let scene = Scene::new().await;
    // A guard of ours held it before, which says nothing about the present holder.
    let guard = scene.locks.lock(AGENT, 1, WAIT_MAX).await.unwrap();
    guard.release().await.unwrap();
    let mut psql = scene.database.session();
    // A statement that copies the words of ours does not change that.
    psql.run("SELECT /* tenure grants */ pg_advisory_lock(1, 1), pg_advisory_lock(-5)");
    let listed = scene.locks.list().await.unwrap();
    assert_eq!(listed.total, 2);
    assert_eq!(Key::of(&listed.locks[0]), Key::Name64(-5));
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
