//! Guards whose leases run out: renewed in time, or given up in time. The clock is the real one, as
//! no other clock counts sleep.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tenure::{Class, Guard, GuardState, Keeper, Mode, blocking};
use tokio::runtime::Runtime;
use tokio::time::timeout;

use crate::faulty_store::{FaultyStore, RenewBehaviour, broken, over};
use crate::scene::*;

/// Long enough that a busy machine does not use it up.
const TTL: Duration = Duration::from_secs(3);

fn leased() -> (Arc<FaultyStore>, Keeper) {
    FaultyStore::leased(TTL).keep()
}

#[tokio::test]
async fn a_guard_is_renewed_for_as_long_as_it_is_held() {
    let (store, keeper) = leased();
    let ana = session(&keeper, "ana").await;
    let guard = take(&ana, "a", Mode::Write).await;
    assert!(timeout(TTL * 2, guard.in_doubt()).await.is_err());
    assert_eq!(guard.state(), GuardState::Held);
    assert!(guard.expires_in().unwrap() > TTL / 3);
    assert!(store.count("renew") >= 6, "{}", store.count("renew"));
}

#[tokio::test]
async fn a_guard_bound_to_its_session_does_not_run_out() {
    let (_store, keeper) = FaultyStore::checked(Duration::from_millis(10)).keep();
    let ana = session(&keeper, "ana").await;
    let guard = take(&ana, "a", Mode::Write).await;
    assert_eq!(guard.expires_in(), None);
    let doubt = timeout(Duration::from_millis(200), guard.in_doubt());
    assert!(doubt.await.is_err());
}

/// Asserts that a guard is unknown from the first check, in doubt at two thirds and lost at five
/// sixths of its time, before the lease runs out.
async fn is_given_up_in_time(renew_behaviour: RenewBehaviour) {
    let (store, keeper) = leased();
    let ana = session(&keeper, "ana").await;
    let began = Instant::now();
    let guard = take(&ana, "a", Mode::Write).await;
    store.renewals_become(renew_behaviour);
    until("it is unknown", async || {
        tokio::time::sleep(Duration::from_millis(5)).await;
        guard.state() == GuardState::Unknown
    })
    .await;
    assert!(
        began.elapsed() < TTL * 2 / 3,
        "unknown after {:?}",
        began.elapsed()
    );
    let doubt = guard.in_doubt().await;
    let doubted = began.elapsed();
    assert!(
        doubted >= TTL * 2 / 3 && doubted < TTL * 5 / 6,
        "{doubted:?}"
    );
    assert_eq!(guard.state(), GuardState::Unknown, "not lost yet");
    assert!(doubt.unanswered >= TTL * 2 / 3, "{doubt:?}");
    assert!(doubt.lost_in <= TTL / 6, "{doubt:?}");
    let error = guard.lost().await;
    let lost = began.elapsed();
    assert!(lost >= TTL * 5 / 6 && lost < TTL, "{lost:?}");
    assert_eq!(error.class(), Class::Lost);
    assert!(
        error.to_string().contains("could not be renewed"),
        "{error}"
    );
    store.renewals_become(RenewBehaviour::Normal);
    assert!(guard.renew().await.is_err(), "lost is final");
}

#[tokio::test]
async fn a_guard_whose_checks_fail_is_given_up_in_time() {
    is_given_up_in_time(RenewBehaviour::Failing).await;
}

#[tokio::test]
async fn a_guard_whose_checks_are_not_answered_is_given_up_in_time() {
    is_given_up_in_time(RenewBehaviour::Silent).await;
}

#[tokio::test]
async fn a_good_answer_ends_the_doubt() {
    let (store, keeper) = leased();
    let ana = session(&keeper, "ana").await;
    let guard = take(&ana, "a", Mode::Write).await;
    store.renewals_become(RenewBehaviour::Failing);
    guard.in_doubt().await;
    store.renewals_become(RenewBehaviour::Normal);
    guard.renew().await.unwrap();
    assert_eq!(guard.state(), GuardState::Held);
    assert!(guard.expires_in().unwrap() > TTL * 2 / 3);
    assert!(timeout(TTL, guard.in_doubt()).await.is_err());
}

#[tokio::test]
async fn a_good_answer_after_the_loss_is_too_late() {
    for _ in 0..20 {
        let (store, keeper) = leased();
        let ana = session(&keeper, "ana").await;
        let guard = take(&ana, "a", Mode::Write).await;
        store.renewals_become(RenewBehaviour::Failing);
        guard.in_doubt().await;
        // The check at two thirds has failed. The next one is asked in time, and answered after the
        // guard was given up.
        tokio::time::sleep(TTL / 30).await;
        let late = TTL / 6 - Duration::from_millis(10);
        store.renewals_become(RenewBehaviour::Slow(late));
        if timeout(TTL / 3, guard.lost()).await.is_err() {
            // On a busy machine the answer came first.
            continue;
        }
        tokio::time::sleep(late).await;
        assert_eq!(guard.state(), GuardState::Lost, "lost is final");
        // The guard also stops asking, which would keep the lock from other sessions.
        let asked = store.count("renew");
        tokio::time::sleep(TTL).await;
        assert_eq!(store.count("renew"), asked);
        return;
    }
    panic!("this machine is too busy");
}

#[tokio::test]
async fn one_lock_that_is_not_answered_takes_no_time_from_the_others() {
    let (store, keeper) = leased();
    let ana = session(&keeper, "ana").await;
    let dead = take(&ana, "a", Mode::Write).await;
    let mut others = Vec::new();
    for number in 0..20 {
        others.push(take(&ana, &format!("b{number:02}"), Mode::Write).await);
    }
    store.renewals_become(RenewBehaviour::SilentFor(dead.lease().lease));
    assert_eq!(dead.lost().await.class(), Class::Lost);
    for other in &others {
        assert_eq!(other.state(), GuardState::Held, "{other:?}");
        assert!(other.expires_in().unwrap() > TTL / 2);
    }
}

#[tokio::test]
async fn trust_is_counted_from_the_question_and_not_from_the_answer() {
    let (store, keeper) = leased();
    let ana = session(&keeper, "ana").await;
    let guard = take(&ana, "a", Mode::Write).await;
    let late = Duration::from_millis(400);
    store.renewals_become(RenewBehaviour::Slow(late));
    let began = Instant::now();
    guard.renew().await.unwrap();
    let (left, took) = (guard.expires_in().unwrap(), began.elapsed());
    // The last answer may belong to the background check, which was asked at most this much earlier
    // or later.
    assert!(
        took >= late && left <= TTL - late + took.saturating_sub(late),
        "{left:?}"
    );
    // No answer to the background check ever counts for more, either.
    let began = Instant::now();
    while began.elapsed() < TTL {
        let left = guard.expires_in().unwrap();
        assert!(left <= TTL - late, "{left:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Halts the process for longer than the lease lasts, as when it is stopped.
fn stand_still() {
    thread::sleep(TTL + TTL / 2);
}

#[tokio::test]
async fn after_a_sleep_the_lease_is_renewed_if_nobody_took_over() {
    let (_store, keeper) = leased();
    let ana = session(&keeper, "ana").await;
    let guard = take(&ana, "a", Mode::Write).await;
    stand_still();
    assert_eq!(guard.state(), GuardState::Unknown, "not proved yet");
    assert_eq!(guard.expires_in(), Some(Duration::ZERO));
    until("it is proved", async || guard.state() == GuardState::Held).await;
    assert!(guard.expires_in().unwrap() > TTL / 2);
    assert!(timeout(TTL, guard.in_doubt()).await.is_err());
}

#[tokio::test]
async fn after_a_sleep_a_lease_that_was_taken_over_is_lost() {
    let (store, keeper) = leased();
    let ana = session(&keeper, "ana").await;
    let guard = take(&ana, "a", Mode::Write).await;
    store.fail("renew", over("somebody else has it"));
    stand_still();
    let lost = timeout(TTL / 3, guard.lost()).await.unwrap();
    assert!(lost.to_string().contains("somebody else has it"), "{lost}");
}

#[tokio::test]
async fn after_a_sleep_a_store_that_does_not_answer_is_not_waited_for_long() {
    let (store, keeper) = leased();
    let ana = session(&keeper, "ana").await;
    let guard = take(&ana, "a", Mode::Write).await;
    store.renewals_become(RenewBehaviour::Silent);
    stand_still();
    let woke = Instant::now();
    assert_eq!(guard.lost().await.class(), Class::Lost);
    assert!(
        woke.elapsed() < Duration::from_secs(2),
        "{:?}",
        woke.elapsed()
    );
}

#[tokio::test]
async fn what_is_there_of_a_set_is_renewed_while_the_rest_is_awaited() {
    let (_store, keeper) = leased();
    let (ana, bo) = (session(&keeper, "ana").await, session(&keeper, "bo").await);
    let rest = take(&bo, "b", Mode::Write).await;
    let both = set(&[("a", Mode::Write), ("b", Mode::Write)]);
    let asking = {
        let ana = ana.clone();
        tokio::spawn(async move { ana.acquire_many(&both, &patient()).await })
    };
    until("it waits", async || !waiting(&keeper).await.is_empty()).await;
    tokio::time::sleep(TTL * 3 / 2).await;
    assert!(!asking.is_finished());
    rest.release().await.unwrap();
    for guard in asking.await.unwrap().unwrap() {
        assert_eq!(guard.state(), GuardState::Held);
        assert!(guard.expires_in().unwrap() > TTL / 3, "{guard:?}");
    }
}

#[tokio::test]
async fn a_set_that_loses_a_part_is_not_waited_for_any_longer() {
    let (store, keeper) = leased();
    let (ana, bo) = (session(&keeper, "ana").await, session(&keeper, "bo").await);
    let rest = take(&bo, "b", Mode::Write).await;
    let both = set(&[("a", Mode::Write), ("b", Mode::Write)]);
    let asking = {
        let ana = ana.clone();
        tokio::spawn(async move { ana.acquire_many(&both, &patient()).await })
    };
    until("it waits", async || !waiting(&keeper).await.is_empty()).await;
    let part = keeper.holders(&resource("a")).await.unwrap();
    store.renewals_become(RenewBehaviour::SilentFor(part[0].lease.clone()));
    let error = timeout(TTL, asking).await.unwrap().unwrap().unwrap_err();
    assert_eq!(
        (error.class(), error.resource()),
        (Class::Lost, Some(&resource("a")))
    );
    until("it has left the line", async || {
        waiting(&keeper).await.is_empty()
    })
    .await;
    assert_eq!(held(&keeper).await, ["name:b write"]);
    drop(rest);
}

#[tokio::test]
async fn a_grant_that_was_waited_for_long_is_proved_before_it_is_given() {
    let (store, keeper) = leased();
    let (ana, bo) = (session(&keeper, "ana").await, session(&keeper, "bo").await);
    let before = take(&bo, "a", Mode::Write).await;
    let asking = ask(&ana, "a", Mode::Write).await;
    tokio::time::sleep(TTL / 2).await;
    before.release().await.unwrap();
    let guard = asking.await.unwrap().unwrap();
    let left = guard.expires_in().unwrap();
    assert!(left > TTL * 5 / 6, "{left:?}");
    let renewed = format!("renew {}", guard.lease().lease);
    assert!(store.log().contains(&renewed));
}

#[tokio::test]
async fn a_grant_that_cannot_be_proved_is_given_back() {
    let (store, keeper) = leased();
    let (ana, bo) = (session(&keeper, "ana").await, session(&keeper, "bo").await);
    let before = take(&bo, "a", Mode::Write).await;
    let asking = ask(&ana, "a", Mode::Write).await;
    tokio::time::sleep(TTL / 2).await;
    store.renewals_become(RenewBehaviour::Silent);
    before.release().await.unwrap();
    let error = asking.await.unwrap().unwrap_err();
    assert_eq!(error.class(), Class::Unreachable, "{error}");
    store.renewals_become(RenewBehaviour::Normal);
    assert_idle(&keeper).await;
}

#[test]
fn a_guard_of_the_blocking_front_is_renewed_without_any_call() {
    let store = Arc::new(FaultyStore::leased(TTL));
    let keeper = blocking::Keeper::from_store(store.clone(), Default::default()).unwrap();
    let owner = tenure::Owner::parse("ana").unwrap();
    let session = keeper.session(tenure::SessionOptions::new(owner));
    let guard = session
        .acquire(&resource("a"), Mode::Write, &wait(0))
        .unwrap();
    stand_still();
    assert_eq!(guard.state(), GuardState::Held);
    assert!(guard.expires_in().unwrap() > TTL / 3);
    store.renewals_become(RenewBehaviour::Failing);
    let doubt = guard.in_doubt();
    assert!(doubt.to_string().contains(&broken().to_string()), "{doubt}");
    assert_eq!(guard.lost().class(), Class::Lost);
}

/// Makes a guard whose runtime is gone, and another runtime.
fn orphan(keeper: &Keeper) -> (Guard, Runtime) {
    let (stays, ends) = (Runtime::new().unwrap(), Runtime::new().unwrap());
    let ana = stays.block_on(session(keeper, "ana"));
    let guard = ends.block_on(take(&ana, "a", Mode::Write));
    (guard, stays)
}

#[test]
fn a_guard_whose_runtime_is_gone_is_renewed_in_that_of_who_waits_for_its_loss() {
    let (_store, keeper) = leased();
    let (guard, runtime) = orphan(&keeper);
    runtime.block_on(async {
        assert!(timeout(TTL * 3 / 2, guard.lost()).await.is_err());
        assert!(timeout(TTL, guard.in_doubt()).await.is_err());
    });
    assert_eq!(guard.state(), GuardState::Held);
}

#[test]
fn a_guard_whose_runtime_is_gone_is_given_up_in_time() {
    for renew_behaviour in [RenewBehaviour::Failing, RenewBehaviour::Silent] {
        let (store, keeper) = leased();
        store.renewals_become(renew_behaviour);
        let began = Instant::now();
        let (guard, runtime) = orphan(&keeper);
        runtime.block_on(async {
            let doubt = timeout(TTL, guard.in_doubt()).await;
            let lost = timeout(TTL, guard.lost()).await;
            assert_eq!((doubt.is_ok(), lost.unwrap().class()), (true, Class::Lost));
        });
        assert!(began.elapsed() < TTL, "{:?}", began.elapsed());
    }
}

#[test]
fn a_check_that_ended_with_its_runtime_is_made_again_in_another() {
    let (store, keeper) = leased();
    store.renewals_become(RenewBehaviour::Silent);
    let (stays, ends) = (Runtime::new().unwrap(), Runtime::new().unwrap());
    let ana = stays.block_on(session(&keeper, "ana"));
    let guard = ends.block_on(async {
        let guard = take(&ana, "a", Mode::Write).await;
        until("a check is under way", async || store.count("renew") > 0).await;
        guard
    });
    drop(ends);
    store.renewals_become(RenewBehaviour::Normal);
    stays.block_on(async {
        assert!(timeout(TTL * 2, guard.lost()).await.is_err());
    });
    assert_eq!(guard.state(), GuardState::Held);
}

#[tokio::test]
async fn an_upgrade_ends_with_the_loss_of_its_lease() {
    let (store, keeper) = leased();
    let (ana, bo) = (session(&keeper, "ana").await, session(&keeper, "bo").await);
    let _reader = take(&bo, "a", Mode::Read).await;
    let mut guard = take(&ana, "a", Mode::Upgradeable).await;
    store.renewals_become(RenewBehaviour::SilentFor(guard.lease().lease));
    let upgraded = timeout(TTL * 2, guard.upgrade(Some(TTL * 10))).await;
    assert_eq!(upgraded.unwrap().unwrap_err().class(), Class::Lost);
}
