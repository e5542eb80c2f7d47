//! Futures dropped at every await point leave neither lock nor waiter.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use tenure_core::decide::Wait;
use tenure_core::{Mode, Store, UpgradeRequest};
use tenure_os::clock;

use crate::scene::{Asks, Scene, WAIT_MAX, asker, request, take, until};

/// The moment at which a future is dropped.
#[derive(Debug, Clone, Copy)]
enum Moment {
    /// As soon as the future waits.
    Waiting,
    /// When the event it waited for has come, before the future can look.
    Ready,
}

const MOMENTS: [Moment; 2] = [Moment::Waiting, Moment::Ready];

/// Drops a future in its n-th wait. Returns its result if it has fewer waits.
async fn drop_in_wait<T>(n: usize, moment: Moment, future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    let mut waits = 0;
    poll_fn(|context| {
        if waits == n {
            return Poll::Ready(None);
        }
        if let Poll::Ready(result) = future.as_mut().poll(context) {
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

impl Scene {
    /// Waits until the lock has neither holder nor waiter, and an empty case grants it anew.
    async fn until_free(&self) {
        until("nobody holds and nobody waits", || {
            self.count("tenure.dal_locks") == "0" && self.count("tenure.waiters") == "0"
        })
        .await;
        let free = request("a", Mode::Write, WAIT_MAX);
        let lease = self
            .store
            .try_acquire(&free)
            .await
            .unwrap()
            .expect("it is free");
        self.store.release(&lease.lease).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acquire_of_what_is_free_dropped_at_every_await_point_leaves_nothing() {
    let scene = Scene::new().await;
    for moment in MOMENTS {
        let (mut n, mut tries) = (1, 0);
        loop {
            let asked = request("a", Mode::Write, WAIT_MAX);
            let done = drop_in_wait(n, moment, scene.store.wait_for(&asked)).await;
            let Some(lease) = done else {
                scene.until_free().await;
                n += 1;
                continue;
            };
            scene.store.release(&lease.unwrap().lease).await.unwrap();
            if n > 1 {
                break;
            }
            // The answer may be there before the future first asks for it.
            tries += 1;
            assert!(tries < 100, "{moment:?}: no wait was met");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_acquire_on_new_connections_dropped_at_every_await_point_leaves_nothing() {
    for n in 1..12 {
        let scene = Scene::new().await;
        let asked = request("a", Mode::Write, WAIT_MAX);
        let done = drop_in_wait(n, Moment::Ready, scene.store.wait_for(&asked)).await;
        if let Some(lease) = done {
            // On a busy machine an answer may be there before the future waits for it.
            assert!(n > 1, "it never waited");
            scene.store.release(&lease.unwrap().lease).await.unwrap();
            return;
        }
        scene.until_free().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acquire_of_what_is_held_dropped_at_every_await_point_leaves_nothing() {
    for moment in MOMENTS {
        let scene = Scene::new().await;
        let mut granted = 0;
        for n in 1..30 {
            let held = take(&scene.store, "a").await;
            let asked = request("a", Mode::Write, WAIT_MAX);
            let ended = AtomicBool::new(false);
            let dropped = async {
                let done = drop_in_wait(n, moment, scene.store.wait_for(&asked)).await;
                ended.store(true, Ordering::Relaxed);
                done
            };
            // The lock is released as soon as the request waits, so that the request is dropped in
            // every state, granted too.
            let release = async {
                until("it waits, or gave up", || {
                    ended.load(Ordering::Relaxed) || scene.count("tenure.waiters") == "1"
                })
                .await;
                scene.store.release(&held.lease).await.unwrap();
            };
            let (done, ()) = tokio::join!(dropped, release);
            if let Some(lease) = done {
                scene.store.release(&lease.unwrap().lease).await.unwrap();
                granted += 1;
            }
            scene.until_free().await;
            if granted == 2 {
                break;
            }
        }
        assert!(granted > 0, "{moment:?}: it was always dropped");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_try_dropped_at_every_await_point_leaves_nothing() {
    let scene = Scene::new().await;
    for moment in MOMENTS {
        for n in 1.. {
            let asked = request("a", Mode::Read, WAIT_MAX);
            let done = drop_in_wait(n, moment, scene.store.try_acquire(&asked)).await;
            if let Some(lease) = done {
                scene
                    .store
                    .release(&lease.unwrap().unwrap().lease)
                    .await
                    .unwrap();
                break;
            }
            scene.until_free().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_dropped_at_every_await_point_leaves_the_lease_as_it_was() {
    let scene = Scene::new().await;
    for waits in [false, true] {
        for moment in MOMENTS {
            for n in 1..40 {
                let asked = request("a", Mode::Upgradeable, WAIT_MAX);
                let lease = scene.store.wait_for(&asked).await.unwrap();
                let reader = request("a", Mode::Read, WAIT_MAX);
                let reader = match waits {
                    true => Some(scene.store.wait_for(&reader).await.unwrap()),
                    false => None,
                };
                let upgrade = UpgradeRequest {
                    standing: Default::default(),
                    lease: lease.lease.clone(),
                    asker: asker("ana"),
                    deadline: None,
                    wait: Wait::Until(clock::boot_now() + 15_000),
                };
                let upgraded = drop_in_wait(n, moment, scene.store.wait_for_upgrade(&upgrade));
                let leave = async {
                    if let Some(reader) = &reader {
                        scene.store.release(&reader.lease).await.unwrap();
                    }
                };
                let (done, ()) = tokio::join!(upgraded, leave);
                let mode = format!(
                    "SELECT mode FROM tenure.dal_locks WHERE lock_id = '{}'",
                    lease.lease
                );
                if let Some(token) = done {
                    assert!(token.unwrap() > lease.token);
                    assert_eq!(scene.database.psql(&mode), "write");
                    scene.store.release(&lease.lease).await.unwrap();
                    break;
                }
                until("nobody waits, and it is upgradeable", || {
                    scene.count("tenure.waiters") == "0"
                        && scene.database.psql(&mode) == "upgradeable"
                })
                .await;
                scene.store.release(&lease.lease).await.unwrap();
                scene.until_free().await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_dropped_at_every_await_point_still_releases() {
    let scene = Scene::new().await;
    for moment in MOMENTS {
        for n in 1.. {
            let lease = take(&scene.store, "a").await;
            let done = drop_in_wait(n, moment, scene.store.release(&lease.lease)).await;
            scene.until_free().await;
            if done.is_some() {
                break;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_asked_for_again_under_the_same_id_is_not_taken_back() {
    let scene = Scene::new().await;
    for n in 1..6 {
        let asked = request("a", Mode::Write, WAIT_MAX);
        drop(drop_in_wait(n, Moment::Waiting, scene.store.wait_for(&asked)).await);
        // The second request comes at once, while the clean-up after the drop goes on.
        let lease = scene.store.wait_for(&asked).await.unwrap();
        drop(
            scene
                .store
                .list(&tenure_core::Query::default())
                .await
                .unwrap(),
        );
        let left = scene.store.renew(&lease.lease).await.unwrap();
        assert!(left.is_some_and(|left| !left.is_zero()));
        scene.store.release(&lease.lease).await.unwrap();
        scene.until_free().await;
    }
}

/// The first request is dropped before its answer comes, and the second asks before that: the
/// second gets what was granted to the first.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_asked_for_again_before_the_first_answer_is_granted_once() {
    let scene = Scene::new().await;
    scene.until_free().await;
    let mut barrier = scene.database.session();
    barrier.run("BEGIN; SELECT 1 FROM tenure.resources FOR UPDATE");
    let held_up = |count: &str| {
        let sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                   AND wait_event_type = 'Lock'";
        scene.database.psql(sql) == count
    };
    let asked = request("a", Mode::Write, WAIT_MAX);
    tokio::select! {
        _ = scene.store.wait_for(&asked) => panic!("granted without its row"),
        () = until("the first is held up", || held_up("1")) => {}
    }
    let go_on = async {
        until("both are held up", || held_up("2")).await;
        barrier.run("COMMIT");
    };
    let (lease, ()) = tokio::join!(scene.store.wait_for(&asked), go_on);
    let lease = lease.unwrap();
    // The list comes once all clean-up has ended.
    let listed = scene.store.list(&tenure_core::Query::default()).await;
    assert_eq!(listed.unwrap().held.len(), 1);
    let record = format!(
        "SELECT string_agg(action, ' ' ORDER BY seq) FROM tenure.audit WHERE lock_id = '{}'",
        lease.lease
    );
    assert_eq!(scene.database.psql(&record), "acquire");
    scene.store.release(&lease.lease).await.unwrap();
    scene.until_free().await;
}
