//! A database of one's own, the service on it, and patience with a limit.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tenure_core::{Asker, LeaseId, Mode, Owner, Request, Resource, SessionId};
use tenure_postgres::{AdvisoryLocks, Namespace, PoolState, Settings};
use tenure_testkit::postgres::{Cluster, Database};

pub const AGENT: Namespace = Namespace::AGENT;
/// Longer than anything takes that works.
pub const PATIENCE: Duration = Duration::from_secs(15);
/// Long enough to be measured, short enough to be waited for.
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

    /// Whether a foreign program can take the lock.
    pub fn is_free(&self, namespace: Namespace, id: i32) -> bool {
        let sql = format!("SELECT pg_try_advisory_lock({namespace}, {id})");
        self.database.psql(&sql).trim() == "t"
    }

    pub async fn until_free(&self, namespace: Namespace, id: i32) {
        until("the lock is free", || self.is_free(namespace, id)).await;
    }

    /// How many hold or wait for advisory locks in this database.
    pub fn entries(&self, granted: bool) -> usize {
        let sql = format!(
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted = {granted} AND database =
             (SELECT oid FROM pg_database WHERE datname = current_database())"
        );
        self.database.psql(&sql).trim().parse().unwrap()
    }

    /// How many sessions of the service there are at the server.
    pub fn sessions(&self) -> usize {
        let sql = "SELECT count(*) FROM pg_stat_activity
                   WHERE datname = current_database() AND application_name LIKE 'tenure advisory%'";
        self.database.psql(sql).trim().parse().unwrap()
    }

    /// Waits until no connection is in use, and none is open that is not kept.
    pub async fn until_whole(&self, free: usize) {
        let whole = || {
            let PoolState { kept, free: now } = self.locks.pool_state();
            now == free && self.sessions() == kept
        };
        until("the pool is whole", whole).await;
    }
}

/// A request for a resource, by a session of its own, without a deadline.
pub fn request(name: &str, mode: Mode) -> Request {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let number = LAST.fetch_add(1, Ordering::Relaxed);
    let asker = Asker {
        session: SessionId::parse(&format!("session-{number}")).unwrap(),
        owner: Owner::parse("ana").unwrap(),
        pid: std::process::id(),
        host: "here".into(),
        command: "a test".into(),
    };
    Request {
        lease: LeaseId::parse(&format!("lease-{number}")).unwrap(),
        resource: Resource::parse(name).unwrap(),
        mode,
        asker: Arc::new(asker),
        purpose: None,
        metadata: None,
        deadline: None,
        until: None,
        capacity: None,
    }
}

/// Waits until something is so; fails after a while.
pub async fn until(what: &str, mut so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !so() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The result, and how long it took.
pub async fn timed<T>(future: impl Future<Output = T>) -> (T, Duration) {
    let started = Instant::now();
    let result = future.await;
    (result, started.elapsed())
}
