//! A copy takes the place of the database, with the rows of sessions that are alive.

use tenure::{LeaseState, Mode};

use crate::scene::{Scene, resource, session, take, until, until_in_line};

#[tokio::test(flavor = "multi_thread")]
async fn a_session_whose_row_is_in_the_copy_is_not_unknown() {
    let scene = Scene::new();
    let keeper = scene.keeper().await;
    let ana = session(&keeper, "ana").await;
    take(&ana, "a", Mode::Write).await.release().await.unwrap();
    assert_eq!(scene.rows("sessions"), 1);
    scene.replace_by_copy();
    let guard = take(&ana, "b", Mode::Write).await;
    let other = scene.keeper().await;
    let holders = other.holders(&resource("b")).await.unwrap();
    let states: Vec<_> = holders.iter().map(|lease| lease.state).collect();
    assert_eq!(states, [LeaseState::Held]);
    let mut zed = scene.process("zed");
    assert!(zed.try_take("b", Mode::Write).is_none());
    guard.release().await.unwrap();
    zed.take("b", Mode::Write);
}

/// The waiter's row names the file that proves it dead, which is not the file it began with.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_that_was_granted_in_the_copy_is_proved_dead_when_it_is_killed() {
    let scene = Scene::new();
    let keeper = scene.keeper().await;
    let mut ana = scene.process("ana");
    ana.take("a", Mode::Write);
    let mut bo = scene.process("bo");
    let wanted = bo.want("a", Mode::Write);
    until_in_line(&keeper, "bo").await;
    scene.replace_by_copy();
    // If ana lived on, every session would be kept out of the copy.
    ana.crash();
    let lease = bo.granted(wanted);
    let holders = keeper.holders(&resource("a")).await.unwrap();
    let seen: Vec<_> = holders
        .iter()
        .map(|held| (&held.lease, held.state))
        .collect();
    assert_eq!(seen, [(&lease.lease, LeaseState::Held)]);
    let mut zed = scene.process("zed");
    assert!(zed.try_take("a", Mode::Write).is_none());
    bo.crash();
    until("it is free", async || {
        zed.try_take("a", Mode::Write).is_some()
    })
    .await;
}
