//! The interval at which a holder writes that it is alive.

use std::time::{Duration, Instant};

use tenure::{Class, Guard, Keeper, Mode, Settings};
use tenure_testkit::postgres::Cluster;
use tokio::time::sleep;

use crate::scene::{resource, session, take};

/// The default, which a heartbeat that is set must stay below.
const DEFAULT: Duration = Duration::from_secs(10);

fn every(seconds: u64) -> Settings {
    Settings::default().with_heartbeat(Duration::from_secs(seconds))
}

/// Returns how long after its grant a lease gets its first heartbeat.
async fn first_heartbeat(keeper: &Keeper, guard: &Guard) -> Duration {
    let began = Instant::now();
    loop {
        let lease = keeper.holders(&resource("a")).await.unwrap().remove(0);
        if lease.heartbeat_at > guard.lease().acquired_at {
            return lease.heartbeat_at.since(lease.acquired_at);
        }
        assert!(began.elapsed() < 3 * DEFAULT, "no heartbeat");
        sleep(Duration::from_millis(50)).await;
    }
}

async fn is_heard_as_often_as_set(url: &str) {
    let keeper = Keeper::open_with(url, every(1)).await.unwrap();
    let ana = session(&keeper, "ana").await;
    let guard = take(&ana, "a", Mode::Write).await;
    let first = first_heartbeat(&keeper, &guard).await;
    assert!(
        first >= Duration::from_secs(1) && first < DEFAULT,
        "{first:?}"
    );
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_on_sqlite_writes_heartbeats_as_often_as_set() {
    let directory = tempfile::tempdir().unwrap();
    is_heard_as_often_as_set(&format!("sqlite:{}/locks.db", directory.path().display())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guard_on_postgres_renews_its_lease_as_often_as_set() {
    let database = Cluster::shared().database();
    is_heard_as_often_as_set(&database.url()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unless_it_is_set_a_heartbeat_comes_every_ten_seconds() {
    let database = Cluster::shared().database();
    let directory = tempfile::tempdir().unwrap();
    let sqlite = format!("sqlite:{}/locks.db", directory.path().display());
    let first = async |url: &str| {
        let keeper = Keeper::open(url).await.unwrap();
        let ana = session(&keeper, "ana").await;
        let guard = take(&ana, "a", Mode::Write).await;
        let first = first_heartbeat(&keeper, &guard).await;
        guard.release().await.unwrap();
        first
    };
    let url = database.url();
    let (sqlite, postgres) = tokio::join!(first(&sqlite), first(&url));
    for first in [sqlite, postgres] {
        // A guard looks every other second whether its heartbeat is due.
        let is_about_ten = first > DEFAULT - Duration::from_secs(1) && first < DEFAULT * 3 / 2;
        assert!(is_about_ten, "{first:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_heartbeat_too_seldom_for_the_lease_or_too_often_is_refused() {
    let database = Cluster::shared().database();
    let directory = tempfile::tempdir().unwrap();
    let sqlite = format!("sqlite:{}/locks.db", directory.path().display());
    let short = format!("{}?lease_ttl=6s", database.url());
    for (url, seconds) in [
        (database.url(), 11),
        (short, 3),
        (database.url(), 0),
        (sqlite, 0),
    ] {
        let error = Keeper::open_with(&url, every(seconds)).await.unwrap_err();
        assert_eq!(error.class(), Class::Configuration, "{error}");
        assert!(error.to_string().contains("heartbeat"), "{error}");
    }
    // A heartbeat may take up to a third of the lease.
    Keeper::open_with(&database.url(), every(10)).await.unwrap();
}
