//! The blocking front, from plain threads and from inside runtimes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tenure::audit::{Action, AuditQuery};
use tenure::blocking::{Keeper, Session};
use tenure::leases::{LeaseTerms, Recovery};
use tenure::{
    Class, Error, GuardState, LeaseState, Mode, Options, Owner, SessionOptions, Settings,
};

use crate::faulty_store::{FaultyStore, broken, over};
use crate::scene::{resource, set, wait};

fn session(keeper: &Keeper, owner: &str) -> Session {
    let owner = Owner::parse(owner).unwrap();
    keeper.session(SessionOptions::new(owner))
}

/// Uses everything once: take, contend, upgrade, sets, drop.
fn tour() {
    let keeper = Keeper::open("memory:").unwrap();
    let (ana, bo) = (session(&keeper, "ana"), session(&keeper, "bo"));
    let (a, options) = (resource("a"), Options::default());

    let guard = ana.acquire(&a, Mode::Write, &options).unwrap();
    assert_eq!(keeper.holders(&a).unwrap(), [guard.lease()]);
    assert!(bo.try_acquire(&a, Mode::Read, &options).unwrap().is_none());
    let error = bo.acquire(&a, Mode::Read, &wait(5)).unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "{error}");
    drop(guard);
    assert!(keeper.holders(&a).unwrap().is_empty(), "released by drop");

    let mut guard = ana.acquire(&a, Mode::Upgradeable, &options).unwrap();
    let token = guard.upgrade(None).unwrap();
    assert_eq!((guard.mode(), guard.token()), (Mode::Write, token));
    assert_eq!(guard.downgrade().unwrap(), Mode::Upgradeable);
    assert_eq!(guard.try_upgrade().unwrap(), Some(guard.token()));
    guard.renew().unwrap();
    assert_eq!(guard.state(), GuardState::Held);
    guard.release().unwrap();

    let wanted = set(&[("b", Mode::Write), ("a", Mode::Read)]);
    let guards = ana.acquire_many(&wanted, &options).unwrap();
    assert!(bo.try_acquire_many(&wanted, &options).unwrap().is_none());
    drop(guards);
    assert!(bo.try_acquire_many(&wanted, &options).unwrap().is_some());
}

#[test]
fn it_works_from_a_plain_thread() {
    tour();
}

#[tokio::test]
async fn it_works_inside_a_current_thread_runtime() {
    tour();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_works_inside_a_multi_thread_runtime() {
    tour();
    tokio::spawn(async { tour() }).await.unwrap();
    tokio::task::spawn_blocking(tour).await.unwrap();
}

#[test]
fn many_threads_share_a_keeper_and_exclude_each_other() {
    let keeper = Keeper::open("memory:").unwrap();
    let counter = std::cell::UnsafeCell::new(0);
    struct Shared(std::cell::UnsafeCell<u32>);
    // SAFETY: the value is only touched under the lock that the test is about.
    unsafe impl Sync for Shared {}
    let counter = Shared(counter);
    let counter = &counter;
    std::thread::scope(|scope| {
        for n in 0..8 {
            let ana = session(&keeper, &format!("t{n}"));
            scope.spawn(move || {
                for _ in 0..50 {
                    let guard = ana.acquire(&resource("a"), Mode::Write, &wait(20_000));
                    let guard = guard.unwrap();
                    // SAFETY: as above.
                    unsafe { *counter.0.get() += 1 };
                    drop(guard);
                }
            });
        }
    });
    // SAFETY: all threads have ended.
    assert_eq!(unsafe { *counter.0.get() }, 400);
}

#[test]
fn a_panic_while_holding_releases() {
    let keeper = Keeper::open("memory:").unwrap();
    let ana = session(&keeper, "ana");
    let panicked = std::thread::spawn(move || {
        let _guard = ana.acquire(&resource("a"), Mode::Write, &wait(0)).unwrap();
        panic!("while holding");
    });
    assert!(panicked.join().is_err());
    assert!(keeper.holders(&resource("a")).unwrap().is_empty());
}

#[test]
fn a_failed_release_hands_the_guard_back() {
    let store = Arc::new(FaultyStore::default());
    let keeper = Keeper::from_store(store.clone(), Settings::default()).unwrap();
    let ana = session(&keeper, "ana");
    let guard = ana.acquire(&resource("a"), Mode::Write, &wait(0)).unwrap();
    store.fail("release", broken());
    let failed = guard.release().unwrap_err();
    assert_eq!(failed.source.class(), Class::Unreachable);
    assert_eq!(keeper.holders(&resource("a")).unwrap().len(), 1);
    failed.guard.release().unwrap();
    assert!(keeper.holders(&resource("a")).unwrap().is_empty());
}

#[test]
fn a_loss_is_noticed_while_the_caller_does_other_things() {
    let store = Arc::new(FaultyStore::checked(Duration::from_millis(1)));
    let keeper = Keeper::from_store(store.clone(), Settings::default()).unwrap();
    let ana = session(&keeper, "ana");
    let guard = ana.acquire(&resource("a"), Mode::Write, &wait(0)).unwrap();
    store.fail("renew", over("gone"));
    let began = Instant::now();
    while guard.state() != GuardState::Lost {
        assert!(began.elapsed() < Duration::from_secs(20), "never noticed");
        std::thread::yield_now();
    }
    assert_eq!(guard.lost().class(), Class::Lost);
}

#[test]
fn a_guard_outlives_its_keeper_and_session() {
    let store = Arc::new(FaultyStore::default());
    let keeper = Keeper::from_store(store.clone(), Settings::default()).unwrap();
    let ana = session(&keeper, "ana");
    let guard = ana.acquire(&resource("a"), Mode::Write, &wait(0)).unwrap();
    drop((keeper, ana));
    guard.renew().unwrap();
    drop(guard);
    assert_eq!(Arc::strong_count(&store), 1, "nothing is left behind");
    assert_eq!(store.count("release"), 1);
}

#[test]
fn leases_of_their_own_are_taken_changed_and_ended_without_a_runtime() {
    let directory = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}/tenure.db", directory.path().display());
    let keeper = Keeper::open(&url).unwrap();
    let (ana, bo) = (session(&keeper, "ana"), Owner::parse("bo").unwrap());
    let wanted = set(&[("a", Mode::Upgradeable)]);
    let (terms, options) = (LeaseTerms::default(), Options::default());
    let lease = keeper
        .lock(&ana, &wanted, &terms, &options)
        .unwrap()
        .remove(0);
    let id = &lease.lease;
    assert_eq!(keeper.find(id).unwrap(), lease);
    let longer = Some(Duration::from_secs(3600));
    let renewed = keeper.renew(id, longer, Some(ana.owner())).unwrap();
    assert!(renewed.expires_at > lease.expires_at);
    let error = keeper.release(id, Some(&bo)).unwrap_err();
    assert_eq!(error.class(), Class::NotAllowed, "{error}");
    let upgraded = keeper.upgrade(&ana, id, None, None).unwrap();
    keeper.check(&resource("a"), upgraded.token).unwrap();
    let error = keeper.check(&resource("a"), lease.token).unwrap_err();
    assert_eq!(error.class(), Class::NotAllowed, "{error}");
    assert_eq!(keeper.downgrade(id, None).unwrap().mode, Mode::Upgradeable);

    let found = keeper.recover(&bo, Recovery::DryRun);
    assert_eq!(found.unwrap(), vec![]);
    let broken = keeper.break_lease(id, &bo, "for a test").unwrap();
    assert_eq!(broken.state, LeaseState::Revoking);
    assert_eq!(keeper.release(id, None).unwrap().lease, lease.lease);
    let entries = keeper.audit(&AuditQuery::default()).unwrap().entries;
    assert_eq!(entries.last().unwrap().action, Action::Release);
    assert!(keeper.holders(&resource("a")).unwrap().is_empty());
}
