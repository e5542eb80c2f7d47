//! Waiting in line as it is on a server with several processes. Each store here is a process of its
//! own, as far as the database knows.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tenure_core::{LeaseState, Mode, Query, Store};
use tenure_testkit::postgres::Proxy;

use crate::scene::{Asks, SHORT, Scene, WAIT_MAX, open, request, take, timed, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_is_handed_over_to_another_process_at_once() {
    let scene = Scene::new().await;
    let other = Arc::new(open(&scene.database.url()).await.unwrap());
    let mut shortest = WAIT_MAX;
    for _ in 0..5 {
        let first = take(&scene.store, "a").await;
        let waiting = {
            let other = Arc::clone(&other);
            tokio::spawn(async move {
                let request = request("a", Mode::Write, WAIT_MAX);
                let lease = other.wait_for(&request).await.unwrap();
                (lease, Instant::now())
            })
        };
        until("it waits", || scene.waiting() == 1).await;
        let released = Instant::now();
        scene.store.release(&first.lease).await.unwrap();
        let (second, granted) = waiting.await.unwrap();
        shortest = shortest.min(granted - released);
        assert!(second.token > first.token);
        assert_eq!(second.state, LeaseState::Held);
        assert!(second.expires_at.is_some());
        other.release(&second.lease).await.unwrap();
    }
    // The wake-up did it: no waiter looks by a timer before three quarters of a second have passed.
    // A busy machine may be late now and then, but not each time.
    assert!(shortest < Duration::from_millis(700), "{shortest:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_ran_out_is_taken_over_within_a_second() {
    let ttl = Duration::from_millis(1250);
    let scene = Scene::with("?lease_ttl=1250ms").await;
    let mut shortest = WAIT_MAX;
    for _ in 0..3 {
        let first = take(&scene.store, "a").await;
        let (second, waited) = timed(take(&scene.store, "a")).await;
        assert!(second.token > first.token);
        assert!(waited > ttl - Duration::from_millis(100), "{waited:?}");
        shortest = shortest.min(waited);
        let error = scene.store.release(&first.lease).await.unwrap_err();
        assert!(error.to_string().contains("recovered by"), "{error}");
        assert!(scene.store.renew(&first.lease).await.is_err());
        scene.store.release(&second.lease).await.unwrap();
    }
    // The waiter looks right when the lease runs out: the usual timer looks within the first
    // second, and again after one and a half.
    assert!(shortest < Duration::from_millis(1450), "{shortest:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_ran_out_may_be_renewed_while_nobody_took_over() {
    let scene = Scene::with("?lease_ttl=1s").await;
    let lease = take(&scene.store, "a").await;
    let asked = format!(
        "SELECT clock_timestamp() > lease_expires FROM tenure.dal_locks WHERE lock_id = '{}'",
        lease.lease
    );
    until("it ran out", || scene.database.psql(&asked) == "t").await;
    let left = scene.store.renew(&lease.lease).await.unwrap().unwrap();
    assert!(
        left > Duration::from_millis(500) && left <= Duration::from_secs(1),
        "{left:?}"
    );
    scene.store.release(&lease.lease).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_whose_process_is_gone_is_passed_over() {
    let scene = Scene::new().await;
    let held = take(&scene.store, "a").await;
    // A waiter whose process was never seen stands in line before us.
    let sql = "INSERT INTO tenure.waiters (lock_id, resource, want, mode, session, holder_session, process, owner, \
               since, ttl_ms, pid, host, command) VALUES ('dead', 'name:a', 'lease', 'write', 's', 's', 'gone', 'o', \
               now(), 30000, 1, 'h', 'c'); UPDATE tenure.resources SET alone = NULL";
    scene.database.psql(sql);
    let mine = request("a", Mode::Write, WAIT_MAX);
    let waiting = scene.store.wait_for(&mine);
    let release = async {
        until("it waits, and the dead one does not", || {
            scene
                .database
                .psql("SELECT string_agg(lock_id, ' ') FROM tenure.waiters")
                == mine.lease.as_str()
        })
        .await;
        scene.store.release(&held.lease).await.unwrap();
    };
    let (granted, ()) = tokio::join!(waiting, release);
    assert_eq!(granted.unwrap().lease, mine.lease);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_offered_to_who_died_or_ran_out_of_time_in_line() {
    let scene = Scene::new().await;
    let first = "INSERT INTO tenure.processes VALUES ('other', clock_timestamp(), 1, 'h') \
                 ON CONFLICT (process) DO UPDATE SET seen_at = clock_timestamp(); \
                 INSERT INTO tenure.waiters (lock_id, resource, want, mode, session, holder_session, process, owner, \
                 since, ttl_ms, pid, host, command) VALUES ('first', 'name:a', 'lease', 'write', 's', 's', 'other', \
                 'o', now(), 30000, 1, 'h', 'c'); UPDATE tenure.resources SET alone = NULL";
    for over in [
        "UPDATE tenure.processes SET seen_at = seen_at - interval '20 seconds' WHERE process = 'other'",
        "UPDATE tenure.waiters SET deadline = clock_timestamp() WHERE lock_id = 'first'",
    ] {
        let held = take(&scene.store, "a").await;
        scene.database.psql(first);
        let mine = request("a", Mode::Write, WAIT_MAX);
        let waiting = scene.store.wait_for(&mine);
        let release = async {
            until("it waits behind the first", || scene.waiting() == 2).await;
            scene.database.psql(over);
            scene.store.release(&held.lease).await.unwrap();
        };
        let (granted, ()) = tokio::join!(waiting, release);
        assert_eq!(granted.unwrap().lease, mine.lease);
        let offered = "SELECT count(*) FROM tenure.audit WHERE lock_id = 'first'";
        assert_eq!(scene.database.psql(offered), "0", "{over}");
        scene.store.release(&mine.lease).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_enter_together_and_no_reader_overtakes_a_writer() {
    let scene = Scene::new().await;
    let store = Arc::new(open(&scene.database.url()).await.unwrap());
    let held = take(&store, "a").await;
    // Each request has a task of its own, so that it takes up its offer whatever the others do.
    let ask = |mode| {
        let (store, asked) = (Arc::clone(&store), request("a", mode, WAIT_MAX * 2));
        tokio::spawn(async move { store.wait_for(&asked).await.unwrap() })
    };
    let until_waiting = async |count| until("it waits", || scene.waiting() == count).await;
    let one = ask(Mode::Read);
    until_waiting(1).await;
    let two = ask(Mode::Read);
    until_waiting(2).await;
    let writer = ask(Mode::Write);
    until_waiting(3).await;
    let last = ask(Mode::Read);
    until_waiting(4).await;
    store.release(&held.lease).await.unwrap();
    let (one, two) = (one.await.unwrap(), two.await.unwrap());
    assert_eq!((one.token, two.token), (held.token, held.token));
    let listing = store.list(&Query::default()).await.unwrap();
    assert_eq!(listing.held.len(), 2, "{listing:?}");
    assert_eq!(scene.waiting(), 2, "the writer, and who came after it");
    store.release(&one.lease).await.unwrap();
    assert_eq!(scene.waiting(), 2, "the writer waits for both");
    store.release(&two.lease).await.unwrap();
    let writer = writer.await.unwrap();
    assert!(writer.token > held.token);
    assert_eq!(scene.waiting(), 1, "who came after the writer");
    store.release(&writer.lease).await.unwrap();
    assert_eq!(last.await.unwrap().token, writer.token);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_runs_out_of_time_leaves_no_waiter() {
    let scene = Scene::new().await;
    let _held = take(&scene.store, "a").await;
    let mine = request("a", Mode::Write, SHORT);
    let (error, waited) = timed(scene.store.wait_for(&mine)).await;
    assert_eq!(error.unwrap_err().class(), tenure_core::Class::Busy);
    // The deadline is in whole milliseconds.
    assert!(waited + Duration::from_millis(1) >= SHORT, "{waited:?}");
    until("nobody waits", || scene.waiting() == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_looks_after_the_line_about_once_a_second() {
    let scene = Scene::new().await;
    let other = open(&scene.database.url()).await.unwrap();
    let held = take(&scene.store, "a").await;
    // A look that finds nothing to do is rolled back, and no other transaction is.
    let looks = || -> u64 {
        let sql = "SELECT xact_rollback FROM pg_stat_database WHERE datname = current_database()";
        scene.database.psql(sql).parse().unwrap()
    };
    let asked = request("a", Mode::Write, WAIT_MAX);
    let count = async {
        until("it waits", || scene.waiting() == 1).await;
        let (began, before) = (Instant::now(), looks());
        until("it has looked, and for a while", || {
            looks() > before && began.elapsed() > Duration::from_secs(3)
        })
        .await;
        // The server counts rollbacks late, so some may be from before.
        let (looked, seconds) = (looks() - before, began.elapsed().as_secs());
        assert!(looked <= 2 * (seconds + 2), "{looked} in {seconds} s");
        scene.store.release(&held.lease).await.unwrap();
    };
    let (granted, ()) = tokio::join!(other.wait_for(&asked), count);
    other.release(&granted.unwrap().lease).await.unwrap();
}

/// By its timer the waiter would look only when the offer is over: there were many processes before
/// it when it looked last.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_offered_while_a_process_is_deaf_is_taken_up_when_it_hears_again() {
    let scene = Scene::new().await;
    let proxy = Proxy::before(&scene.database);
    let deaf = open(&proxy.url_through(&scene.database)).await.unwrap();
    let held = take(&scene.store, "a").await;
    scene.database.psql(
        "INSERT INTO tenure.processes SELECT 'p' || n, clock_timestamp(), 1, 'h' FROM generate_series(1, 12) n; \
         INSERT INTO tenure.waiters (lock_id, resource, want, mode, session, holder_session, process, owner, since, \
         ttl_ms, pid, host, command) SELECT 'l' || n, 'name:a', 'lease', 'write', 's' || n, 's' || n, 'p' || n, 'o', \
         now(), 30000, 1, 'h', 'c' FROM generate_series(1, 12) n; UPDATE tenure.resources SET alone = NULL",
    );
    let asked = request("a", Mode::Write, WAIT_MAX);
    let cut_off = async {
        until("it waits behind them", || scene.waiting() == 13).await;
        proxy.refuse();
        proxy.cut();
        scene
            .database
            .psql("DELETE FROM tenure.waiters WHERE process LIKE 'p%'");
        scene.store.release(&held.lease).await.unwrap();
        proxy.admit();
        Instant::now()
    };
    let granted = async { (deaf.wait_for(&asked).await.unwrap(), Instant::now()) };
    let ((lease, granted), heard) = tokio::join!(granted, cut_off);
    assert_eq!(lease.lease, asked.lease);
    assert!(
        granted - heard < Duration::from_secs(8),
        "{:?}",
        granted - heard
    );
    deaf.release(&lease.lease).await.unwrap();
}
