//! Taking a set and binding it.

use tenure::{Binding, Class, Error, LeaseState, Mode};

use super::*;
use crate::faulty_store::{FaultyStore, broken};

#[tokio::test]
async fn a_lease_stays_when_its_session_and_its_keeper_are_gone() {
    let database = Database::new().await;
    let lease = {
        let keeper = database.again().await;
        let ana = session(&keeper, "ana").await;
        lock_one(&ana, "a", Mode::Write).await
    };
    assert_eq!(lease.binding, Binding::Lease);
    assert!(lease.expires_at.is_some());
    let found = database.keeper.find(&lease.lease).await.unwrap();
    assert_eq!(found, lease);
    assert_eq!(found.state, LeaseState::Held);
    let bo = session(&database.keeper, "bo").await;
    let error = bo.acquire(&resource("a"), Mode::Read, &wait(0)).await;
    assert_eq!(error.unwrap_err().holders(), [lease]);
}

#[tokio::test]
async fn leases_come_in_the_order_they_are_taken() {
    let database = Database::new().await;
    let ana = session(&database.keeper, "ana").await;
    let wanted = set(&[
        ("z", Mode::Read),
        ("project:p", Mode::Write),
        ("b", Mode::Write),
    ]);
    let leases = lock_set(&ana, &wanted, &terms(1000)).await.unwrap();
    let taken: Vec<_> = leases.iter().map(|lease| lease.resource.as_str()).collect();
    assert_eq!(taken, ["project:p", "name:b", "name:z"]);
    let ends: Vec<_> = leases.iter().map(|lease| lease.expires_at).collect();
    assert!(ends.iter().all(|end| *end == ends[0]), "{ends:?}");
}

#[tokio::test]
async fn a_time_to_live_is_from_a_second_to_a_day() {
    let database = Database::new().await;
    let ana = session(&database.keeper, "ana").await;
    const DAY_MS: u64 = 24 * 60 * 60 * 1000;
    for ttl_ms in [0, 999, DAY_MS + 1] {
        let asked = lock_set(&ana, &set(&[("a", Mode::Write)]), &terms(ttl_ms)).await;
        assert_eq!(asked.unwrap_err().class(), Class::BadInput, "{ttl_ms}");
    }
    assert_idle(&database.keeper).await;
    for (name, ttl_ms) in [("a", 1000), ("b", DAY_MS)] {
        let locked = lock_set(&ana, &set(&[(name, Mode::Write)]), &terms(ttl_ms)).await;
        let lease = locked.unwrap().remove(0);
        let renewed = database.keeper.renew(&lease.lease, None, None).await;
        assert!(renewed.unwrap().expires_at >= lease.expires_at);
        let ttl = Some(Duration::from_millis(DAY_MS + 1));
        let error = database.keeper.renew(&lease.lease, ttl, None).await;
        assert_eq!(error.unwrap_err().class(), Class::BadInput);
    }
}

#[tokio::test]
async fn an_empty_set_and_a_session_of_another_keeper_are_refused() {
    let database = Database::new().await;
    let other = database.again().await;
    let (ana, bo) = (
        session(&database.keeper, "ana").await,
        session(&other, "bo").await,
    );
    let asked = lock_set(&ana, &set(&[]), &terms(1000)).await;
    assert_eq!(asked.unwrap_err().class(), Class::BadInput);
    let (wanted, options) = (set(&[("a", Mode::Write)]), Options::default());
    let keeper = &database.keeper;
    let asked = keeper.lock(&bo, &wanted, &terms(1000), &options).await;
    assert_eq!(asked.unwrap_err().class(), Class::BadInput);
}

#[tokio::test]
async fn a_set_that_cannot_be_had_whole_leaves_nothing_and_names_who_is_in_the_way() {
    let database = Database::new().await;
    let keeper = &database.keeper;
    let (ana, bo) = (session(keeper, "ana").await, session(keeper, "bo").await);
    let guard = take(&bo, "b", Mode::Write).await;
    let wanted = set(&[("a", Mode::Write), ("b", Mode::Write)]);
    for millis in [0, 50] {
        let asked = keeper
            .lock(&ana, &wanted, &terms(1000), &wait(millis))
            .await;
        let error = asked.unwrap_err();
        assert_eq!(error.class(), Class::Busy, "{error}");
        assert_eq!(error.holders().len(), 1);
        assert_eq!(error.holders()[0].lease, guard.lease().lease);
        assert_eq!(held(keeper).await, ["name:b write"]);
        assert!(waiting(keeper).await.is_empty());
    }
}

#[tokio::test]
async fn a_set_that_cannot_be_bound_leaves_nothing() {
    let database = Database::new().await;
    let (store, keeper) =
        FaultyStore::over(tenure::internal::store(&database.keeper).clone()).keep();
    let ana = session(&keeper, "ana").await;
    store.fail("bind", broken());
    let wanted = set(&[("a", Mode::Write), ("b", Mode::Read)]);
    let error = lock_set(&ana, &wanted, &terms(1000)).await.unwrap_err();
    assert_eq!(error.class(), broken().class());
    assert_idle(&database.keeper).await;
    lock_set(&ana, &wanted, &terms(1000)).await.unwrap();
}

#[tokio::test]
async fn a_session_counts_what_it_left_as_held_until_it_is_over() {
    let database = Database::new().await;
    let keeper = &database.keeper;
    let ana = session(keeper, "ana").await;
    let lease = lock_one(&ana, "b", Mode::Write).await;
    let (a, b, options) = (resource("a"), resource("b"), patient());

    let error = ana.acquire(&b, Mode::Read, &options).await.unwrap_err();
    assert!(matches!(error, Error::Reentry { .. }), "{error}");
    let tried = ana.try_acquire(&b, Mode::Read, &options).await;
    assert!(tried.unwrap().is_none());
    let error = ana.acquire(&a, Mode::Read, &options).await.unwrap_err();
    assert!(matches!(error, Error::Order { .. }), "{error}");
    let error = lock_set(&ana, &set(&[("a", Mode::Read)]), &terms(1000)).await;
    assert!(matches!(error.unwrap_err(), Error::Order { .. }));

    keeper.release(&lease.lease, None).await.unwrap();
    drop(ana.acquire(&a, Mode::Read, &options).await.unwrap());
    drop(ana.acquire(&b, Mode::Write, &options).await.unwrap());
}
