//! A database for one test, the service on it, and waits with a limit.

use std::future::Future;
use std::time::{Duration, Instant};

use tenure_postgres::advisory::{AdvisoryLocks, Namespace, Settings};
use tenure_testkit::postgres::{Cluster, Database};

pub const AGENT: Namespace = Namespace::AGENT;
/// Longer than anything takes that works.
pub const WAIT_MAX: Duration = Duration::from_secs(15);
/// Long enough to measure, short enough to wait for.
pub const SHORT: Duration = Duration::from_millis(300);

pub struct Scene {
    pub locks: AdvisoryLocks,
    pub database: Database,
}

impl Scene {
    pub async fn new() -> Scene {
        Self::with(Settings::default()).await
    }

    pub async fn with(settings: Settings) -> Scene {
        let database = Cluster::shared().database();
        let locks = AdvisoryLocks::open(&database.url(), settings).await;
        let locks = locks.unwrap();
        Scene { locks, database }
    }

    /// Tells whether a foreign program can take the lock.
    pub fn is_free(&self, namespace: Namespace, id: i32) -> bool {
        let sql = format!("SELECT pg_try_advisory_lock({namespace}, {id})");
        self.database.psql(&sql).trim() == "t"
    }

    pub async fn until_free(&self, namespace: Namespace, id: i32) {
        until("the lock is free", || self.is_free(namespace, id)).await;
    }

    /// Counts the holders of advisory locks in this database, or the waiters.
    pub fn entries(&self, granted: bool) -> usize {
        let sql = format!(
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted = {granted} AND database =
             (SELECT oid FROM pg_database WHERE datname = current_database())"
        );
        self.database.psql(&sql).trim().parse().unwrap()
    }

    /// Counts the sessions of the service at the server.
    pub fn sessions(&self) -> usize {
        let sql = "SELECT count(*) FROM pg_stat_activity
                   WHERE datname = current_database() AND application_name LIKE 'tenure advisory%'";
        self.database.psql(sql).trim().parse().unwrap()
    }

    /// Waits until no connection is in use, and none is open that is not kept.
    pub async fn until_whole(&self, free: usize) {
        let whole = || {
            let pool = self.locks.pool_state();
            pool.free == free && self.sessions() == pool.kept
        };
        until("the pool is whole", whole).await;
    }
}

/// Waits until a condition holds; fails after a while.
pub async fn until(what: &str, mut so: impl FnMut() -> bool) {
    let deadline = Instant::now() + WAIT_MAX;
    while !so() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Returns the result, and the time it took.
pub async fn timed<T>(future: impl Future<Output = T>) -> (T, Duration) {
    let started = Instant::now();
    let result = future.await;
    (result, started.elapsed())
}
