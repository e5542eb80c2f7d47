//! The write transactions that each use makes, and which of them wait for the disk.

mod trace;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tenure::leases::{LeaseTerms, Recovery};
use tenure::{
    IdempotenceKey, Keeper, Lease, LeaseId, LockSet, Mode, Options, Owner, Ranking, Session,
};
use tenure_core::Asker;
use tenure_work::agents::guard::{EDIT_TTL, EditDecision, hold};
use trace::End::{Committed, Durable, RolledBack};
use trace::ends;

use crate::scene::{Scene, resource, session, take};

const MINUTE: Duration = Duration::from_secs(60);

/// Opens a keeper, and follows its transactions.
async fn followed(scene: &Scene) -> Keeper {
    trace::follow();
    let keeper = scene.keeper().await;
    ends();
    keeper
}

/// Takes leases of their own.
async fn lock(session: &Session, names: &[&str], mode: Mode, terms: &LeaseTerms) -> Vec<Lease> {
    let wanted = names.iter().map(|name| (resource(name), mode));
    let (set, options) = (
        LockSet::new(&Ranking::default(), wanted),
        Options::default(),
    );
    ends();
    let locked = session.keeper().lock(session, &set, terms, &options);
    locked.await.unwrap()
}

async fn lock_one(session: &Session, name: &str, mode: Mode) -> LeaseId {
    let mut leases = lock(session, &[name], mode, &LeaseTerms::default()).await;
    leases.remove(0).lease
}

/// Lets all leases run out, with old heartbeats.
fn make_stale(scene: &Scene) {
    let stale = "UPDATE dal_locks SET expires_boot = 1, heartbeat_boot = 1 WHERE binding = 'lease'";
    scene.raw().execute(stale, []).unwrap();
}

fn asker(session: &Session) -> Arc<Asker> {
    Arc::new(Asker {
        session: session.id().clone(),
        owner: session.owner().clone(),
        pid: std::process::id(),
        host: "here".into(),
        command: "test".into(),
        agent: None,
    })
}

fn owner(name: &str) -> Owner {
    Owner::parse(name).unwrap()
}

#[tokio::test]
async fn a_renewal_is_one_transaction() {
    let scene = Scene::new();
    let keeper = followed(&scene).await;
    let ana = session(&keeper, "ana").await;
    let lease = lock_one(&ana, "a", Mode::Write).await;
    for ttl in [None, Some(MINUTE)] {
        ends();
        keeper.renew(&lease, ttl, None).await.unwrap();
        assert_eq!(ends(), [Durable]);
    }
}

#[tokio::test]
async fn a_set_of_free_locks_takes_one_transaction_each_and_one_that_binds_them() {
    let scene = Scene::new();
    let keeper = followed(&scene).await;
    let ana = session(&keeper, "ana").await;
    lock_one(&ana, "a", Mode::Write).await;
    assert_eq!(ends(), [Committed, Durable]);
    let bo = session(&keeper, "bo").await;
    lock(&bo, &["b", "c", "d"], Mode::Write, &LeaseTerms::default()).await;
    assert_eq!(ends(), [Committed, Committed, Committed, Durable]);
}

#[tokio::test]
async fn a_key_takes_one_transaction_more_and_its_answer_one() {
    let scene = Scene::new();
    let keeper = followed(&scene).await;
    let ana = session(&keeper, "ana").await;
    let terms = LeaseTerms::default().with_key(IdempotenceKey::parse("k").unwrap());
    lock(&ana, &["a"], Mode::Write, &terms).await;
    assert_eq!(ends(), [Committed, Committed, Durable]);
    lock(&ana, &["a"], Mode::Write, &terms).await;
    assert_eq!(ends(), [Committed]);
}

#[tokio::test]
async fn a_guarded_edit_is_at_most_three_transactions_with_the_end_of_its_session() {
    let scene = Scene::new();
    let keeper = followed(&scene).await;
    for expected in [&[Committed, Durable, Committed][..], &[Durable]] {
        let agent = session(&keeper, "agent:a").await;
        let files = [PathBuf::from("/src/lib.rs")];
        let held = hold(&keeper, &agent, &files, "edit", EDIT_TTL).await;
        assert!(matches!(held, Ok(EditDecision::Granted)), "{held:?}");
        drop(agent);
        assert_eq!(ends(), expected);
    }
    let other = session(&keeper, "agent:b").await;
    let held = hold(&keeper, &other, &["/src/lib.rs".into()], "edit", EDIT_TTL).await;
    assert!(matches!(held, Ok(EditDecision::Denied(_))), "{held:?}");
    drop(other);
    assert_eq!(ends(), []);
}

#[tokio::test]
async fn who_changes_a_lease_by_its_id_waits_for_the_disk_once() {
    let scene = Scene::new();
    let keeper = followed(&scene).await;
    let ana = session(&keeper, "ana").await;
    let lease = lock_one(&ana, "a", Mode::Write).await;
    ends();
    keeper.release(&lease, None).await.unwrap();
    assert_eq!(ends(), [Durable], "release");

    let lease = lock_one(&ana, "a", Mode::Upgradeable).await;
    let bo = session(&keeper, "bo").await;
    ends();
    keeper.upgrade(&bo, &lease, None, None).await.unwrap();
    assert_eq!(ends(), [Durable], "upgrade");
    keeper.downgrade(&lease, None).await.unwrap();
    assert_eq!(ends(), [Durable], "downgrade");

    let guard = take(&ana, "b", Mode::Write).await;
    let again = session(&keeper, "ana").await;
    ends();
    let taken = keeper.take_over(&again, &guard.lease().lease, MINUTE).await;
    let lease = taken.unwrap().unwrap().lease;
    assert_eq!(ends(), [Durable], "take over");
    let (leases, asker) = (
        tenure::internal::store(&keeper).leases().unwrap(),
        asker(&again),
    );
    leases.claim(&lease, "job", &asker).await.unwrap();
    assert_eq!(ends(), [Durable], "claim");
    let broken = keeper.break_lease(&lease, &owner("di"), "why").await;
    broken.unwrap();
    assert_eq!(ends(), [Durable], "break");
}

#[tokio::test]
async fn a_recovery_waits_for_the_disk_once_for_each_lease() {
    let scene = Scene::new();
    let keeper = followed(&scene).await;
    let ana = session(&keeper, "ana").await;
    lock(&ana, &["a", "b"], Mode::Write, &LeaseTerms::default()).await;
    make_stale(&scene);
    ends();
    let found = keeper.recover(&owner("bo"), Recovery::Real).await.unwrap();
    assert_eq!(found.len(), 2);
    assert_eq!(ends(), [Durable, Durable]);
}

#[tokio::test]
async fn only_a_request_that_recovers_a_stale_lease_is_made_again() {
    let scene = Scene::new();
    let keeper = followed(&scene).await;
    let ana = session(&keeper, "ana").await;
    lock_one(&ana, "a", Mode::Write).await;
    make_stale(&scene);
    let bo = session(&keeper, "bo").await;
    lock_one(&bo, "a", Mode::Write).await;
    assert_eq!(ends(), [RolledBack, Durable, Durable]);
}
