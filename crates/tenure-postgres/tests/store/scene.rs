//! A database for one test, the store on it, requests, and waits with a limit.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tenure_core::decide::Wait;
use tenure_core::{
    Asker, Error, Lease, LeaseId, LeaseStore, LockContext, Mode, Owner, Reply, Request, Resource,
    Result, SessionId, Store, Token, UpgradeRequest,
};
use tenure_os::clock;
use tenure_postgres::{Address, OpenOptions, PostgresStore};
use tenure_testkit::postgres::{Cluster, Database};

/// Longer than anything takes that works.
pub const WAIT_MAX: Duration = Duration::from_secs(15);
/// Long enough to measure, short enough to wait for.
pub const SHORT: Duration = Duration::from_millis(300);

/// A store on a database of its own.
pub struct Scene {
    // Declared before the database, so that it ends first.
    pub store: PostgresStore,
    pub database: Database,
}

impl Scene {
    pub async fn new() -> Scene {
        Self::with("").await
    }

    /// Makes a scene with more in the address, such as `?lease_ttl=1s`.
    pub async fn with(query: &str) -> Scene {
        let database = Cluster::shared().database();
        let store = open(&format!("{}{query}", database.url())).await.unwrap();
        Scene { store, database }
    }

    /// Returns the store of leases of their own.
    pub fn leases(&self) -> &dyn LeaseStore {
        self.store.leases().unwrap()
    }

    /// Counts the waiters for all resources.
    pub fn waiting(&self) -> usize {
        self.count("tenure.waiters").parse().unwrap()
    }

    /// Counts rows, given as a table and its conditions; returns the number as psql prints it.
    pub fn count(&self, rows: &str) -> String {
        self.database.psql(&format!("SELECT count(*) FROM {rows}"))
    }
}

/// Opens a store as any other process would.
pub async fn open(url: &str) -> Result<PostgresStore> {
    PostgresStore::open(Address::parse(url)?, OpenOptions::waiting(WAIT_MAX)).await
}

/// Returns the address for another user.
pub fn as_role(url: &str, role: &str) -> String {
    let other = url.replacen("postgres@", &format!("{role}@"), 1);
    assert!(other.contains(role), "{other}");
    other
}

/// Returns a unique name for a role: roles belong to the whole server.
pub fn unique(word: &str) -> String {
    format!("{word}_{}_{}", std::process::id(), number())
}

fn number() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed) + 1
}

/// Returns an asker in a session of its own.
pub fn asker(owner: &str) -> Arc<Asker> {
    Arc::new(Asker {
        session: SessionId::parse(&unique("session").replace('_', "-")).unwrap(),
        owner: Owner::parse(owner).unwrap(),
        pid: std::process::id(),
        host: "here".into(),
        command: "a test".into(),
        agent: None,
    })
}

pub fn resource(text: &str) -> Resource {
    Resource::parse(text).unwrap()
}

/// Returns a request by a session of its own.
pub fn request(name: &str, mode: Mode, wait: Duration) -> Request {
    request_by(&asker("ana"), name, mode, wait)
}

pub fn request_by(asker: &Arc<Asker>, name: &str, mode: Mode, wait: Duration) -> Request {
    let wait_ms = u64::try_from(wait.as_millis()).unwrap();
    Request {
        standing: Default::default(),
        lease: LeaseId::parse(&unique("lease").replace('_', "-")).unwrap(),
        resource: resource(name),
        mode,
        asker: Arc::clone(asker),
        purpose: None,
        metadata: None,
        deadline: Some(clock::now().after(wait)),
        wait: Wait::Until(clock::boot_now() + wait_ms),
        capacity: None,
    }
}

/// Short calls for tests: they return the lease itself, or say that it was not granted.
pub trait Asks: Store {
    /// Waits for a lock. The error is busy if the lock was not free in time.
    fn wait_for<'a>(&'a self, request: &'a Request) -> Reply<'a, Lease> {
        Box::pin(async move {
            let lease = self.acquire(request).await?;
            lease.ok_or_else(|| busy(self.url(), &request.resource, request.mode))
        })
    }

    /// Takes a lock if that needs no waiting.
    fn try_acquire<'a>(&'a self, request: &'a Request) -> Reply<'a, Option<Lease>> {
        Box::pin(async move {
            let request = Request {
                wait: Wait::No,
                ..request.clone()
            };
            self.acquire(&request).await
        })
    }

    /// Waits for an upgrade. The error is busy if it was not granted in time.
    fn wait_for_upgrade<'a>(&'a self, request: &'a UpgradeRequest) -> Reply<'a, Token> {
        Box::pin(async move {
            let token = self.upgrade(request).await?;
            token.ok_or_else(|| busy(self.url(), &resource("upgrade"), Mode::Write))
        })
    }

    /// Makes a lease exclusive if that needs no waiting.
    fn try_upgrade<'a>(&'a self, lease: &'a LeaseId) -> Reply<'a, Option<Token>> {
        Box::pin(async move {
            let request = UpgradeRequest {
                standing: Default::default(),
                lease: lease.clone(),
                asker: asker("ana"),
                deadline: None,
                wait: Wait::No,
            };
            self.upgrade(&request).await
        })
    }
}

impl<S: Store + ?Sized> Asks for S {}

fn busy(store: &str, resource: &Resource, mode: Mode) -> Error {
    Error::Busy {
        context: Box::new(LockContext::new(
            resource.clone(),
            mode,
            store,
            String::new(),
        )),
        holders: Vec::new(),
    }
}

/// Takes a free lock for writing.
pub async fn take(store: &PostgresStore, name: &str) -> Lease {
    let request = request(name, Mode::Write, WAIT_MAX);
    store.wait_for(&request).await.unwrap()
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
