//! A long-lived process does not answer from a database that is gone.

use std::time::Duration;

use tenure::leases::LeaseTerms;
use tenure::{Error, Keeper, Lease, LockSet, Mode, Options, Ranking};

use crate::scene::{Scene, resource, session};

/// A keeper takes a lease of its own; then the database is deleted, and another process takes the
/// resource in the new one. Returns the keeper, its lease, and the new lease.
async fn left_behind(scene: &Scene) -> (Keeper, Lease, Lease) {
    let keeper = scene.keeper().await;
    let ana = session(&keeper, "ana").await;
    let set = LockSet::new(&Ranking::default(), [(resource("a"), Mode::Write)]);
    let (terms, options) = (LeaseTerms::default(), Options::default());
    let locked = keeper.lock(&ana, &set, &terms, &options).await;
    let old = locked.unwrap().remove(0);
    drop(ana);
    scene.delete_database();
    let hour = Duration::from_secs(3600);
    let new = scene.process("bo").lock("a", Mode::Write, hour);
    assert!(new.token > old.token, "{new:?} after {old:?}");
    (keeper, old, new)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_of_a_deleted_database_is_fenced_by_a_grant_in_the_new_one() {
    let scene = Scene::new();
    let (keeper, old, new) = left_behind(&scene).await;
    let checked = keeper.check(&resource("a"), old.token).await;
    assert!(
        matches!(checked, Err(Error::NotAllowed { .. })),
        "{checked:?}"
    );
    keeper.check(&resource("a"), new.token).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_of_a_deleted_database_is_not_renewed() {
    let scene = Scene::new();
    let (keeper, old, new) = left_behind(&scene).await;
    let renewed = keeper.renew(&old.lease, None, None).await;
    assert!(
        matches!(
            renewed,
            Err(Error::NotFound { .. } | Error::LeaseOver { .. })
        ),
        "{renewed:?}"
    );
    let renewed = keeper.renew(&new.lease, None, None).await.unwrap();
    assert_eq!(renewed.token, new.token);
}

#[tokio::test(flavor = "multi_thread")]
async fn those_who_hold_are_told_from_the_new_database() {
    let scene = Scene::new();
    let (keeper, _, new) = left_behind(&scene).await;
    let holders = keeper.holders(&resource("a")).await.unwrap();
    assert_eq!(holders, [new]);
}
