//! Guards of a store on a server: answers that are lost on the way, and other callers who know the
//! id of a lease.

use std::time::{Duration, Instant};

use tenure::{Class, GuardState, Keeper, Mode};
use tenure_testkit::postgres::{Cluster, Database, Proxy};
use tokio::time::sleep;

use crate::scene::{resource, session, take, wait};

/// Longer than anything takes that works.
const LONG_WAIT: Duration = Duration::from_secs(20);

/// Makes a database, and a keeper that reaches it through a proxy.
async fn behind() -> (Database, Proxy, Keeper) {
    let database = Cluster::shared().database();
    let proxy = Proxy::before(&database);
    let keeper = Keeper::open(&proxy.url_through(&database)).await.unwrap();
    (database, proxy, keeper)
}

async fn until(database: &Database, so: &str) {
    let began = Instant::now();
    while database.psql(so) != "t" {
        assert!(began.elapsed() < LONG_WAIT, "in vain: {so}");
        sleep(Duration::from_millis(5)).await;
    }
}

/// Lets the server do the request unheard by the caller. The server is away from then on.
async fn lose(database: &Database, proxy: &Proxy, done: &str) {
    until(database, done).await;
    proxy.refuse();
    proxy.cut();
    proxy.resume();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guard_whose_downgrade_was_done_unheard_is_not_write_while_readers_are_let_in() {
    let (database, proxy, here) = behind().await;
    let there = Keeper::open(&database.url()).await.unwrap();
    let (ana, bo) = (session(&here, "ana").await, session(&there, "bo").await);
    let mut guard = take(&ana, "a", Mode::Upgradeable).await;
    // The statements are prepared here, while answers still arrive.
    guard.upgrade(None).await.unwrap();
    guard.downgrade().await.unwrap();
    guard.upgrade(None).await.unwrap();
    // The first question is answered; the write is held up until answers are lost.
    let mut barrier = database.session();
    barrier.run("BEGIN");
    barrier.run("LOCK TABLE tenure.audit IN SHARE MODE");
    let lost = async {
        let held_up = "SELECT count(*) > 0 FROM pg_locks WHERE NOT granted \
                       AND relation = 'tenure.audit'::regclass AND database = \
                       (SELECT oid FROM pg_database WHERE datname = current_database())";
        until(&database, held_up).await;
        proxy.pause_answers();
        barrier.run("COMMIT");
        let done = "SELECT mode = 'upgradeable' FROM tenure.dal_locks";
        lose(&database, &proxy, done).await;
    };
    let (answer, ()) = tokio::join!(guard.downgrade(), lost);
    assert_eq!(answer.unwrap_err().class(), Class::Unreachable);
    proxy.admit();
    guard.renew().await.unwrap();
    let reader = take(&bo, "a", Mode::Read).await;
    assert_eq!(
        (guard.mode(), guard.state()),
        (Mode::Upgradeable, GuardState::Held)
    );
    assert_eq!(guard.downgrade().await.unwrap(), Mode::Upgradeable);
    reader.release().await.unwrap();
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_that_was_done_unheard_is_told_as_done_when_it_is_asked_for_again() {
    let (database, proxy, here) = behind().await;
    let ana = session(&here, "ana").await;
    // The statements are prepared here, while answers still arrive.
    take(&ana, "b", Mode::Write).await.release().await.unwrap();
    let guard = take(&ana, "a", Mode::Write).await;
    proxy.pause_answers();
    let done = "SELECT count(*) = 0 FROM tenure.dal_locks";
    let (answer, ()) = tokio::join!(guard.release(), lose(&database, &proxy, done));
    let failed = answer.unwrap_err();
    assert_eq!(failed.source.class(), Class::Unreachable);
    proxy.admit();
    failed.guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_guard_has_in_hand_is_not_changed_by_others_who_know_its_id() {
    let database = Cluster::shared().database();
    let here = Keeper::open(&database.url()).await.unwrap();
    let there = Keeper::open(&database.url()).await.unwrap();
    let (ana, bo) = (session(&here, "ana").await, session(&there, "bo").await);
    let mut guard = take(&ana, "a", Mode::Upgradeable).await;
    guard.upgrade(None).await.unwrap();
    let (id, by) = (guard.lease().lease, Some(ana.owner()));
    let refused = [
        there.renew(&id, Some(Duration::from_secs(1)), by).await,
        there.release(&id, by).await,
        there.upgrade(&bo, &id, None, by).await,
        there.downgrade(&id, by).await,
    ];
    for answer in refused {
        let error = answer.unwrap_err();
        assert_eq!(error.class(), Class::NotAllowed, "{error}");
        assert!(
            error.remedy().to_string().contains("break lease="),
            "{error}"
        );
    }
    let tried = bo.try_acquire(&resource("a"), Mode::Read, &wait(0)).await;
    assert!(tried.unwrap().is_none());
    guard.release().await.unwrap();
}

#[test]
fn a_guard_whose_runtime_is_gone_hears_that_another_has_the_lock() {
    let database = Cluster::shared().database();
    let url = format!("{}?lease_ttl=2s", database.url());
    let runtime = || tokio::runtime::Runtime::new().unwrap();
    let (stays, ends) = (runtime(), runtime());
    let (ana, bo) = stays.block_on(async {
        let keeper = Keeper::open(&url).await.unwrap();
        (session(&keeper, "ana").await, session(&keeper, "bo").await)
    });
    let guard = ends.block_on(take(&ana, "a", Mode::Write));
    drop(ends);
    stays.block_on(async {
        let options = wait(LONG_WAIT.as_millis().try_into().unwrap());
        let other = bo.acquire(&resource("a"), Mode::Write, &options).await;
        let lost = tokio::time::timeout(LONG_WAIT, guard.lost()).await;
        assert_eq!(lost.unwrap().class(), Class::Lost);
        other.unwrap().release().await.unwrap();
    });
}
