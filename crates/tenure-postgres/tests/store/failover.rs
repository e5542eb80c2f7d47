//! The server is lost, and the standby that is promoted had not heard of the last grants.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tenure_core::{Class, LeaseId, Mode, Store, Token};
use tenure_postgres::PostgresStore;
use tenure_postgres::advisory::{AdvisoryLocks, Namespace, Settings};
use tenure_testkit::postgres::{self, Cluster, Database, Stop};

use crate::scene::{Asks, WAIT_MAX, open, request, take, until};

/// A server, its standby, and one database on both.
struct Pair {
    standby_database: Database,
    database: Database,
    standby: Cluster,
    primary: Cluster,
}

impl Pair {
    fn new() -> Self {
        let primary = Cluster::with(&postgres::Settings::default());
        let database = primary.database();
        let standby = primary.standby();
        let standby_database = standby.copy_of(&database);
        Self {
            standby_database,
            database,
            standby,
            primary,
        }
    }

    /// Waits until the standby has everything that was committed.
    async fn until_level(&self) {
        let written = self.database.psql("SELECT pg_current_wal_lsn()");
        let replayed = format!("SELECT pg_last_wal_replay_lsn() >= '{written}'");
        until("the standby has all of it", || {
            self.standby_database.psql(&replayed) == "t"
        })
        .await;
    }

    /// Cuts the standby off: it shows nothing new from now on, and lacks it when it is promoted.
    async fn cut_off(&self) {
        self.until_level().await;
        let connection = "ALTER SYSTEM SET primary_conninfo = ''; SELECT pg_reload_conf()";
        self.standby_database.psql(connection);
        let receives = "SELECT count(*) FROM pg_stat_wal_receiver";
        until("the standby hears nothing more", || {
            self.standby_database.psql(receives) == "0"
        })
        .await;
    }

    /// Crashes the server, and promotes the standby.
    fn fail_over(&mut self) {
        self.primary.stop(Stop::Crash);
        self.standby.promote();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standby_is_refused_with_where_to_go() {
    let pair = Pair::new();
    drop(open(&pair.database.url()).await.unwrap());
    pair.until_level().await;
    let refused = open(&pair.standby_database.url()).await.err().unwrap();
    assert_eq!(refused.class(), Class::Configuration, "{refused:?}");
    assert!(
        refused.remedy().to_string().contains("primary"),
        "{refused:?}"
    );
    let locks = AdvisoryLocks::open(&pair.standby_database.url(), Settings::default()).await;
    let refused = locks.err().unwrap();
    assert_eq!(refused.class(), Class::Configuration, "{refused:?}");
    assert!(
        refused.remedy().to_string().contains("primary"),
        "{refused:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_do_not_go_back_when_a_standby_that_missed_the_last_grants_is_promoted() {
    let mut pair = Pair::new();
    let store = open(&pair.database.url()).await.unwrap();
    let known = take(&store, "a").await;
    store.release(&known.lease).await.unwrap();
    pair.cut_off().await;
    let mut last = known.token;
    for _ in 0..20 {
        let lease = take(&store, "a").await;
        assert!(lease.token > last);
        last = lease.token;
        store.release(&lease.lease).await.unwrap();
    }
    let lost = take(&store, "b").await;
    pair.fail_over();
    let after = open(&pair.standby_database.url()).await.unwrap();
    let forgotten = pair
        .standby_database
        .psql("SELECT token FROM tenure.resources");
    assert_eq!(forgotten, known.token.to_string());
    assert!(take(&after, "a").await.token > last);
    // A lease that only the lost server knew is free here; its late holder is told so.
    let refused = after.renew(&lost.lease).await.unwrap_err();
    assert_eq!(refused.class(), Class::NotAllowed, "{refused:?}");
    assert!(take(&after, "b").await.token > lost.token);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_standby_heard_of_is_held_after_it_is_promoted() {
    let mut pair = Pair::new();
    let store = open(&pair.database.url()).await.unwrap();
    let lease = take(&store, "a").await;
    pair.until_level().await;
    pair.fail_over();
    let after = open(&pair.standby_database.url()).await.unwrap();
    let left = after.renew(&lease.lease).await.unwrap();
    assert!(left.is_some_and(|left| !left.is_zero()));
    after.release(&lease.lease).await.unwrap();
    assert!(take(&after, "a").await.token > lease.token);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_holds_and_who_waits_go_on_at_the_other_host_of_their_address() {
    let mut pair = Pair::new();
    let url = format!(
        "postgres://postgres@127.0.0.1:{},127.0.0.1:{}/{}?target_session_attrs=read-write",
        pair.primary.port(),
        pair.standby.port(),
        pair.database.name()
    );
    let (holder, waiter) = (open(&url).await.unwrap(), open(&url).await.unwrap());
    let lease = take(&holder, "a").await;
    let asked = request("a", Mode::Write, 2 * WAIT_MAX);
    let waiting = waiter.wait_for(&asked);
    let go_on = async {
        let waits = "SELECT count(*) FROM tenure.waiters";
        until("the other waits", || pair.database.psql(waits) == "1").await;
        pair.until_level().await;
        pair.fail_over();
        let left = renewed(&holder, &lease.lease).await;
        assert!(left.is_some_and(|left| !left.is_zero()));
        assert_eq!(pair.standby_database.psql(waits), "1");
        holder.release(&lease.lease).await.unwrap();
    };
    let (granted, ()) = tokio::join!(waiting, go_on);
    let granted = granted.unwrap();
    assert!(granted.token > lease.token);
    waiter.release(&granted.lease).await.unwrap();
}

/// Renews as a guard does: again and again, while there is time.
async fn renewed(store: &PostgresStore, lease: &LeaseId) -> Option<Duration> {
    let deadline = Instant::now() + WAIT_MAX;
    loop {
        match store.renew(lease).await {
            Ok(left) => return left,
            Err(error) if error.is_passing() && Instant::now() < deadline => {}
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_of_advisory_locks_do_not_go_back_when_a_standby_is_promoted() {
    let mut pair = Pair::new();
    let draw = async |database: &Database, times: usize| -> Token {
        let locks = AdvisoryLocks::open(&database.url(), Settings::default()).await;
        let locks = Arc::new(locks.unwrap());
        let mut last = None;
        for _ in 0..times {
            let guard = locks.lock(Namespace::AGENT, 1, WAIT_MAX).await.unwrap();
            assert!(last < Some(guard.token()));
            last = Some(guard.token());
            guard.release().await.unwrap();
        }
        last.unwrap()
    };
    draw(&pair.database, 1).await;
    pair.cut_off().await;
    // This is more than the server logs ahead of its draws.
    let last = draw(&pair.database, 200).await;
    pair.fail_over();
    assert!(draw(&pair.standby_database, 1).await > last);
}
