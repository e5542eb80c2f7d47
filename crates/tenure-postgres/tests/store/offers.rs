//! Offers, made and taken up by the statements in the schema. The process that gets an offer here
//! is seen and does nothing: the test takes the offer up, or does not.

use tenure_core::{LeaseId, Owner, Store};

use crate::scene::{Scene, take, until};

/// Takes up the offer of `first`, as its process would. Returns whether there was one.
const TAKE_UP: &str = "SELECT token IS NOT NULL FROM tenure.take_up('first', 'name:a')";

const ALONE: &str = "SELECT alone FROM tenure.resources";

/// Returns the row of a waiter of another process who wants to write, with a capacity and a
/// deadline in SQL.
fn waits(lease: &str, capacity: &str, deadline: &str) -> String {
    format!(
        "INSERT INTO tenure.waiters (lock_id, resource, want, mode, capacity, session, holder_session, process, owner, \
         since, deadline, ttl_ms, pid, host, command) VALUES ('{lease}', 'name:a', 'lease', 'write', {capacity}, \
         '{lease}', '{lease}', 'other', 'o', now(), {deadline}, 30000, 1, 'h', 'c')"
    )
}

/// Releases a lease with these waiters in line.
async fn released_with(scene: &Scene, line: &[String]) {
    let held = take(&scene.store, "a").await;
    scene.database.psql(&format!(
        "INSERT INTO tenure.processes VALUES ('other', clock_timestamp(), 1, 'h'); {}; \
         UPDATE tenure.resources SET alone = '{}+'",
        line.join("; "),
        held.lease
    ));
    scene.store.release(&held.lease).await.unwrap();
}

/// Makes a lease that is on offer to `first`, the only waiter.
async fn offered() -> Scene {
    let scene = Scene::new().await;
    released_with(&scene, &[waits("first", "NULL", "NULL")]).await;
    assert_eq!(state(&scene), "first offered");
    scene
}

fn state(scene: &Scene) -> String {
    let sql =
        "SELECT string_agg(lock_id || ' ' || state, ', ' ORDER BY lock_id) FROM tenure.dal_locks";
    scene.database.psql(sql)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_offer_that_was_broken_is_not_taken_up() {
    let scene = offered().await;
    let (first, admin) = (LeaseId::parse("first"), Owner::parse("admin"));
    let broken = scene
        .leases()
        .break_lease(&first.unwrap(), &admin.unwrap(), "stuck")
        .await;
    broken.unwrap();
    assert_eq!(scene.database.psql(TAKE_UP), "f");
    assert_eq!(state(&scene), "first revoking");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_offer_whose_time_is_over_is_not_taken_up() {
    let scene = offered().await;
    let over = "UPDATE tenure.dal_locks SET until = clock_timestamp() - interval '1 second'";
    scene.database.psql(over);
    assert_eq!(scene.database.psql(TAKE_UP), "f");
    assert_eq!(state(&scene), "first offered");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_offer_that_was_taken_up_is_not_taken_up_again() {
    let scene = offered().await;
    assert_eq!(scene.database.psql(TAKE_UP), "t");
    assert_eq!(scene.database.psql(ALONE), "first");
    assert_eq!(scene.database.psql(TAKE_UP), "f");
    assert_eq!(state(&scene), "first held");
}

/// A request that takes its place in line has the row of the resource. A read before its commit
/// would miss it.
#[tokio::test(flavor = "multi_thread")]
async fn who_takes_up_an_offer_sees_whoever_takes_a_place_in_line_meanwhile() {
    let scene = offered().await;
    let (mut barrier, mut taking) = (scene.database.session(), scene.database.session());
    barrier.run("BEGIN");
    barrier.run("SELECT 1 FROM tenure.resources FOR UPDATE");
    taking.send(TAKE_UP);
    until("it waits for the row", || {
        scene.count(
            "pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()",
        ) == "1"
    })
    .await;
    barrier.run(&waits("second", "NULL", "NULL"));
    barrier.run("COMMIT");
    assert_eq!(taking.answer(), "t");
    assert_eq!(scene.database.psql(ALONE), "first+");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_offer_never_stands_beyond_the_deadline_of_who_waited() {
    let scene = Scene::new().await;
    let soon = "clock_timestamp() + interval '4 seconds'";
    released_with(&scene, &[waits("first", "NULL", soon)]).await;
    assert_eq!(state(&scene), "first offered");
    let stands = "SELECT until - acquired_at <= interval '4 seconds' FROM tenure.dal_locks";
    assert_eq!(scene.database.psql(stands), "t");
}

/// A release makes an offer to more than the first in line.
#[tokio::test(flavor = "multi_thread")]
async fn a_release_serves_all_in_line_for_whom_there_is_a_slot() {
    let scene = Scene::new().await;
    let line = [waits("first", "1", "NULL"), waits("second", "9", "NULL")];
    released_with(&scene, &line).await;
    assert_eq!(state(&scene), "first offered, second offered");
    assert_eq!(scene.waiting(), 0);
}
