//! Upgrading by id: waiting, and the order of locks.

use tenure::{Error, Mode, OuterLease, SessionOptions};

use super::*;

#[tokio::test]
async fn an_upgrade_waits_for_the_readers_and_draws_a_higher_token() {
    let database = Database::new().await;
    let keeper = &database.keeper;
    let [ana, bo, cy] = ["ana", "bo", "cy"].map(|owner| session(keeper, owner));
    let (ana, bo, cy) = (ana.await, bo.await, cy.await);
    let lease = lock_one(&ana, "a", Mode::Upgradeable).await;
    let reader = take(&bo, "a", Mode::Read).await;

    for millis in [0, 50] {
        let wait = wait(millis).wait;
        let error = keeper.upgrade(&cy, &lease.lease, wait, None).await;
        let error = error.unwrap_err();
        assert_eq!(error.class(), tenure::Class::Busy, "{error}");
        let holders: Vec<_> = error.holders().iter().map(|held| &held.lease).collect();
        assert_eq!(holders, [&reader.lease().lease], "only who is in the way");
        assert_eq!(
            keeper.find(&lease.lease).await.unwrap().mode,
            Mode::Upgradeable
        );
    }
    let waits = patient().wait;
    let upgrade = keeper.upgrade(&cy, &lease.lease, waits, None);
    let leave = async {
        until("it is in line", async || waiting(keeper).await.len() == 1).await;
        drop(reader);
    };
    let (upgraded, ()) = tokio::join!(upgrade, leave);
    let upgraded = upgraded.unwrap();
    assert_eq!(
        (&upgraded.lease, upgraded.mode),
        (&lease.lease, Mode::Write)
    );
    assert!(upgraded.token > lease.token);
    assert_eq!(keeper.find(&lease.lease).await.unwrap(), upgraded);

    let after = keeper.downgrade(&lease.lease, None).await.unwrap();
    assert_eq!(
        (after.mode, after.token),
        (Mode::Upgradeable, upgraded.token)
    );
    assert_eq!(keeper.find(&lease.lease).await.unwrap().mode, after.mode);
    drop(take(&bo, "a", Mode::Read).await);
}

#[tokio::test]
async fn only_an_upgradeable_lease_is_upgraded() {
    let database = Database::new().await;
    let keeper = &database.keeper;
    let ana = session(keeper, "ana").await;
    for (name, mode) in [("a", Mode::Read), ("b", Mode::Write)] {
        let lease = lock_one(&ana, name, mode).await;
        let error = keeper.upgrade(&ana, &lease.lease, None, None).await;
        assert!(matches!(error.unwrap_err(), Error::Conflict { .. }));
    }
}

#[tokio::test]
async fn an_upgrade_is_out_of_order_while_its_taker_holds_something_later() {
    let database = Database::new().await;
    let keeper = &database.keeper;
    let (ana, bo) = (session(keeper, "ana").await, session(keeper, "bo").await);
    let wanted = set(&[("a", Mode::Upgradeable), ("b", Mode::Read)]);
    let leases = lock_set(&ana, &wanted, &terms(60_000)).await.unwrap();
    // The upgrade waits in a session of its own, but everything that the lease's session holds
    // still counts for the order.
    let error = keeper.upgrade(&bo, &leases[0].lease, None, None).await;
    match error.unwrap_err() {
        Error::Order { asked, held } => {
            assert_eq!((asked, held), (resource("a"), resource("b")));
        }
        error => panic!("{error}"),
    }
    keeper.release(&leases[1].lease, None).await.unwrap();
    let guard = take(&bo, "c", Mode::Read).await;
    let error = keeper.upgrade(&bo, &leases[0].lease, None, None).await;
    assert!(matches!(error.unwrap_err(), Error::Order { .. }));
    drop(guard);
    keeper
        .upgrade(&bo, &leases[0].lease, None, None)
        .await
        .unwrap();
}

#[tokio::test]
async fn an_upgrade_is_out_of_order_inside_a_run_that_holds_something_later() {
    let database = Database::new().await;
    let keeper = &database.keeper;
    let ana = session(keeper, "ana").await;
    let lease = lock_one(&ana, "a", Mode::Upgradeable).await;
    let outer = OuterLease::new(
        "file:/elsewhere",
        resource("b"),
        Mode::Read,
        lease.lease.clone(),
    );
    let options = SessionOptions::new(owner("ana")).with_ancestors(vec![outer]);
    let inner = keeper.session(options);
    let error = keeper.upgrade(&inner, &lease.lease, None, None).await;
    assert!(matches!(error.unwrap_err(), Error::Order { .. }));
}
