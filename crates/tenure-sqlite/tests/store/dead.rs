//! The rows and files of sessions that were killed.

use tenure::leases::Recovery;
use tenure::{Keeper, Mode, Owner};

use crate::scene::{Scene, held, session, take, until_in_line};

/// Recovers once, and returns the number of leases recovered.
async fn recover(keeper: &Keeper) -> usize {
    let ana = Owner::parse("ana").unwrap();
    let found = keeper.recover(&ana, Recovery::Real).await.unwrap();
    found.iter().filter(|finding| finding.recovered).count()
}

/// Asserts that nothing is left in the database, nor beside it.
fn assert_nothing_is_left(scene: &Scene) {
    for table in ["dal_locks", "waiters", "sessions"] {
        assert_eq!(scene.rows(table), 0, "{table}");
    }
    for folder in ["sessions", "wake"] {
        assert_eq!(scene.names(folder), [] as [&str; 0], "{folder}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn after_holders_and_waiters_were_killed_recover_leaves_neither_rows_nor_files_nor_pipes() {
    let scene = Scene::new();
    let keeper = scene.keeper().await;
    let mut bo = scene.process("bo");
    let mut cy = scene.process("cy");
    let mut di = scene.process("di");
    bo.take("a", Mode::Write);
    bo.take("b", Mode::Read);
    for waiter in [&mut cy, &mut di] {
        let _wanted = waiter.want("a", Mode::Write);
        until_in_line(&keeper, waiter.owner()).await;
    }
    // The waiters are killed first: otherwise they would be granted the lock.
    di.crash();
    cy.crash();
    bo.crash();
    assert_eq!(scene.rows("sessions"), 3);
    assert_eq!(scene.names("wake").len(), 2);
    assert_eq!(recover(&keeper).await, 2);
    assert_nothing_is_left(&scene);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_waiter_for_what_is_held_is_gone_from_the_line_after_recover() {
    let scene = Scene::new();
    let keeper = scene.keeper().await;
    let ana = session(&keeper, "ana").await;
    let guard = take(&ana, "a", Mode::Write).await;
    let mut bo = scene.process("bo");
    let _wanted = bo.want("a", Mode::Write);
    until_in_line(&keeper, "bo").await;
    bo.crash();
    assert_eq!(recover(&keeper).await, 0, "its holder is alive");
    assert_eq!(scene.rows("waiters"), 0);
    assert_eq!(scene.names("wake"), [] as [&str; 0]);
    assert_eq!(scene.names("sessions"), [ana.id().as_str()]);
    assert_eq!(held(&keeper).await, ["ana name:a write"]);
    guard.release().await.unwrap();
    drop(ana);
    assert_nothing_is_left(&scene);
}
