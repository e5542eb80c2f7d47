//! Waiting in line, as only a server with several processes has it. Each store here is a process of its own, as far as
//! the database knows.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tenure_core::{LeaseState, Mode, Query, Store};

use crate::scene::{PATIENCE, SHORT, Scene, open, request, take, timed, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_is_handed_over_to_another_process_at_once() {
    let scene = Scene::new().await;
    let other = Arc::new(open(&scene.database.url()).await.unwrap());
    for _ in 0..5 {
        let first = take(&scene.store, "a").await;
        let waiting = {
            let other = Arc::clone(&other);
            tokio::spawn(async move {
                let request = request("a", Mode::Write, PATIENCE);
                let lease = other.acquire(&request).await.unwrap();
                (lease, Instant::now())
            })
        };
        until("it waits", || scene.waiting() == 1).await;
        let released = Instant::now();
        scene.store.release(&first.lease).await.unwrap();
        let (second, granted) = waiting.await.unwrap();
        // By its wake-up: nobody looks by a timer before three quarters of a second have passed.
        assert!(granted - released < Duration::from_millis(700));
        assert!(second.token > first.token);
        assert_eq!(second.state, LeaseState::Held);
        assert!(second.expires_at.is_some());
        other.release(&second.lease).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_ran_out_is_taken_over_within_a_second() {
    let scene = Scene::with("?lease_ttl=1s").await;
    let first = take(&scene.store, "a").await;
    let (second, waited) = timed(take(&scene.store, "a")).await;
    assert!(second.token > first.token);
    assert!(waited > Duration::from_millis(900), "{waited:?}");
    assert!(waited < Duration::from_secs(2), "{waited:?}");
    let error = scene.store.release(&first.lease).await.unwrap_err();
    assert!(error.to_string().contains("recovered by"), "{error}");
    assert!(scene.store.renew(&first.lease).await.is_err());
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
    // Someone whose process was never seen waits before us.
    let sql = "INSERT INTO tenure.waiters (lock_id, resource, want, mode, session, holder_session, process, owner, \
               since, ttl_ms, pid, host, command) VALUES ('dead', 'name:a', 'lease', 'write', 's', 's', 'gone', 'o', \
               now(), 30000, 1, 'h', 'c'); UPDATE tenure.resources SET alone = NULL";
    scene.database.psql(sql);
    let mine = request("a", Mode::Write, PATIENCE);
    let waiting = scene.store.acquire(&mine);
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
async fn readers_enter_together_and_no_reader_overtakes_a_writer() {
    let scene = Scene::new().await;
    let store = &scene.store;
    let held = take(store, "a").await;
    let line =
        [Mode::Read, Mode::Read, Mode::Write, Mode::Read].map(|mode| request("a", mode, PATIENCE));
    let wait = |n: usize| {
        let (line, scene) = (&line, &scene);
        async move {
            until("its turn to come", || scene.waiting() == n).await;
            store.acquire(&line[n]).await.unwrap()
        }
    };
    let rest = async {
        until("all wait", || scene.waiting() == 4).await;
        store.release(&held.lease).await.unwrap();
        until("the readers have it", || scene.waiting() == 2).await;
        let listing = store.list(&Query::default()).await.unwrap();
        assert_eq!(listing.held.len(), 2);
        // Taken up before it is given back, the writer too.
        for one in &line[..3] {
            until("it is held", || {
                let sql = format!(
                    "SELECT state FROM tenure.dal_locks WHERE lock_id = '{}'",
                    one.lease
                );
                scene.database.psql(&sql) == "held"
            })
            .await;
            store.release(&one.lease).await.unwrap();
        }
    };
    let (one, two, writer, last, ()) = tokio::join!(wait(0), wait(1), wait(2), wait(3), rest);
    assert_eq!((one.token, two.token), (held.token, held.token));
    assert!(writer.token > held.token);
    assert_eq!(last.token, writer.token);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_runs_out_of_time_leaves_no_waiter() {
    let scene = Scene::new().await;
    let _held = take(&scene.store, "a").await;
    let mine = request("a", Mode::Write, SHORT);
    let (error, waited) = timed(scene.store.acquire(&mine)).await;
    assert_eq!(error.unwrap_err().class(), tenure_core::Class::Busy);
    assert!(waited >= SHORT, "{waited:?}");
    until("nobody waits", || scene.waiting() == 0).await;
}
