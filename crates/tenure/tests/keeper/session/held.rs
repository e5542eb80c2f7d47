//! Re-entry and order.

use tenure::{Error, LeaseId, Mode, Options, OuterLease, Owner, Session, SessionOptions};

use crate::scene::*;

async fn refused(session: &Session, text: &str) -> Error {
    let resource = resource(text);
    let asked = session.acquire(&resource, Mode::Read, &patient()).await;
    asked.unwrap_err()
}

fn is_order(error: &Error, asked_before: &str, held_later: &str) -> bool {
    matches!(error, Error::Order { asked, held }
        if *asked == resource(asked_before) && *held == resource(held_later))
}

#[tokio::test]
async fn acquire_of_what_is_held_errors_at_once_and_the_outer_lock_stays() {
    let keeper = keeper().await;
    let ana = session(&keeper, "ana").await;
    for outer_mode in Mode::ALL {
        let outer = take(&ana, "a", outer_mode).await;
        let error = refused(&ana, "a").await;
        let Error::Reentry { lease, context } = error else {
            panic!("{error}");
        };
        assert_eq!(lease, outer.lease().lease);
        assert_eq!(context.resource, resource("a"));
        assert_eq!(held(&keeper).await, [format!("name:a {outer_mode}")]);
    }
}

#[tokio::test]
async fn try_acquire_of_what_is_held_answers_not_acquired_and_the_outer_lock_stays() {
    let keeper = keeper().await;
    let ana = session(&keeper, "ana").await;
    let outer = take(&ana, "a", Mode::Read).await;
    let options = Options::default();
    let inner = ana.try_acquire(&resource("a"), Mode::Read, &options).await;
    assert!(inner.unwrap().is_none());
    let inner = ana
        .try_acquire_many(&set(&[("a", Mode::Read), ("b", Mode::Read)]), &options)
        .await;
    assert!(inner.unwrap().is_none());
    assert_eq!(held(&keeper).await, ["name:a read"]);
    drop(outer);
}

#[tokio::test]
async fn two_sessions_of_one_owner_contend() {
    let keeper = keeper().await;
    let (one, two) = (session(&keeper, "ana").await, session(&keeper, "ana").await);
    let guard = take(&one, "a", Mode::Write).await;
    let asked = two.acquire(&resource("a"), Mode::Write, &wait(0)).await;
    assert!(matches!(asked, Err(Error::Busy { .. })), "{asked:?}");
    drop(guard);
    drop(take(&two, "a", Mode::Write).await);
}

#[tokio::test]
async fn what_is_awaited_counts_for_re_entry() {
    let keeper = keeper().await;
    let (ana, bo) = (session(&keeper, "ana").await, session(&keeper, "bo").await);
    let guard = take(&bo, "a", Mode::Write).await;
    let asking = ask(&ana, "a", Mode::Read).await;
    let error = refused(&ana, "a").await;
    assert!(matches!(error, Error::Reentry { .. }), "{error}");
    drop(guard);
    drop(asking.await.unwrap().unwrap());
    assert_idle(&keeper).await;
}

#[tokio::test]
async fn asking_before_what_is_held_is_an_order_error_naming_both() {
    let keeper = keeper().await;
    let ana = session(&keeper, "ana").await;
    let later = take(&ana, "map:atlas/m3", Mode::Read).await;
    let error = refused(&ana, "project:atlas").await;
    assert!(is_order(&error, "project:atlas", "map:atlas/m3"), "{error}");
    let tried = ana
        .try_acquire(&resource("project:atlas"), Mode::Read, &wait(0))
        .await;
    let error = tried.unwrap_err();
    assert!(is_order(&error, "project:atlas", "map:atlas/m3"), "{error}");
    drop(take(&ana, "map:atlas/m4", Mode::Read).await);
    drop(later);
    drop(take(&ana, "project:atlas", Mode::Read).await);
}

#[tokio::test]
async fn asking_before_what_is_awaited_is_an_order_error_until_it_is_given_up() {
    let keeper = keeper().await;
    let (ana, bo) = (session(&keeper, "ana").await, session(&keeper, "bo").await);
    let _b = take(&bo, "b", Mode::Write).await;
    let asking = ask(&ana, "b", Mode::Write).await;
    let error = refused(&ana, "a").await;
    assert!(is_order(&error, "a", "b"), "{error}");
    asking.abort();
    assert!(asking.await.unwrap_err().is_cancelled());
    drop(take(&ana, "a", Mode::Write).await);
}

#[tokio::test(start_paused = true)]
async fn two_tasks_of_one_session_cannot_build_a_circle() {
    let keeper = keeper().await;
    let (ana, bo) = (session(&keeper, "ana").await, session(&keeper, "bo").await);
    let a = take(&bo, "a", Mode::Write).await;
    let asking = ask(&ana, "a", Mode::Write).await;

    // Holding b while awaiting a would close a circle with bo, who may take b after a.
    let tried = ana.try_acquire(&resource("b"), Mode::Write, &wait(0)).await;
    assert!(tried.unwrap().is_none());
    let asked = ana.acquire(&resource("b"), Mode::Write, &wait(50)).await;
    assert!(matches!(asked, Err(Error::Timeout { .. })), "{asked:?}");

    let b = take(&bo, "b", Mode::Write).await;
    drop((a, b));
    let a = asking.await.unwrap().unwrap();
    let b = ana.acquire(&resource("b"), Mode::Write, &patient()).await;
    drop((a, b.unwrap()));
    assert_idle(&keeper).await;
}

#[tokio::test]
async fn while_an_upgrade_waits_the_session_is_granted_nothing_else() {
    let keeper = keeper().await;
    let (ana, bo) = (session(&keeper, "ana").await, session(&keeper, "bo").await);
    let mut guard = take(&ana, "a", Mode::Upgradeable).await;
    let reader = take(&bo, "a", Mode::Read).await;
    let upgrading = tokio::spawn(async move {
        guard.upgrade(patient().wait).await.unwrap();
        guard
    });
    until("the upgrade waits", async || {
        waiting(&keeper).await.len() == 1
    })
    .await;
    let tried = ana.try_acquire(&resource("b"), Mode::Write, &wait(0)).await;
    assert!(tried.unwrap().is_none());
    drop(reader);
    let guard = upgrading.await.unwrap();
    drop(take(&ana, "b", Mode::Write).await);
    drop(guard);
}

#[tokio::test]
async fn ancestors_count_for_order_in_any_store_and_for_re_entry_in_their_own() {
    let keeper = keeper().await;
    let ancestor = |store: &str, text: &str| {
        let lease = LeaseId::parse("outer").unwrap();
        OuterLease::new(store, resource(text), Mode::Write, lease)
    };
    let inside = async |ancestors| {
        let owner = Owner::parse("ana").unwrap();
        let mut options = SessionOptions::new(owner);
        options.ancestors = ancestors;
        keeper.session(options)
    };

    let ana = inside(vec![ancestor("file:/elsewhere", "b")]).await;
    let error = refused(&ana, "a").await;
    assert!(is_order(&error, "a", "b"), "{error}");
    drop(take(&ana, "b", Mode::Write).await);
    let mut upgradeable = take(&ana, "b", Mode::Upgradeable).await;
    upgradeable.upgrade(None).await.unwrap();
    drop(upgradeable);

    let ana = inside(vec![ancestor("memory:", "b")]).await;
    let error = refused(&ana, "b").await;
    let Error::Reentry { lease, .. } = error else {
        panic!("{error}");
    };
    assert_eq!(lease.as_str(), "outer");
    let tried = ana.try_acquire(&resource("b"), Mode::Read, &wait(0)).await;
    assert!(tried.unwrap().is_none());
}

#[tokio::test]
async fn upgrading_while_holding_or_awaiting_something_later_is_an_order_error() {
    let keeper = keeper().await;
    let (ana, bo) = (session(&keeper, "ana").await, session(&keeper, "bo").await);
    let _earlier = take(&ana, "0", Mode::Write).await;
    let mut a = take(&ana, "a", Mode::Upgradeable).await;
    let b = take(&ana, "b", Mode::Read).await;
    let error = a.upgrade(None).await.unwrap_err();
    assert!(is_order(&error, "a", "b"), "{error}");
    drop(b);

    let _b = take(&bo, "b", Mode::Write).await;
    let asking = ask(&ana, "b", Mode::Read).await;
    let error = a.try_upgrade().await.unwrap_err();
    assert!(is_order(&error, "a", "b"), "{error}");
    asking.abort();
    assert!(asking.await.unwrap_err().is_cancelled());

    // A lock that is held and ordered earlier does not matter.
    a.upgrade(None).await.unwrap();
}
