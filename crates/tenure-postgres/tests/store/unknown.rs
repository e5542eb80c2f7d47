//! A connection that is lost before the answer comes: the store does not know what was done until
//! it asks again.

use std::future::Future;
use std::time::Instant;

use tenure_core::decide::Wait;
use tenure_core::{Mode, Store, UpgradeRequest};
use tenure_os::clock;
use tenure_postgres::PostgresStore;
use tenure_testkit::postgres::Proxy;

use crate::scene::{Asks, Scene, WAIT_MAX, asker, open, request, take, until};

/// Opens a store behind a proxy, and prepares its statements.
pub async fn behind(scene: &Scene) -> (PostgresStore, Proxy) {
    let proxy = Proxy::before(&scene.database);
    let store = open(&proxy.url_through(&scene.database)).await.unwrap();
    warm(&store).await;
    (store, proxy)
}

/// Prepares all statements of the empty cases, on the connection that is used next.
async fn warm(store: &PostgresStore) {
    let lease = take(store, "warm").await;
    store.release(&lease.lease).await.unwrap();
}

/// Loses the answer to the second round trip of a step: its writes are held up until the first
/// round trip has its answer.
pub async fn without_second_answer<T>(
    scene: &Scene,
    proxy: &Proxy,
    (table, done): (&str, &str),
    asked: impl Future<Output = T>,
) -> T {
    let mut barrier = scene.database.session();
    barrier.run("BEGIN");
    barrier.run(&format!("LOCK TABLE tenure.{table} IN SHARE MODE"));
    let lose = async {
        let held_up = format!(
            "pg_locks WHERE NOT granted AND relation = 'tenure.{table}'::regclass \
             AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
        );
        until("it is held up", || scene.count(&held_up) == "1").await;
        proxy.pause_answers();
        barrier.run("COMMIT");
        until("it is done at the server", || {
            scene.database.psql(done) == "t"
        })
        .await;
        proxy.cut();
        proxy.resume();
    };
    tokio::join!(asked, lose).0
}

/// Loses the answer to a request: the server does it, and the connection is cut then.
async fn without_answer<T>(
    scene: &Scene,
    proxy: &Proxy,
    done: &str,
    asked: impl Future<Output = T>,
) -> T {
    proxy.pause_answers();
    let lose = async {
        until("it is done at the server", || {
            scene.database.psql(done) == "t"
        })
        .await;
        proxy.cut();
        proxy.resume();
    };
    tokio::join!(asked, lose).0
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acquire_whose_answer_is_lost_finds_its_lease() {
    let scene = Scene::new().await;
    let (store, proxy) = behind(&scene).await;
    for again in 0..3 {
        warm(&store).await;
        let asked = request("a", Mode::Write, WAIT_MAX);
        let done = format!(
            "SELECT count(*) = 1 FROM tenure.dal_locks WHERE lock_id = '{}'",
            asked.lease
        );
        let lease = match again {
            0 => without_answer(&scene, &proxy, &done, store.wait_for(&asked))
                .await
                .unwrap(),
            _ => without_answer(&scene, &proxy, &done, store.try_acquire(&asked))
                .await
                .unwrap()
                .unwrap(),
        };
        assert_eq!(lease.lease, asked.lease);
        assert_eq!(
            store.token(&asked.resource).await.unwrap(),
            Some(lease.token)
        );
        // The lease was granted once, however often the store asked.
        let granted = format!(
            "SELECT count(*) FROM tenure.audit WHERE lock_id = '{}'",
            asked.lease
        );
        assert_eq!(scene.database.psql(&granted), "1");
        store.release(&lease.lease).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_place_in_line_whose_answer_is_lost_is_found_again() {
    let scene = Scene::new().await;
    let (store, proxy) = behind(&scene).await;
    let held = take(&scene.store, "a").await;
    let asked = request("a", Mode::Write, WAIT_MAX);
    // The statements for waiting in line are prepared here.
    let in_vain = request("a", Mode::Write, crate::scene::SHORT);
    store.wait_for(&in_vain).await.unwrap_err();
    until("nobody waits", || scene.waiting() == 0).await;
    let done = ("waiters", "SELECT count(*) = 1 FROM tenure.waiters");
    let place = "SELECT place FROM tenure.waiters";
    let waiting = without_second_answer(&scene, &proxy, done, store.wait_for(&asked));
    let release = async {
        until("it waits", || scene.waiting() == 1).await;
        let first = scene.database.psql(place);
        // A step ran on a connection that is younger than the place: it found the place, and had
        // nothing to write.
        let asks = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                    AND application_name LIKE 'tenure%' AND query = 'ROLLBACK' \
                    AND backend_start > (SELECT max(since) FROM tenure.waiters)";
        until("it asks again", || scene.database.psql(asks) != "0").await;
        assert_eq!(scene.database.psql(place), first);
        scene.store.release(&held.lease).await.unwrap();
    };
    let (granted, ()) = tokio::join!(waiting, release);
    let granted = granted.unwrap();
    assert_eq!(granted.lease, asked.lease);
    store.release(&granted.lease).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_whose_answer_is_lost_is_a_release() {
    let scene = Scene::new().await;
    let (store, proxy) = behind(&scene).await;
    let done = "SELECT count(*) = 0 FROM tenure.dal_locks";
    for _ in 0..3 {
        warm(&store).await;
        let lease = take(&store, "a").await;
        let released = without_answer(&scene, &proxy, done, store.release(&lease.lease)).await;
        released.unwrap();
        // The lease is over after one release.
        let error = store.release(&lease.lease).await.unwrap_err();
        assert!(error.to_string().contains("released by"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_was_lost_meanwhile_does_not_count_as_released() {
    let scene = Scene::new().await;
    let (store, proxy) = behind(&scene).await;
    let lease = take(&store, "a").await;
    // Another process recovers the lease while the release does not get through.
    proxy.pause();
    let release = store.release(&lease.lease);
    let lose = async {
        scene.database.psql(
            "UPDATE tenure.dal_locks SET lease_expires = now() - interval '1 minute', \
             heartbeat_ts = now() - interval '1 minute'",
        );
        let other = take(&scene.store, "a").await;
        proxy.cut();
        proxy.resume();
        other
    };
    let (released, other) = tokio::join!(release, lose);
    let error = released.unwrap_err();
    assert!(error.to_string().contains("recovered by"), "{error}");
    scene.store.release(&other.lease).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_whose_answer_is_lost_is_found_again() {
    let scene = Scene::new().await;
    let (store, proxy) = behind(&scene).await;
    for tries in [false, true] {
        let asked = request("a", Mode::Upgradeable, WAIT_MAX);
        let lease = store.wait_for(&asked).await.unwrap();
        let done = "SELECT mode = 'write' FROM tenure.dal_locks";
        // The statements are prepared here, and the listener is connected.
        let ask = || UpgradeRequest {
            standing: Default::default(),
            lease: lease.lease.clone(),
            asker: asker("ana"),
            deadline: None,
            wait: Wait::Until(clock::boot_now() + 15_000),
        };
        store.wait_for_upgrade(&ask()).await.unwrap();
        store.downgrade(&lease.lease).await.unwrap();
        let request = ask();
        let upgrade = async {
            match tries {
                true => store.try_upgrade(&lease.lease).await.map(Option::unwrap),
                false => store.wait_for_upgrade(&request).await,
            }
        };
        let token = without_second_answer(&scene, &proxy, ("dal_locks", done), upgrade).await;
        let token = token.unwrap();
        assert!(token > lease.token);
        assert_eq!(store.token(&asked.resource).await.unwrap(), Some(token));
        // The lease is exclusive already, so another upgrade is a conflict.
        let error = store.wait_for_upgrade(&ask()).await.unwrap_err();
        assert_eq!(error.class(), tenure_core::Class::Conflict, "{error}");
        store.release(&lease.lease).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_that_is_cut_off_stays_until_its_deadline_and_then_says_why() {
    let scene = Scene::new().await;
    let (store, proxy) = behind(&scene).await;
    let held = take(&scene.store, "a").await;
    // The waiter is cut off for a while: it goes on waiting, and is woken as before.
    let asked = request("a", Mode::Write, WAIT_MAX);
    let waiting = async { (store.wait_for(&asked).await, Instant::now()) };
    let cut = async {
        until("it waits", || scene.waiting() == 1).await;
        proxy.refuse();
        proxy.cut();
        // This is longer than it takes to ask a few times.
        tokio::time::sleep(std::time::Duration::from_secs(2)).await;
        let cut_off = scene.database.psql("SELECT clock_timestamp()");
        proxy.admit();
        let seen = format!("SELECT count(*) FROM tenure.processes WHERE seen_at > '{cut_off}'");
        until("it hears again", || scene.database.psql(&seen) == "1").await;
        assert_eq!(scene.waiting(), 1, "in its place");
        let released = Instant::now();
        scene.store.release(&held.lease).await.unwrap();
        released
    };
    let ((granted, at), released) = tokio::join!(waiting, cut);
    let granted = granted.unwrap();
    assert!(
        at - released < std::time::Duration::from_millis(700),
        "woken after {:?}",
        at - released
    );
    // The waiter is cut off for good: it waits for as long as it has time, and not a moment longer.
    let asked = request("a", Mode::Write, std::time::Duration::from_secs(2));
    proxy.refuse();
    proxy.cut();
    let (error, waited) = crate::scene::timed(store.wait_for(&asked)).await;
    let error = error.unwrap_err();
    assert_eq!(error.class(), tenure_core::Class::Unreachable, "{error}");
    assert!(waited > std::time::Duration::from_millis(500), "{waited:?}");
    assert!(
        waited <= std::time::Duration::from_millis(2_500),
        "{waited:?}"
    );
    proxy.admit();
    store.release(&granted.lease).await.unwrap();
}
