//! Requests for leases that are dropped half-way, and sessions that end.

use tenure::{Class, Mode};

use super::*;
use crate::faulty_store::FaultyStore;

/// More polls than the call has await points; the loop checks that.
const POLLS_MAX: usize = 60;

#[tokio::test]
async fn a_lock_dropped_at_any_await_point_leaves_nothing_and_frees_its_key() {
    let database = Database::new().await;
    let (store, keeper) = FaultyStore::over(tenure::internal::store(&database.keeper).clone())
        .dawdle()
        .keep();
    let wanted = set(&[("a", Mode::Write), ("b", Mode::Read)]);
    let options = patient();
    let (mut done, mut dropped) = (0, 0);
    for polls in 0..POLLS_MAX {
        let (ana, key) = (session(&keeper, "ana").await, format!("k{polls}"));
        let terms = under(&key);
        let mut asking = Box::pin(keeper.lock(&ana, &wanted, &terms, &options));
        if let Some(locked) = poll_times(&mut asking, polls) {
            for lease in locked.unwrap().iter().rev() {
                database.keeper.release(&lease.lease, None).await.unwrap();
            }
            done += 1;
            continue;
        }
        drop(asking);
        dropped += 1;
        assert_idle(&database.keeper).await;
        // Another request comes under this key, from a session that outlives the first wait.
        let bo = session(&database.keeper, "ana").await;
        let other = set(&[("c", Mode::Write)]);
        let keeper = &database.keeper;
        let locked = keeper.lock(&bo, &other, &terms, &options).await;
        let locked = locked.unwrap_or_else(|error| panic!("after {polls} polls: {error}"));
        keeper.release(&locked[0].lease, None).await.unwrap();
        drop(ana);
    }
    // A call can be dropped before its first poll, and at two points in each of: the key, two
    // locks, the bind.
    assert!(done > 0 && dropped >= 9, "all points were met: {dropped}");
    assert!(store.count("forget_key") > 0);
}

#[tokio::test]
async fn a_session_is_ended_once_when_its_last_clone_and_guard_are_gone() {
    let (store, keeper) = FaultyStore::default().keep();
    let ana = session(&keeper, "ana").await;
    let ended = format!("end_session {}", ana.id());
    let clone = ana.clone();
    let guard = take(&ana, "a", Mode::Write).await;
    drop((ana, clone));
    assert_eq!(store.count("end_session"), 0, "a guard is left");
    drop(guard);
    let log = store.log();
    assert_eq!(log.last(), Some(&ended), "after the lock: {log:?}");
    assert_eq!(store.count("end_session"), 1);
}

#[tokio::test]
async fn what_is_left_of_a_session_that_ended_is_still_released_by_its_id() {
    let database = Database::new().await;
    let ana = session(&database.keeper, "ana").await;
    let lease = lock_one(&ana, "a", Mode::Write).await;
    drop(ana);
    let released = database.keeper.release(&lease.lease, None).await.unwrap();
    assert_eq!(released.lease, lease.lease);
    assert_idle(&database.keeper).await;
    let error = database.keeper.release(&lease.lease, None).await;
    assert_eq!(error.unwrap_err().class(), Class::NotAllowed);
}
