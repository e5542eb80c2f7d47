//! An upgrade given up while the database is busy.

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tenure::{Error, Mode};

use crate::scene::{DEADLINE, Scene, held, session, take, try_take, until, until_nobody_waits};

/// The state of the upgrade when it is given up.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Meanwhile {
    Waits,
    Granted,
}

async fn assert_undone(meanwhile: Meanwhile) {
    let scene = Scene::new();
    let keeper = scene.keeper().await;
    let ana = session(&keeper, "ana").await;
    let mut bo = scene.process("bo");
    bo.take("a", Mode::Read);
    let mut guard = take(&ana, "a", Mode::Upgradeable).await;
    let busy = {
        // The future is polled by hand, so that it reacts to nothing but these polls.
        let mut upgrading = pin!(guard.upgrade(Some(DEADLINE)));
        until("the upgrade is in line", async || {
            let mut context = Context::from_waker(Waker::noop());
            let polled = upgrading.as_mut().poll(&mut context);
            assert!(matches!(polled, Poll::Pending), "{polled:?}");
            scene.rows("waiters") == 1
        })
        .await;
        if meanwhile == Meanwhile::Granted {
            bo.release("a");
            assert_eq!(held(&keeper).await, ["ana name:a write"]);
        }
        scene.busy()
    };
    assert_eq!(guard.mode(), Mode::Upgradeable);
    drop(busy);
    until("it is undone", async || {
        scene.rows("waiters") == 0
            && held(&keeper)
                .await
                .contains(&"ana name:a upgradeable".into())
    })
    .await;
    // New readers are let in, and a reader keeps the lock from being upgraded.
    let mut cy = scene.process("cy");
    cy.take("a", Mode::Read);
    assert!(guard.try_upgrade().await.unwrap().is_none());
    cy.release("a");
    if meanwhile == Meanwhile::Waits {
        bo.release("a");
    }
    until_nobody_waits(&keeper).await;
    assert!(guard.try_upgrade().await.unwrap().is_some());
    drop(guard);
    assert!(try_take(&ana, "a", Mode::Write).await.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_given_up_while_the_database_is_busy_leaves_the_line() {
    assert_undone(Meanwhile::Waits).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_granted_and_given_up_while_the_database_is_busy_is_undone() {
    assert_undone(Meanwhile::Granted).await;
}

/// Returns true if a thread of this process still does pending clean-up.
fn is_cleanup_pending() -> bool {
    let threads = std::fs::read_dir("/proc/self/task").unwrap();
    let names = threads.filter_map(|thread| {
        // A thread that ends meanwhile has no name.
        std::fs::read_to_string(thread.ok()?.path().join("comm")).ok()
    });
    names
        .into_iter()
        .any(|name| name.trim() == "tenure-cleanup")
}

/// The first upgrade ran out of time while the database was busy, and its clean-up is still pending
/// when the second is granted: the second stays.
#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_asked_for_again_is_not_undone_with_the_one_that_was_given_up() {
    let scene = Scene::new();
    let keeper = scene.keeper().await;
    let ana = session(&keeper, "ana").await;
    let mut bo = scene.process("bo");
    bo.take("a", Mode::Read);
    let mut guard = take(&ana, "a", Mode::Upgradeable).await;
    let asking = tokio::spawn(async move {
        let first = guard.upgrade(Some(Duration::from_millis(500))).await;
        (guard, first)
    });
    until("the upgrade is in line", async || {
        scene.rows("waiters") == 1
    })
    .await;
    let busy = scene.busy();
    let (mut guard, first) = asking.await.unwrap();
    assert!(matches!(first, Err(Error::Timeout { .. })), "{first:?}");
    drop(busy);
    bo.release("a");
    let token = guard.upgrade(Some(DEADLINE)).await.unwrap();
    until("no clean-up is pending", async || !is_cleanup_pending()).await;
    assert_eq!(held(&keeper).await, ["ana name:a write"]);
    assert!(bo.try_take("a", Mode::Read).is_none());
    assert_eq!((guard.mode(), guard.token()), (Mode::Write, token));
}
