//! Resources and their modes on advisory locks: many that wait, and answers that fail half-way.

use std::sync::Arc;
use std::time::Duration;

use tenure_core::{LeaseId, Mode, Query, Store};
use tenure_postgres::AdvisoryStore;
use tenure_testkit::postgres::{Cluster, Database};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::scene::{request, until};

/// A hundred hand-overs, on a machine that has much else to do.
const ALL_SERVED: Duration = Duration::from_secs(60);

async fn open(database: &Database) -> Arc<AdvisoryStore> {
    Arc::new(AdvisoryStore::open(&database.url()).await.unwrap())
}

async fn take(store: &AdvisoryStore, name: &str, mode: Mode) -> LeaseId {
    let lease = store.try_acquire(&request(name, mode)).await.unwrap();
    lease.expect("it is free").lease
}

/// Who waits at the server, for locks of any kind in this database.
const WAITING: &str = "FROM pg_locks WHERE NOT granted AND database =
    (SELECT oid FROM pg_database WHERE datname = current_database())";

fn waiting(database: &Database) -> usize {
    let count = database.psql(&format!("SELECT count(*) {WAITING}"));
    count.parse().unwrap()
}

/// So many that take a lock and give it back.
fn crowd(crowd: &mut JoinSet<()>, store: &Arc<AdvisoryStore>, name: &'static str, count: usize) {
    for _ in 0..count {
        let store = Arc::clone(store);
        crowd.spawn(async move {
            let lease = store.acquire(&request(name, Mode::Write)).await.unwrap();
            store.release(&lease.lease).await.unwrap();
        });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn more_waiters_of_one_process_than_connections_are_all_served() {
    let database = Cluster::shared().database();
    let store = open(&database).await;
    let held = take(&store, "a", Mode::Write).await;
    let mut waiters = JoinSet::new();
    crowd(&mut waiters, &store, "a", 130);
    until("they wait", || waiting(&database) >= 10).await;
    // They leave room for whoever wants something else.
    let other = take(&store, "b", Mode::Write).await;
    store.release(&other).await.unwrap();
    store.release(&held).await.unwrap();
    let served = timeout(ALL_SERVED, waiters.join_all()).await;
    assert_eq!(served.expect("all are served").len(), 130);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_has_a_connection_when_those_who_wait_have_all_others() {
    let database = Cluster::shared().database();
    let store = open(&database).await;
    let upgradeable = take(&store, "a", Mode::Upgradeable).await;
    let mut held = Vec::new();
    let mut waiters = JoinSet::new();
    for name in ["b", "c", "d", "e"] {
        held.push(take(&store, name, Mode::Write).await);
        crowd(&mut waiters, &store, name, 12);
    }
    // A hundred, less two for each lease, and three for each that waits.
    until("there is no more room", || waiting(&database) == 30).await;
    let upgraded = store.try_upgrade(&upgradeable).await.unwrap();
    assert!(upgraded.is_some());
    for lease in held {
        store.release(&lease).await.unwrap();
    }
    let served = timeout(ALL_SERVED, waiters.join_all()).await;
    assert_eq!(served.expect("all are served").len(), 48);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_downgrade_that_fails_half_way_frees_the_door_and_is_done_when_asked_again() {
    let database = Cluster::shared().database();
    let (here, there) = (open(&database).await, open(&database).await);
    let lease = take(&here, "a", Mode::Upgradeable).await;
    here.try_upgrade(&lease).await.unwrap().unwrap();
    let mut barrier = database.session();
    barrier.run("BEGIN; LOCK TABLE tenure.advisory_holders IN SHARE MODE");
    let cancel = async {
        until("it is held up", || waiting(&database) == 1).await;
        database.psql(&format!("SELECT pg_cancel_backend(pid) {WAITING}"));
    };
    let (answer, ()) = tokio::join!(here.downgrade(&lease), cancel);
    let error = answer.unwrap_err();
    assert!(error.is_passing(), "{error}");
    barrier.run("COMMIT");
    // Whoever reads may do so at once, whatever the record says.
    let reader = take(&there, "a", Mode::Read).await;
    there.release(&reader).await.unwrap();
    assert_eq!(here.downgrade(&lease).await.unwrap(), Mode::Upgradeable);
    let listed = here.list(&Query::default()).await.unwrap();
    assert_eq!(listed.held[0].mode, Mode::Upgradeable);
    // It was done: there is nothing left to be done, and all can be had again.
    assert!(here.downgrade(&lease).await.is_err());
    here.try_upgrade(&lease).await.unwrap().unwrap();
    assert_eq!(here.downgrade(&lease).await.unwrap(), Mode::Upgradeable);
    here.release(&lease).await.unwrap();
}
