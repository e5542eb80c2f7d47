//! Calls on a guard that holds its lock.

use tenure::{Class, Error, GuardState, Mode};

use crate::faulty_store::{FaultyStore, broken, over, passing};
use crate::scene::*;

#[tokio::test]
async fn an_upgrade_is_alone_with_a_higher_token_and_a_downgrade_shares_again() {
    let keeper = keeper().await;
    let (ana, bo) = (session(&keeper, "ana").await, session(&keeper, "bo").await);
    let mut guard = take(&ana, "a", Mode::Upgradeable).await;
    let before = guard.token();
    drop(take(&bo, "a", Mode::Read).await);
    let token = guard.upgrade(None).await.unwrap();
    assert!(token > before);
    assert_eq!((guard.mode(), guard.token()), (Mode::Write, token));
    let tried = bo.try_acquire(&resource("a"), Mode::Read, &wait(0)).await;
    assert!(tried.unwrap().is_none());

    assert_eq!(guard.downgrade().await.unwrap(), Mode::Upgradeable);
    assert_eq!((guard.mode(), guard.token()), (Mode::Upgradeable, token));
    let reader = take(&bo, "a", Mode::Read).await;
    assert_eq!(reader.token(), token);
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_that_times_out_leaves_the_lock_as_before_and_names_the_readers() {
    let keeper = keeper().await;
    let (ana, bo) = (session(&keeper, "ana").await, session(&keeper, "bo").await);
    let mut guard = take(&ana, "a", Mode::Upgradeable).await;
    let reader = take(&bo, "a", Mode::Read).await;
    assert_eq!(guard.try_upgrade().await.unwrap(), None);
    let error = guard.upgrade(wait(50).wait).await.unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "{error}");
    assert_eq!(error.holders(), [reader.lease()]);
    assert_eq!(guard.mode(), Mode::Upgradeable);
    let cy = session(&keeper, "cy").await;
    drop(take(&cy, "a", Mode::Read).await);
    drop(reader);
    assert!(guard.try_upgrade().await.unwrap().is_some());
}

#[tokio::test]
async fn only_an_upgradeable_lock_is_upgraded_and_only_an_upgraded_one_downgraded() {
    let keeper = keeper().await;
    let ana = session(&keeper, "ana").await;
    for mode in [Mode::Read, Mode::Write] {
        let mut guard = take(&ana, "a", mode).await;
        let error = guard.upgrade(None).await.unwrap_err();
        assert!(matches!(error, Error::Conflict { .. }), "{error}");
        let error = guard.downgrade().await.unwrap_err();
        assert!(matches!(error, Error::Conflict { .. }), "{error}");
        assert_eq!(guard.mode(), mode);
        assert_eq!(guard.state(), GuardState::Held);
    }
    let mut guard = take(&ana, "a", Mode::Upgradeable).await;
    let error = guard.downgrade().await.unwrap_err();
    assert!(matches!(error, Error::Conflict { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_downgrade_whose_answer_was_lost_is_done_when_the_store_says_so() {
    let (store, keeper) = FaultyStore::default().keep();
    let ana = session(&keeper, "ana").await;
    let mut guard = take(&ana, "a", Mode::Upgradeable).await;
    guard.upgrade(None).await.unwrap();
    store.lose_downgrade(passing());
    assert_eq!(guard.downgrade().await.unwrap(), Mode::Upgradeable);
    assert_eq!(held(&keeper).await, ["name:a upgradeable"]);
    let error = guard.downgrade().await.unwrap_err();
    assert!(
        matches!(error, Error::Conflict { .. }),
        "nothing is open any more: {error}"
    );
}

#[tokio::test]
async fn a_guard_counts_as_upgradeable_while_the_outcome_of_its_downgrade_is_open() {
    let (store, keeper) = FaultyStore::default().keep();
    let (ana, bo) = (session(&keeper, "ana").await, session(&keeper, "bo").await);
    let mut guard = take(&ana, "a", Mode::Upgradeable).await;
    guard.upgrade(None).await.unwrap();
    store.lose_downgrade(broken());
    let error = guard.downgrade().await.unwrap_err();
    assert_eq!(error.class(), Class::Unreachable);
    let reader = take(&bo, "a", Mode::Read).await;
    assert_eq!(
        (guard.mode(), guard.state()),
        (Mode::Upgradeable, GuardState::Held)
    );
    // A second downgrade answers that it is done; the guard can still become write again.
    assert_eq!(guard.downgrade().await.unwrap(), Mode::Upgradeable);
    drop(reader);
    guard.upgrade(None).await.unwrap();
    assert_eq!(guard.mode(), Mode::Write);
}

#[tokio::test]
async fn a_downgrade_that_was_not_done_is_settled_by_the_next_upgrade() {
    let (store, keeper) = FaultyStore::default().keep();
    let ana = session(&keeper, "ana").await;
    let mut guard = take(&ana, "a", Mode::Upgradeable).await;
    let first = guard.upgrade(None).await.unwrap();
    store.fail("downgrade", broken());
    guard.downgrade().await.unwrap_err();
    assert_eq!(guard.mode(), Mode::Upgradeable);
    assert_eq!(held(&keeper).await, ["name:a write"]);
    let second = guard.upgrade(None).await.unwrap();
    assert!(second > first);
    assert_eq!((guard.mode(), guard.token()), (Mode::Write, second));
}

#[tokio::test]
async fn a_failed_release_hands_the_guard_back() {
    let (store, keeper) = FaultyStore::default().keep();
    let ana = session(&keeper, "ana").await;
    let guard = take(&ana, "a", Mode::Write).await;
    store.fail("release", broken());
    let failed = guard.release().await.unwrap_err();
    assert_eq!(failed.source.class(), Class::Unreachable);
    assert_eq!(held(&keeper).await, ["name:a write"]);
    assert_eq!(failed.guard.state(), GuardState::Held);
    failed.guard.release().await.unwrap();
    assert_idle(&keeper).await;
    assert_eq!(
        store.count("abandon"),
        0,
        "what is released is not given up again"
    );
}

#[tokio::test]
async fn the_session_may_ask_again_as_soon_as_a_guard_is_gone() {
    let keeper = keeper().await;
    let ana = session(&keeper, "ana").await;
    for _ in 0..3 {
        take(&ana, "a", Mode::Write).await.release().await.unwrap();
        drop(take(&ana, "a", Mode::Write).await);
    }
}

#[tokio::test]
async fn a_guard_outlives_its_session_and_keeper() {
    let keeper = keeper().await;
    let ana = session(&keeper, "ana").await;
    let other = session(&keeper, "bo").await;
    let guard = take(&ana, "a", Mode::Write).await;
    drop((ana, keeper));
    guard.renew().await.unwrap();
    assert_eq!(held(other.keeper()).await, ["name:a write"]);
    guard.release().await.unwrap();
    assert_idle(other.keeper()).await;
}

#[tokio::test]
async fn renew_tells_a_loss_and_the_guard_knows_it_from_then_on() {
    let (store, keeper) = FaultyStore::default().keep();
    let ana = session(&keeper, "ana").await;
    let mut guard = take(&ana, "a", Mode::Upgradeable).await;
    guard.renew().await.unwrap();

    store.fail("renew", broken());
    assert_eq!(guard.renew().await.unwrap_err().class(), Class::Unreachable);
    assert_eq!(guard.state(), GuardState::Unknown);
    guard.renew().await.unwrap();
    assert_eq!(guard.state(), GuardState::Held);

    store.fail("renew", over("broken by bo"));
    assert_eq!(guard.renew().await.unwrap_err().class(), Class::Lost);
    assert_eq!(guard.state(), GuardState::Lost);
    // The store would say yes again, but lost is final.
    assert_eq!(guard.renew().await.unwrap_err().class(), Class::Lost);
    assert_eq!(guard.upgrade(None).await.unwrap_err().class(), Class::Lost);
    assert!(guard.lost().await.to_string().contains("broken by bo"));
}

#[tokio::test]
async fn the_memory_store_has_no_descriptor() {
    let keeper = keeper().await;
    let ana = session(&keeper, "ana").await;
    let guard = take(&ana, "a", Mode::Write).await;
    assert!(guard.descriptor().unwrap().is_none());
}
