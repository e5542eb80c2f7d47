//! Locks that a session is granted in a database that replaced its first.

use std::time::Duration;

use tenure::leases::Recovery;
use tenure::{Error, Guard, GuardState, Keeper, LeaseState, Mode, Owner, Session};

use crate::scene::{DEADLINE, Scene, acquire, resource, session, take};

/// Asserts that another process neither gets the lock nor finds anything to recover.
async fn assert_kept_from_others(scene: &Scene, guard: &Guard) {
    let mut zed = scene.process("zed");
    let name = guard.resource().to_string();
    assert!(zed.try_take(&name, Mode::Write).is_none(), "{name}");
    let other = scene.keeper().await;
    let actor = Owner::parse("zed").unwrap();
    let recovered = other.recover(&actor, Recovery::Real).await.unwrap();
    assert!(
        recovered.iter().all(|found| !found.recovered),
        "{recovered:?}"
    );
    assert!(zed.try_take(&name, Mode::Write).is_none(), "{name}");
    guard.renew().await.unwrap();
    assert_eq!(guard.state(), GuardState::Held);
}

/// Returns the states of a resource's leases as another process sees them.
async fn seen_by_others(scene: &Scene, name: &str) -> Vec<LeaseState> {
    let other = scene.keeper().await;
    let holders = other.holders(&resource(name)).await.unwrap();
    holders.iter().map(|lease| lease.state).collect()
}

async fn begin(scene: &Scene) -> (Keeper, Session) {
    let keeper = scene.keeper().await;
    let ana = session(&keeper, "ana").await;
    (keeper, ana)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_whose_database_was_deleted_keeps_what_it_is_granted_in_the_new_one() {
    let scene = Scene::new();
    let (_keeper, ana) = begin(&scene).await;
    take(&ana, "a", Mode::Write).await.release().await.unwrap();
    scene.delete_database();
    let guard = take(&ana, "b", Mode::Write).await;
    assert_kept_from_others(&scene, &guard).await;
    assert_eq!(seen_by_others(&scene, "b").await, [LeaseState::Held]);
    guard.release().await.unwrap();
    scene.process("zed").take("b", Mode::Write);
}

/// The lock that the session held is lost. The session can be granted another only when it gives up
/// the lost one: until then other sessions cannot tell whether it has noticed.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_lost_a_lock_with_its_database_keeps_what_it_is_granted_in_the_new_one() {
    let scene = Scene::new();
    let (_keeper, ana) = begin(&scene).await;
    let lost = take(&ana, "a", Mode::Write).await;
    scene.delete_database();
    let loss = tokio::time::timeout(DEADLINE, lost.lost()).await.unwrap();
    assert!(matches!(loss, Error::Lost { .. }), "{loss:?}");
    drop(lost);
    let guard = take(&ana, "b", Mode::Write).await;
    assert_kept_from_others(&scene, &guard).await;
    assert_eq!(seen_by_others(&scene, "b").await, [LeaseState::Held]);
}

#[tokio::test(flavor = "multi_thread")]
async fn while_a_lock_of_the_deleted_database_is_in_hand_nothing_is_granted_in_the_new_one() {
    let scene = Scene::new();
    let (keeper, ana) = begin(&scene).await;
    let bo = session(&keeper, "bo").await;
    let _lost = take(&ana, "a", Mode::Write).await;
    scene.delete_database();
    let newcomer = session(&scene.keeper().await, "cy").await;
    for session in [&ana, &bo, &newcomer] {
        let brief = Duration::from_millis(300);
        let asked = acquire(session, "b", Mode::Write, brief).await;
        let refused = asked.unwrap_err();
        assert!(refused.to_string().contains("replaced"), "{refused}");
    }
}

/// With the folder of the sessions gone, no process can prove the session alive or dead.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_whose_store_was_deleted_whole_keeps_what_it_is_granted_in_the_new_one() {
    let scene = Scene::new();
    let (_keeper, ana) = begin(&scene).await;
    let lost = take(&ana, "a", Mode::Write).await;
    scene.delete_all();
    // The session has not noticed yet that it lost anything.
    let early = take(&ana, "b", Mode::Write).await;
    assert_kept_from_others(&scene, &early).await;
    let loss = tokio::time::timeout(DEADLINE, lost.lost()).await.unwrap();
    assert!(matches!(loss, Error::Lost { .. }), "{loss:?}");
    drop(lost);
    let late = take(&ana, "c", Mode::Write).await;
    for guard in [&early, &late] {
        assert_kept_from_others(&scene, guard).await;
    }
}
