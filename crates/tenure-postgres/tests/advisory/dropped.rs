//! Futures dropped at every await point: the lock is free afterwards, and the pool whole.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use tenure_postgres::advisory::Settings;

use crate::scene::{AGENT, Scene, WAIT_MAX, until};

/// The moment at which a future is dropped.
#[derive(Debug, Clone, Copy)]
enum Moment {
    /// As soon as the future waits.
    Waiting,
    /// When the event it waited for has come, before the future can look.
    Ready,
}

/// Drops a future in its n-th wait. Returns its result if it has fewer waits.
async fn drop_in_wait<T>(n: usize, moment: Moment, future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    let mut waits = 0;
    poll_fn(|context| {
        if waits == n {
            return Poll::Ready(None);
        }
        let polled = future.as_mut().poll(context);
        if let Poll::Ready(result) = polled {
            return Poll::Ready(Some(result));
        }
        waits += 1;
        match (waits == n, moment) {
            (true, Moment::Waiting) => Poll::Ready(None),
            _ => Poll::Pending,
        }
    })
    .await
}

async fn small() -> Scene {
    let settings = Settings::default().with_pool(2).with_overflow(1);
    Scene::with(settings).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acquire_dropped_at_every_await_point_leaves_nothing() {
    for moment in [Moment::Waiting, Moment::Ready] {
        for shared in [false, true] {
            let mut n = 1;
            loop {
                // Each turn takes a new service whose first connection is in use, so that it meets
                // every wait of opening a connection.
                let scene = small().await;
                let other = scene.locks.lock(AGENT, 2, WAIT_MAX).await.unwrap();
                let done = match shared {
                    true => {
                        let lock = scene.locks.lock_shared(AGENT, 1, WAIT_MAX);
                        drop_in_wait(n, moment, lock).await.is_some()
                    }
                    false => {
                        let lock = scene.locks.lock(AGENT, 1, WAIT_MAX);
                        drop_in_wait(n, moment, lock).await.is_some()
                    }
                };
                other.release().await.unwrap();
                scene.until_free(AGENT, 1).await;
                scene.until_whole(3).await;
                if done {
                    assert!(n > 3, "{moment:?}: only {n} waits were met");
                    break;
                }
                n += 1;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acquire_on_a_kept_connection_dropped_at_every_await_point_leaves_nothing() {
    let scene = small().await;
    for moment in [Moment::Waiting, Moment::Ready] {
        for n in 1.. {
            let guard = scene.locks.lock(AGENT, 1, WAIT_MAX).await.unwrap();
            guard.release().await.unwrap();
            let lock = scene.locks.lock(AGENT, 1, WAIT_MAX);
            let done = drop_in_wait(n, moment, lock).await.is_some();
            scene.until_free(AGENT, 1).await;
            scene.until_whole(3).await;
            if done {
                break;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_for_a_held_lock_that_is_dropped_is_over_at_the_server_too() {
    let scene = small().await;
    let mut holder = scene.database.session();
    holder.run("SELECT pg_advisory_lock(1, 1)");
    for _ in 0..5 {
        let locks = scene.locks.clone();
        let waiting = tokio::spawn(async move { locks.lock(AGENT, 1, WAIT_MAX * 4).await });
        until("it waits", || scene.entries(false) == 1).await;
        waiting.abort();
        assert!(waiting.await.unwrap_err().is_cancelled());
        until("nobody waits", || scene.entries(false) == 0).await;
        scene.until_whole(3).await;
    }
    holder.run("SELECT pg_advisory_unlock(1, 1)");
    assert!(scene.is_free(AGENT, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_dropped_in_the_instant_of_the_grant_gives_the_lock_on() {
    let scene = small().await;
    for round in 0..40 {
        let holder = scene.locks.lock(AGENT, 1, WAIT_MAX).await.unwrap();
        let locks = scene.locks.clone();
        let waiting = tokio::spawn(async move { locks.lock(AGENT, 1, WAIT_MAX).await });
        until("it waits", || scene.entries(false) == 1).await;
        let releasing = tokio::spawn(holder.release());
        // The drop comes in some rounds before the release has reached the server, and in some
        // after the grant has come back.
        let moment = Instant::now() + Duration::from_micros(25) * round;
        while Instant::now() < moment {
            std::hint::spin_loop();
        }
        waiting.abort();
        releasing.await.unwrap().unwrap();
        drop(waiting.await);
        let next = scene.locks.lock(AGENT, 1, WAIT_MAX).await.unwrap();
        next.release().await.unwrap();
    }
    scene.until_whole(3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_dropped_at_every_await_point_still_releases() {
    let scene = small().await;
    for moment in [Moment::Waiting, Moment::Ready] {
        for n in 1.. {
            let guard = scene.locks.lock(AGENT, 1, WAIT_MAX).await.unwrap();
            let done = drop_in_wait(n, moment, guard.release()).await.is_some();
            scene.until_free(AGENT, 1).await;
            scene.until_whole(3).await;
            if done {
                break;
            }
        }
    }
}

#[test]
fn a_runtime_that_ends_frees_its_locks() {
    let runtime = || tokio::runtime::Runtime::new().unwrap();
    let first = runtime();
    let scene = first.block_on(small());
    let guard = first
        .block_on(scene.locks.lock(AGENT, 1, WAIT_MAX))
        .unwrap();
    assert!(!scene.is_free(AGENT, 1));
    drop(first);
    drop(guard);
    runtime().block_on(scene.until_free(AGENT, 1));
}
