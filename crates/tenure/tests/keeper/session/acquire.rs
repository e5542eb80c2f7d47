//! Waiting with a deadline, and passing faults.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use tenure::{Class, Error, Keeper, Mode, Options, Settings};

use crate::faulty_store::{FaultyStore, broken, passing};
use crate::scene::*;

#[tokio::test]
async fn a_wait_of_zero_is_busy_at_once_and_names_the_holder() {
    let keeper = keeper().await;
    let (ana, bo) = (session(&keeper, "ana").await, session(&keeper, "bo").await);
    let guard = take(&ana, "a", Mode::Write).await;
    let asked = bo.acquire(&resource("a"), Mode::Read, &wait(0)).await;
    let error = asked.unwrap_err();
    assert!(matches!(error, Error::Busy { .. }), "{error}");
    assert_eq!(error.holders(), [guard.lease()]);
}

#[tokio::test(start_paused = true)]
async fn a_timeout_tells_waited_limit_attempts_and_holders() {
    let keeper = keeper().await;
    let (ana, bo) = (session(&keeper, "ana").await, session(&keeper, "bo").await);
    let guard = take(&ana, "a", Mode::Write).await;
    let asked = bo.acquire(&resource("a"), Mode::Read, &wait(3000)).await;
    match asked.unwrap_err() {
        Error::Timeout {
            context,
            waited,
            limit,
            attempts,
            holders,
        } => {
            assert_eq!(
                (context.resource, context.mode),
                (resource("a"), Mode::Read)
            );
            assert!(waited >= limit && waited < limit + Duration::from_millis(100));
            assert_eq!(limit, Duration::from_secs(3));
            assert_eq!(attempts, 1, "asked once, and waited");
            assert_eq!(holders, [guard.lease()]);
        }
        other => panic!("{other}"),
    }
    assert!(waiting(&keeper).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_timeout_without_a_listing_names_nobody() {
    let (store, keeper) = FaultyStore::default().keep();
    let (ana, bo) = (session(&keeper, "ana").await, session(&keeper, "bo").await);
    let _guard = take(&ana, "a", Mode::Write).await;
    store.fail("list", broken());
    let asked = bo.acquire(&resource("a"), Mode::Read, &wait(10)).await;
    let error = asked.unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "{error}");
    assert!(error.holders().is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_settings_say_how_long_a_request_waits_that_does_not() {
    let settings = Settings::default().with_wait(Duration::from_secs(7));
    let keeper = Keeper::open_with("memory:", settings).await.unwrap();
    let (ana, bo) = (session(&keeper, "ana").await, session(&keeper, "bo").await);
    let _guard = take(&ana, "a", Mode::Write).await;
    let asked = bo
        .acquire(&resource("a"), Mode::Read, &Options::default())
        .await;
    let error = asked.unwrap_err();
    assert!(
        matches!(error, Error::Timeout { limit, .. } if limit == Duration::from_secs(7)),
        "{error}"
    );
}

#[tokio::test]
async fn a_wait_without_an_end_is_refused() {
    let keeper = keeper().await;
    let ana = session(&keeper, "ana").await;
    let options = Options::default().with_wait(Duration::MAX);
    let asked = ana.acquire(&resource("a"), Mode::Write, &options).await;
    let error = asked.unwrap_err();
    assert_eq!(error.class(), Class::BadInput);
    assert!(error.to_string().contains("8760h"), "{error}");
    let year = Options::default().with_wait(Duration::from_secs(365 * 24 * 3600));
    drop(
        ana.acquire(&resource("a"), Mode::Write, &year)
            .await
            .unwrap(),
    );
}

#[tokio::test]
async fn notes_that_no_store_would_keep_are_refused() {
    let keeper = keeper().await;
    let ana = session(&keeper, "ana").await;
    let odd = Options::default().with_purpose("\u{1b}[2J");
    let long = Options::default().with_metadata(json!("x".repeat(5000)));
    for options in [odd, long] {
        let asked = ana.acquire(&resource("a"), Mode::Write, &options).await;
        assert_eq!(asked.unwrap_err().class(), Class::BadInput);
        let asked = ana
            .try_acquire_many(&set(&[("a", Mode::Write)]), &options)
            .await;
        assert_eq!(asked.unwrap_err().class(), Class::BadInput);
    }
}

#[tokio::test]
async fn the_lease_tells_who_holds_and_why() {
    let keeper = keeper().await;
    let ana = session(&keeper, "ana").await;
    let options = Options::default()
        .with_purpose("nightly")
        .with_metadata(json!({"run": 7}));
    let guard = ana.acquire(&resource("a"), Mode::Write, &options).await;
    let lease = guard.as_ref().unwrap().lease();
    assert_eq!(lease.owner.as_str(), "ana");
    assert_eq!(lease.session, *ana.id());
    assert_eq!(lease.pid, std::process::id());
    assert_eq!(lease.purpose.as_deref(), Some("nightly"));
    assert_eq!(lease.metadata, Some(json!({"run": 7})));
    let program = std::env::args().next().unwrap();
    assert!(lease.command.contains(&program), "{}", lease.command);
}

#[tokio::test(start_paused = true)]
async fn while_waiting_passing_faults_are_bounded_by_the_deadline_not_by_attempts() {
    let (store, keeper) = FaultyStore::default().keep();
    let (ana, bo) = (session(&keeper, "ana").await, session(&keeper, "bo").await);
    let guard = take(&ana, "a", Mode::Write).await;
    for _ in 0..10 {
        store.fail("acquire", passing());
    }
    let bo_asks = async { bo.acquire(&resource("a"), Mode::Write, &wait(60_000)).await };
    let release = async {
        until("ten faults", async || {
            tokio::time::sleep(Duration::from_millis(1)).await;
            store.count("acquire") == 11
        })
        .await;
        drop(guard);
    };
    let (got, ()) = tokio::join!(bo_asks, release);
    assert!(got.is_ok(), "{got:?}");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_until_the_deadline_is_the_error() {
    let (store, keeper) = FaultyStore::default().keep();
    let ana = session(&keeper, "ana").await;
    store.fail("acquire", passing());
    for _ in 0..1000 {
        store.fail("acquire", passing());
    }
    let asked = ana
        .acquire(&resource("a"), Mode::Write, &wait(10_000))
        .await;
    assert_eq!(asked.unwrap_err().class(), Class::Unreachable);
    assert!(store.count("acquire") < 20, "pauses grow");
}

#[tokio::test(start_paused = true)]
async fn without_waiting_passing_faults_are_tried_three_times() {
    let (store, keeper) = FaultyStore::default().keep();
    let ana = session(&keeper, "ana").await;
    for _ in 0..5 {
        store.fail("acquire", passing());
    }
    let tried = ana.try_acquire(&resource("a"), Mode::Write, &wait(0)).await;
    assert_eq!(tried.unwrap_err().class(), Class::Unreachable);
    assert_eq!(store.count("acquire"), 3);
    drop(take(&ana, "a", Mode::Write).await);
    assert_eq!(store.count("acquire"), 6);
}

#[tokio::test]
async fn other_errors_end_the_request_at_once() {
    let (store, keeper) = FaultyStore::default().keep();
    let ana = session(&keeper, "ana").await;
    store.fail("acquire", broken());
    let asked = ana.acquire(&resource("a"), Mode::Write, &patient()).await;
    assert_eq!(asked.unwrap_err().class(), Class::Unreachable);
    assert_eq!(store.log(), ["acquire name:a"]);
    drop(take(&ana, "a", Mode::Write).await);
}

/// The clock moves only from timer to timer: grant and timeout are due in one millisecond, in both
/// orders of the tasks.
#[tokio::test(start_paused = true)]
async fn a_timeout_in_the_instant_of_the_grant_leaves_no_phantom_holder() {
    let keeper = keeper().await;
    let (ana, bo) = (session(&keeper, "ana").await, session(&keeper, "bo").await);
    for releases_first in [true, false] {
        let guard = take(&ana, "a", Mode::Write).await;
        let release = async move {
            tokio::time::sleep(Duration::from_millis(1000)).await;
            drop(guard);
        };
        let resource = resource("a");
        let options = wait(1000);
        let asking = bo.acquire(&resource, Mode::Write, &options);
        let got = if releases_first {
            let ((), got) = tokio::join!(biased; release, asking);
            got
        } else {
            let (got, ()) = tokio::join!(biased; asking, release);
            got
        };
        match got {
            Ok(guard) => assert_eq!(held(&keeper).await, ["name:a write"], "{guard:?}"),
            Err(error) => assert_eq!(error.class(), Class::Busy),
        }
        assert_idle(&keeper).await;
    }
}

/// Repeats the race of grant and timeout with real threads and real time, over and over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grants_and_timeouts_that_meet_never_lose_or_double_the_lock() {
    let keeper = keeper().await;
    let (ana, bo) = (session(&keeper, "ana").await, session(&keeper, "bo").await);
    let inside = Arc::new(AtomicUsize::new(0));
    let (mut granted, mut late) = (0, 0);
    let began = Instant::now();
    let mut round = 0;
    while granted < 50 || late < 50 {
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "{granted} {late}"
        );
        round += 1;
        let guard = take(&ana, "a", Mode::Write).await;
        inside.fetch_add(1, Ordering::SeqCst);
        let (bo, inside_too) = (bo.clone(), inside.clone());
        let asking = tokio::spawn(async move {
            let got = bo.acquire(&resource("a"), Mode::Write, &wait(1)).await;
            if got.is_ok() {
                assert_eq!(inside_too.fetch_add(1, Ordering::SeqCst), 0, "two hold it");
                inside_too.fetch_sub(1, Ordering::SeqCst);
            }
            got.map(drop)
        });
        // The lock is held for about as long as the other session waits, a little more each round.
        let hold_for = Duration::from_micros(500 + round % 40 * 50);
        let since = Instant::now();
        while since.elapsed() < hold_for {
            tokio::task::yield_now().await;
        }
        inside.fetch_sub(1, Ordering::SeqCst);
        drop(guard);
        match asking.await.unwrap() {
            Ok(()) => granted += 1,
            Err(error) => {
                assert_eq!(error.class(), Class::Busy, "{error}");
                late += 1;
            }
        }
        assert_idle(&keeper).await;
    }
}
