//! An application: its own connections and tables, and the lock service beside them.

use std::time::{Duration, Instant};

use tenure_core::Error;
use tenure_postgres::advisory::{AdvisoryLocks, Namespace, Settings};
use tenure_testkit::postgres::{Cluster, Database};
use tokio_postgres::{Client, NoTls};

pub const AGENT: Namespace = Namespace::AGENT;
/// Longer than anything takes that works.
pub const WAIT_MAX: Duration = Duration::from_secs(15);

pub struct Scene {
    pub locks: AdvisoryLocks,
    pub database: Database,
}

impl Scene {
    /// Makes the scene; the statements make the application's tables.
    pub async fn new(tables: &str) -> Scene {
        let database = Cluster::shared().database();
        database.psql(tables);
        let locks = AdvisoryLocks::open(&database.url(), Settings::default()).await;
        let locks = locks.unwrap();
        Scene { locks, database }
    }

    /// Opens a connection of the application.
    pub async fn application(&self) -> Client {
        let (client, connection) = tokio_postgres::connect(&self.database.url(), NoTls)
            .await
            .unwrap();
        tokio::spawn(connection);
        client
    }

    /// Counts the waiters for advisory locks.
    pub fn waiting(&self) -> usize {
        self.count("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
    }

    /// Counts the advisory locks that are held.
    pub fn held(&self) -> usize {
        self.count("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted")
    }

    fn count(&self, sql: &str) -> usize {
        let here = "database = (SELECT oid FROM pg_database WHERE datname = current_database())";
        let counted = self.database.psql(&format!("{sql} AND {here}"));
        counted.trim().parse().unwrap()
    }
}

/// An error of the application: of the locks, or of its own statements.
#[derive(Debug)]
pub enum Trouble {
    Lock(Error),
    #[allow(dead_code, reason = "shown when a test fails")]
    Sql(tokio_postgres::Error),
    Work(&'static str),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Trouble::Lock(error)
    }
}

impl From<tokio_postgres::Error> for Trouble {
    fn from(error: tokio_postgres::Error) -> Self {
        Trouble::Sql(error)
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
