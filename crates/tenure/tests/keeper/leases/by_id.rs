//! Changes to a lease by its id, and who may make them.

use tenure::{Class, Error, LeaseId, Mode};

use super::*;
use crate::faulty_store::{FaultyStore, passing};

/// Tries everything that changes a lease by its id, and returns the errors.
async fn change(keeper: &Keeper, lease: &LeaseId, by: Option<&Owner>) -> Vec<Error> {
    let helper = session(keeper, "helper").await;
    vec![
        keeper.renew(lease, None, by).await.unwrap_err(),
        keeper.upgrade(&helper, lease, None, by).await.unwrap_err(),
        keeper.downgrade(lease, by).await.unwrap_err(),
        keeper.release(lease, by).await.unwrap_err(),
    ]
}

#[tokio::test]
async fn renewing_moves_the_end_and_keeps_the_token() {
    let database = Database::new().await;
    let keeper = &database.keeper;
    let ana = session(keeper, "ana").await;
    let lease = lock_one(&ana, "a", Mode::Write).await;
    let ttl = Some(Duration::from_secs(3600));
    let renewed = keeper.renew(&lease.lease, ttl, Some(ana.owner())).await;
    let renewed = renewed.unwrap();
    assert_eq!((renewed.token, &renewed.lease), (lease.token, &lease.lease));
    let half_an_hour = lease.expires_at.unwrap().after(Duration::from_secs(1800));
    assert!(renewed.expires_at.unwrap() > half_an_hour);
    assert_eq!(keeper.find(&lease.lease).await.unwrap(), renewed);
    let again = keeper.renew(&lease.lease, None, None).await.unwrap();
    assert!(
        again.expires_at.unwrap() > half_an_hour,
        "as long as the last time"
    );
}

#[tokio::test]
async fn another_owner_is_refused_and_no_owner_at_all_suffices() {
    let database = Database::new().await;
    let keeper = &database.keeper;
    let ana = session(keeper, "ana").await;
    let lease = lock_one(&ana, "a", Mode::Upgradeable).await;
    for error in change(keeper, &lease.lease, Some(&owner("bo"))).await {
        assert!(matches!(error, Error::NotAllowed { .. }), "{error}");
        assert!(error.to_string().contains("it belongs to ana"), "{error}");
    }
    assert_eq!(keeper.find(&lease.lease).await.unwrap(), lease);
    let bo = session(keeper, "bo").await;
    keeper.renew(&lease.lease, None, None).await.unwrap();
    keeper.upgrade(&bo, &lease.lease, None, None).await.unwrap();
    keeper.downgrade(&lease.lease, None).await.unwrap();
    keeper.release(&lease.lease, None).await.unwrap();
    assert_idle(keeper).await;
}

#[tokio::test]
async fn a_downgrade_by_id_whose_first_answer_was_lost_is_done() {
    let database = Database::new().await;
    let (store, keeper) =
        FaultyStore::over(tenure::internal::store(&database.keeper).clone()).keep();
    let ana = session(&keeper, "ana").await;
    let lease = lock_one(&ana, "a", Mode::Upgradeable).await;
    keeper
        .upgrade(&ana, &lease.lease, None, None)
        .await
        .unwrap();
    store.lose_downgrade(passing());
    let after = keeper.downgrade(&lease.lease, None).await.unwrap();
    assert_eq!(after.mode, Mode::Upgradeable);
    assert_eq!(held(&keeper).await, ["name:a upgradeable"]);
    let error = keeper.downgrade(&lease.lease, None).await.unwrap_err();
    assert_eq!(error.class(), Class::Conflict, "{error}");
    keeper.release(&lease.lease, None).await.unwrap();
}

#[tokio::test]
async fn what_is_bound_to_a_session_is_found_but_changed_by_nobody_else() {
    let database = Database::new().await;
    let keeper = &database.keeper;
    let ana = session(keeper, "ana").await;
    let guard = take(&ana, "a", Mode::Upgradeable).await;
    let lease = guard.lease();
    for by in [None, Some(ana.owner())] {
        for error in change(keeper, &lease.lease, by).await {
            assert!(matches!(error, Error::NotAllowed { .. }), "{error}");
            assert!(
                error.remedy().to_string().contains("break lease="),
                "{error}"
            );
        }
    }
    let found = keeper.find(&lease.lease).await.unwrap();
    assert_eq!((found.lease, found.mode), (lease.lease, Mode::Upgradeable));
}

#[tokio::test]
async fn an_unknown_lease_is_told_apart_from_one_that_is_over() {
    let database = Database::new().await;
    let keeper = &database.keeper;
    let unknown = LeaseId::parse("nobody-took-this").unwrap();
    for error in change(keeper, &unknown, None).await {
        assert_eq!(error.class(), Class::NotFound, "{error}");
    }
    let error = keeper.find(&unknown).await.unwrap_err();
    assert_eq!(error.class(), Class::NotFound, "{error}");

    let ana = session(keeper, "ana").await;
    let lease = lock_one(&ana, "a", Mode::Upgradeable).await;
    keeper.release(&lease.lease, None).await.unwrap();
    let mut errors = change(keeper, &lease.lease, None).await;
    errors.push(keeper.find(&lease.lease).await.unwrap_err());
    for error in errors {
        assert!(matches!(error, Error::LeaseOver { .. }), "{error}");
        assert_eq!(error.class(), Class::NotAllowed);
    }
}
