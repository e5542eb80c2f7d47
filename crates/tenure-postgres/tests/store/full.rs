//! Servers that have no room for one more connection.

use std::time::Duration;

use tenure_core::{Class, Mode, Store};
use tenure_postgres::{Address, OpenOptions, PostgresStore};
use tenure_testkit::postgres::{Cluster, Database, Psql, Settings};
use tokio::task::JoinHandle;

use crate::scene::{Asks, WAIT_MAX, open, request, take, timed, until};

const FULL: &str = "too many clients";

/// The number of connections that the server accepts.
const ROOM: usize = 10;

fn small() -> Cluster {
    let settings = Settings::default()
        .parameter("max_connections", ROOM)
        .parameter("superuser_reserved_connections", 0);
    Cluster::with(&settings)
}

/// Takes every connection of the server for other programs. A connection that has just ended still
/// counts for a moment, so a refusal alone does not mean that the server is full.
async fn fill(database: &Database, others: &mut Vec<Psql>) {
    until("others have every connection", || {
        others.extend(database.try_session());
        others.len() == ROOM
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn opening_a_store_on_a_full_server_waits_and_then_says_so() {
    let cluster = small();
    let database = cluster.database();
    drop(open(&database.url()).await.unwrap());
    let mut others = Vec::new();
    fill(&database, &mut others).await;
    let (error, waited) = timed(open(&database.url())).await;
    let error = error.err().expect("the server is full");
    assert_eq!(error.class(), Class::Unreachable, "{error:?}");
    assert!(error.to_string().contains(FULL), "{error}");
    assert!(waited >= Duration::from_secs(1), "{waited:?}");
    assert!(waited <= WAIT_MAX * 2, "{waited:?}");
    // The store opens as soon as there is room.
    let url = database.url();
    let opening = tokio::spawn(async move { open(&url).await });
    let refused = cluster.log().matches(FULL).count();
    until("it is refused, and asks again", || {
        cluster.log().matches(FULL).count() > refused + 1
    })
    .await;
    assert!(!opening.is_finished());
    others.truncate(4);
    let store = opening.await.unwrap().unwrap();
    take(&store, "a").await;
}

/// Each store needs two connections for a moment, to prove that they are sessions, and there is
/// room for two.
#[tokio::test(flavor = "multi_thread")]
async fn those_who_open_at_once_do_not_keep_each_other_out() {
    let cluster = small();
    let database = cluster.database();
    drop(open(&database.url()).await.unwrap());
    let mut others = Vec::new();
    fill(&database, &mut others).await;
    others.truncate(ROOM - 2);
    let opening = (0..8).map(|_| {
        let address = Address::parse(&database.url()).unwrap();
        // Longer than any test waits: a store that keeps others out does so to the end.
        let opening = PostgresStore::open(address, OpenOptions::waiting(WAIT_MAX * 20));
        tokio::spawn(async move { opening.await.map(drop) })
    });
    let opening: Vec<_> = opening.collect();
    until("all of them were in", || {
        opening.iter().all(JoinHandle::is_finished)
    })
    .await;
    for opened in opening {
        opened.await.unwrap().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_lost_its_connection_waits_for_room_until_the_deadline() {
    let cluster = small();
    let database = cluster.database();
    let store = open(&database.url()).await.unwrap();
    let lease = take(&store, "a").await;
    let mut others = vec![database.session()];
    // The store's connections are ended, and other programs take their places at once.
    let ours = "SELECT count(pg_terminate_backend(pid)) > 0 FROM pg_stat_activity \
                WHERE application_name LIKE 'tenure%' AND datname = current_database()";
    assert_eq!(others[0].run(ours), "t");
    fill(&database, &mut others).await;
    let asked = request("b", Mode::Write, Duration::from_secs(2));
    let (error, waited) = timed(store.wait_for(&asked)).await;
    let error = error.expect_err("the server is full");
    assert_eq!(error.class(), Class::Unreachable, "{error:?}");
    assert!(error.to_string().contains(FULL), "{error}");
    assert!(waited <= Duration::from_secs(6), "{waited:?} of 2s");
    // The lease is still held, and is given back as soon as there is room.
    let releasing = tokio::spawn(async move { store.release(&lease.lease).await });
    drop(others);
    releasing.await.unwrap().unwrap();
    assert_eq!(database.psql("SELECT count(*) FROM tenure.dal_locks"), "0");
}
