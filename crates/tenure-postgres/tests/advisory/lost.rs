//! Losing a lock, and knowing it.

use std::process::Command;
use std::time::{Duration, Instant};

use tenure_core::{Class, Error};
use tenure_postgres::advisory::{AdvisoryLocks, GuardState, Settings};
use tenure_testkit::postgres::{Cluster, Database, Proxy, Stop};

use crate::scene::{AGENT, SHORT, Scene, WAIT_MAX, timed, until};

/// A process of the server that is stopped until this is dropped.
struct Stopped(i32);

impl Stopped {
    fn stop(pid: i32) -> Stopped {
        signal("-STOP", pid);
        Stopped(pid)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        signal("-CONT", self.0);
    }
}

fn signal(name: &str, pid: i32) {
    let kill = Command::new("kill").arg(name).arg(pid.to_string()).status();
    assert!(kill.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminated_session_is_lost_at_once() {
    let scene = Scene::new().await;
    let guard = scene.locks.lock(AGENT, 1, WAIT_MAX).await.unwrap();
    let pid = guard.backend_pid();
    scene
        .database
        .psql(&format!("SELECT pg_terminate_backend({pid})"));
    let started = Instant::now();
    let lost = guard.lost().await;
    assert_eq!(lost.class(), Class::Lost);
    assert!(lost.to_string().contains("administrator"), "{lost}");
    assert!(started.elapsed() < Duration::from_secs(2));
    assert_eq!(guard.state(), GuardState::Lost);
    assert!(matches!(guard.check(), Err(Error::Lost { .. })));
    assert!(matches!(guard.release().await, Err(Error::Lost { .. })));
    scene.until_whole(25).await;
    let again = scene.locks.lock(AGENT, 1, WAIT_MAX).await.unwrap();
    assert_ne!(again.backend_pid(), pid);
    again.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_after_termination_says_that_it_was_lost() {
    let scene = Scene::new().await;
    let guard = scene.locks.lock(AGENT, 1, WAIT_MAX).await.unwrap();
    let sql = format!("SELECT pg_terminate_backend({}, 5000)", guard.backend_pid());
    scene.database.psql(&sql);
    let error = guard.release().await.unwrap_err();
    assert_eq!(error.class(), Class::Lost, "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_server_makes_it_unknown_at_1_s_and_lost_at_3_s() {
    let scene = Scene::new().await;
    let guard = scene.locks.lock(AGENT, 1, WAIT_MAX).await.unwrap();
    let stopped = Stopped::stop(guard.backend_pid());
    let silent = Instant::now();
    until("it is unknown", || guard.state() == GuardState::Unknown).await;
    let unknown = silent.elapsed();
    let lost = guard.lost().await;
    let gone = silent.elapsed();
    assert_eq!(lost.class(), Class::Lost);
    // The last good question was sent at most half a second before the silence began.
    assert!(unknown > Duration::from_millis(400), "{unknown:?}");
    assert!(unknown < Duration::from_millis(1500), "{unknown:?}");
    assert!(gone > Duration::from_millis(2400), "{gone:?}");
    assert!(gone < Duration::from_millis(3500), "{gone:?}");
    drop(stopped);
    assert_eq!(guard.state(), GuardState::Lost, "lost is final");
    // The guard has closed its socket, so the server frees the lock while the guard still exists.
    scene.until_free(AGENT, 1).await;
    drop(guard);
    scene.until_whole(25).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_answers_again_in_time_is_trusted_again() {
    let scene = Scene::new().await;
    let guard = scene.locks.lock(AGENT, 1, WAIT_MAX).await.unwrap();
    let stopped = Stopped::stop(guard.backend_pid());
    until("it is unknown", || guard.state() == GuardState::Unknown).await;
    drop(stopped);
    until("it is held again", || guard.state() == GuardState::Held).await;
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guard_stays_held_for_as_long_as_the_server_answers() {
    let scene = Scene::new().await;
    let guard = scene.locks.lock(AGENT, 1, WAIT_MAX).await.unwrap();
    let until = Instant::now() + Duration::from_secs(4);
    while Instant::now() < until {
        assert_eq!(guard.state(), GuardState::Held);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_server_loses_locks_and_serves_again() {
    let mut cluster = Cluster::with(&tenure_testkit::postgres::Settings::default());
    let database = cluster.database();
    let locks = AdvisoryLocks::open(&database.url(), Settings::default()).await;
    let locks = locks.unwrap();
    let kept = locks.lock(AGENT, 2, WAIT_MAX).await.unwrap();
    let guard = locks.lock(AGENT, 1, WAIT_MAX).await.unwrap();
    let token = guard.token();
    kept.release().await.unwrap();
    cluster.restart(Stop::Crash);
    assert_eq!(guard.lost().await.class(), Class::Lost);
    drop(guard);
    let again = locks.lock(AGENT, 1, WAIT_MAX).await.unwrap();
    assert!(again.token() > token);
    again.release().await.unwrap();
}

/// Opens a service through a network that can be stopped and cut.
async fn by_proxy() -> (AdvisoryLocks, Proxy, Database) {
    let database = Cluster::shared().database();
    let proxy = Proxy::before(&database);
    let locks = AdvisoryLocks::open(&proxy.url_through(&database), Settings::default()).await;
    (locks.unwrap(), proxy, database)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_network_makes_it_unknown_at_1_s_and_lost_at_3_s() {
    let (locks, proxy, database) = by_proxy().await;
    let guard = locks.lock(AGENT, 1, WAIT_MAX).await.unwrap();
    proxy.pause();
    let silent = Instant::now();
    until("it is unknown", || guard.state() == GuardState::Unknown).await;
    let unknown = silent.elapsed();
    assert!(unknown > Duration::from_millis(400), "{unknown:?}");
    assert!(unknown < Duration::from_millis(1500), "{unknown:?}");
    assert_eq!(guard.lost().await.class(), Class::Lost);
    let gone = silent.elapsed();
    assert!(gone > Duration::from_millis(2400), "{gone:?}");
    assert!(gone < Duration::from_millis(3500), "{gone:?}");
    assert_eq!(
        database.psql("SELECT pg_try_advisory_lock(1, 1)").trim(),
        "f"
    );
    proxy.resume();
    let free = || database.psql("SELECT pg_try_advisory_lock(1, 1)").trim() == "t";
    until("the server frees it", free).await;
    assert_eq!(guard.state(), GuardState::Lost, "lost is final");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_connection_is_lost_at_once() {
    let (locks, proxy, _database) = by_proxy().await;
    let guard = locks.lock(AGENT, 1, WAIT_MAX).await.unwrap();
    proxy.cut();
    let (lost, took) = timed(guard.lost()).await;
    assert_eq!(lost.class(), Class::Lost);
    assert!(took < Duration::from_secs(1), "{took:?}");
    drop(guard);
    let again = locks.lock(AGENT, 1, WAIT_MAX).await.unwrap();
    again.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_whose_answer_never_comes_is_given_up_and_freed() {
    let (locks, proxy, database) = by_proxy().await;
    locks
        .lock(AGENT, 1, WAIT_MAX)
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    proxy.pause_answers();
    let (error, took) = timed(locks.lock(AGENT, 1, SHORT)).await;
    assert_eq!(error.unwrap_err().class(), Class::Unreachable);
    assert!(took < Duration::from_secs(3), "{took:?}");
    assert_eq!(
        database.psql("SELECT pg_try_advisory_lock(1, 1)").trim(),
        "f"
    );
    proxy.resume();
    let free = || database.psql("SELECT pg_try_advisory_lock(1, 1)").trim() == "t";
    until("the server frees it", free).await;
    until("the pool is whole", || locks.pool_state().free == 25).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_without_an_answer_says_so() {
    let (locks, proxy, _database) = by_proxy().await;
    let guard = locks.lock(AGENT, 1, WAIT_MAX).await.unwrap();
    proxy.pause();
    let (error, took) = timed(guard.release()).await;
    assert_eq!(error.unwrap_err().class(), Class::Unreachable);
    assert!(took < Duration::from_secs(5), "{took:?}");
    proxy.resume();
}

/// The process stands still while an answer lies unread: the answer proves the moment of its
/// question, not the moment of its reading.
#[tokio::test]
async fn trust_is_counted_from_the_question_and_not_from_the_answer() {
    let (locks, proxy, _database) = by_proxy().await;
    let guard = locks.lock(AGENT, 1, WAIT_MAX).await.unwrap();
    proxy.pause_answers();
    // The guard sends its first probe after half a second.
    tokio::time::sleep(Duration::from_millis(600)).await;
    let stand_still = |ms| std::thread::sleep(Duration::from_millis(ms));
    proxy.resume();
    stand_still(200);
    proxy.pause_answers();
    stand_still(1300);
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(guard.state(), GuardState::Unknown);
    proxy.resume();
    until("it is held again", || guard.state() == GuardState::Held).await;
    guard.release().await.unwrap();
}
