//! Recovery, break and audit.

use tenure::audit::{Action, AuditQuery};
use tenure::leases::Recovery;
use tenure::{Automated, Class, Error, GuardState, LeaseId, LeaseState, Mode, Settings};

use super::*;

#[tokio::test]
async fn a_dry_run_only_tells_and_recovery_takes_what_is_stale() {
    let database = Database::new().await;
    let keeper = &database.keeper;
    let (ana, bo) = (session(keeper, "ana").await, owner("bo"));
    let stale = lock_set(&ana, &set(&[("a", Mode::Write)]), &terms(1000)).await;
    let stale = stale.unwrap().remove(0);
    let fresh = lock_one(&ana, "b", Mode::Write).await;
    until("it is stale", async || {
        let found = keeper.recover(&bo, Recovery::DryRun).await.unwrap();
        found.iter().any(|finding| finding.recoverable)
    })
    .await;
    assert_eq!(
        keeper.find(&stale.lease).await.unwrap().state,
        LeaseState::Expired
    );

    let found = keeper.recover(&bo, Recovery::Real).await;
    let found = found.unwrap();
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].lease.lease, stale.lease);
    assert!(found[0].expired && found[0].heartbeat_old && found[0].recovered);
    let error = keeper.renew(&stale.lease, None, None).await.unwrap_err();
    assert!(matches!(error, Error::LeaseOver { .. }), "{error}");
    keeper.renew(&fresh.lease, None, None).await.unwrap();

    let query = AuditQuery::default().with_resource(resource("a"));
    let entries = keeper.audit(&query).await.unwrap().entries;
    let last = entries.last().unwrap();
    assert_eq!(
        (last.action, last.lease.as_ref()),
        (Action::Recover, Some(&stale.lease))
    );
    assert_eq!((&last.owner, &last.actor), (ana.owner(), &bo));
}

#[tokio::test]
async fn a_broken_lock_is_lost_to_its_guard_with_who_and_why() {
    let database = Database::new().await;
    let keeper = &database.keeper;
    let ana = session(keeper, "ana").await;
    let guard = take(&ana, "a", Mode::Write).await;
    let lease = guard.lease().lease;
    let other = database.again().await;
    let broken = other.break_lease(&lease, &owner("bo"), "host hangs").await;
    assert_eq!(broken.unwrap().state, LeaseState::Revoking);

    let lost = tokio::time::timeout(Duration::from_secs(8), guard.lost()).await;
    let lost = lost.unwrap();
    assert!(matches!(lost, Error::Lost { .. }), "{lost}");
    let message = lost.to_string();
    assert!(
        message.contains("bo") && message.contains("host hangs"),
        "{message}"
    );
    assert_eq!(guard.state(), GuardState::Lost);
    // Dropping the guard confirms the stop, so the next holder need not wait for ten seconds.
    drop(guard);
    let cy = session(&other, "cy").await;
    drop(
        cy.acquire(&resource("a"), Mode::Write, &wait(5000))
            .await
            .unwrap(),
    );
}

#[tokio::test]
async fn only_people_break_and_they_say_why() {
    let database = Database::new().await;
    let settings = Settings::default().with_automated(Automated::new(["ci:*".into()]).unwrap());
    let other = Keeper::from_store(tenure::internal::store(&database.keeper).clone(), settings);
    let keeper = &database.keeper;
    let ana = session(keeper, "ana").await;
    let lease = lock_one(&ana, "a", Mode::Write).await.lease;
    for (keeper, automated) in [(keeper, "agent:42"), (keeper, "job:7"), (&other, "ci:3")] {
        let error = keeper.break_lease(&lease, &owner(automated), "why").await;
        let error = error.unwrap_err();
        assert!(matches!(error, Error::NotAllowed { .. }), "{error}");
        assert!(error.to_string().contains(automated), "{error}");
    }
    let too_long = "x".repeat(501);
    for reason in ["", " ", "two\nlines", &too_long] {
        let error = keeper.break_lease(&lease, &owner("bo"), reason).await;
        assert_eq!(error.unwrap_err().class(), Class::BadInput, "{reason:?}");
    }
    assert_eq!(keeper.find(&lease).await.unwrap().state, LeaseState::Held);
    let broken = other.break_lease(&lease, &owner("agent:42"), "why").await;
    assert_eq!(broken.unwrap().state, LeaseState::Revoking);
}

#[tokio::test]
async fn what_is_unknown_or_over_cannot_be_broken() {
    let database = Database::new().await;
    let keeper = &database.keeper;
    let bo = owner("bo");
    let unknown = LeaseId::parse("nobody-took-this").unwrap();
    let error = keeper.break_lease(&unknown, &bo, "why").await.unwrap_err();
    assert_eq!(error.class(), Class::NotFound, "{error}");
    let ana = session(keeper, "ana").await;
    let lease = lock_one(&ana, "a", Mode::Write).await.lease;
    keeper.release(&lease, None).await.unwrap();
    let error = keeper.break_lease(&lease, &bo, "why").await.unwrap_err();
    assert!(matches!(error, Error::LeaseOver { .. }), "{error}");
}

#[tokio::test]
async fn the_audit_tells_who_did_what_in_order_and_in_pages() {
    let database = Database::new().await;
    let keeper = &database.keeper;
    let ana = session(keeper, "ana").await;
    let lease = lock_one(&ana, "a", Mode::Upgradeable).await.lease;
    keeper.upgrade(&ana, &lease, None, None).await.unwrap();
    keeper.downgrade(&lease, None).await.unwrap();
    keeper.release(&lease, None).await.unwrap();
    let mut query = AuditQuery::default()
        .with_resource(resource("a"))
        .with_limit(3);
    let mut actions = Vec::new();
    loop {
        let page = keeper.audit(&query).await.unwrap();
        assert!(page.entries.len() <= 3);
        actions.extend(page.entries.into_iter().map(|entry| entry.action));
        match page.next {
            Some(next) => query.after = Some(next),
            None => break,
        }
    }
    let expected = [
        Action::Acquire,
        Action::Upgrade,
        Action::Downgrade,
        Action::Release,
    ];
    assert_eq!(actions, expected);
}
