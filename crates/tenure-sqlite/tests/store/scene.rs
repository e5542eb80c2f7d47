//! A database for one test, the sessions that use it, and ways to disturb it.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tempfile::TempDir;
use tenure::{
    Guard, Keeper, Listing, Mode, Options, Owner, Query, Resource, Result, Session, SessionOptions,
    Waiting,
};
use tenure_testkit::agent::Agent;
use tenure_testkit::agent::process::this_test_binary;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Everything a test waits for happens within this time, or the test fails.
pub const DEADLINE: Duration = Duration::from_secs(30);
/// The time between two looks at a condition.
const PAUSE: Duration = Duration::from_millis(2);

/// A fresh database, removed at the end.
pub struct Scene {
    directory: TempDir,
}

impl Scene {
    /// Makes a database in memory where there is such a place: other tests test durability.
    pub fn new() -> Self {
        let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let directory = directory.unwrap();
        Self { directory }
    }

    /// Returns a path in the directory of the database.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join("tenure").join(name)
    }

    pub fn url(&self) -> String {
        format!("sqlite:{}", self.path("tenure.db").display())
    }

    pub async fn keeper(&self) -> Keeper {
        Keeper::open(&self.url()).await.unwrap()
    }

    /// Starts a process of its own with a session.
    pub fn process(&self, owner: &str) -> Agent {
        Agent::process(self.process_command(), owner)
    }

    pub fn process_command(&self) -> Command {
        this_test_binary(&self.url())
    }

    /// Opens a connection without any of the store's rules. It goes through the SQLite of the
    /// store: another way to open and close the file would drop the locks of this process.
    pub fn raw(&self) -> Connection {
        Connection::open(self.path("tenure.db")).unwrap()
    }

    /// Counts the rows of a table.
    pub fn rows(&self, table: &str) -> u32 {
        let count = format!("SELECT count(*) FROM {table}");
        let counted = self.raw().query_row(&count, [], |row| row.get::<_, u32>(0));
        counted.unwrap()
    }

    /// Returns the names in a folder beside the database.
    pub fn names(&self, folder: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path(folder)) else {
            return Vec::new();
        };
        let names = entries.map(|entry| entry.unwrap().file_name());
        names.map(|name| name.into_string().unwrap()).collect()
    }

    /// Keeps the database locked for writing until the result is dropped, as a process stopped
    /// inside a transaction does.
    pub fn busy(&self) -> Busy {
        let connection = self.raw();
        connection.busy_timeout(DEADLINE).unwrap();
        connection.execute_batch("BEGIN IMMEDIATE").unwrap();
        Busy {
            _locked: connection,
        }
    }

    /// Deletes the database; the sessions and the anchor stay.
    pub fn delete_database(&self) {
        for name in ["tenure.db", "tenure.db-wal", "tenure.db-shm"] {
            // A session that opens the database at this moment may not have made all three files.
            drop(fs::remove_file(self.path(name)));
        }
    }

    /// Deletes the database with everything beside it.
    pub fn delete_all(&self) {
        fs::remove_dir_all(self.path("")).unwrap();
    }

    /// Puts a copy of the database, as it is now, in its place.
    pub fn replace_by_copy(&self) {
        let copy = self.path("copy");
        let into = format!("VACUUM INTO '{}'", copy.display());
        self.raw().execute_batch(&into).unwrap();
        self.delete_database();
        fs::rename(copy, self.path("tenure.db")).unwrap();
    }
}

/// A write lock on the database.
#[must_use = "the database is free when this is dropped"]
pub struct Busy {
    /// Rolls back when it is closed.
    _locked: Connection,
}

pub fn resource(text: &str) -> Resource {
    Resource::parse(text).unwrap()
}

pub async fn session(keeper: &Keeper, owner: &str) -> Session {
    let owner = Owner::parse(owner).unwrap();
    let options = SessionOptions::new(owner);
    keeper.session(options)
}

fn wait(limit: Duration) -> Options {
    Options::default().with_wait(limit)
}

/// Asks for a lock for a while. The test fails if the answer comes far too late.
pub async fn acquire(session: &Session, name: &str, mode: Mode, limit: Duration) -> Result<Guard> {
    let (resource, options) = (resource(name), wait(limit));
    let asked = session.acquire(&resource, mode, &options);
    timeout(limit + DEADLINE, asked).await.unwrap()
}

/// Takes a lock, waiting for it.
pub async fn take(session: &Session, name: &str, mode: Mode) -> Guard {
    acquire(session, name, mode, DEADLINE).await.unwrap()
}

/// Takes a lock if that needs no waiting.
pub async fn try_take(session: &Session, name: &str, mode: Mode) -> Option<Guard> {
    let (resource, options) = (resource(name), Options::default());
    let tried = session.try_acquire(&resource, mode, &options);
    timeout(DEADLINE, tried).await.unwrap().unwrap()
}

/// Asks for a lock in a task of its own, and returns when the request is in line.
pub async fn ask(
    session: &Session,
    name: &str,
    mode: Mode,
    limit: Duration,
) -> JoinHandle<Result<Guard>> {
    let (asker, name) = (session.clone(), name.to_owned());
    let asking = async move { acquire(&asker, &name, mode, limit).await };
    let asking = tokio::spawn(asking);
    until_in_line(session.keeper(), session.owner().as_str()).await;
    asking
}

/// Returns everything that is held and awaited. Listing never waits for a writer.
pub async fn list(keeper: &Keeper) -> Listing {
    let query = Query::default();
    let listed = timeout(DEADLINE, keeper.list(&query)).await;
    listed.unwrap().unwrap()
}

pub async fn waiting(keeper: &Keeper) -> Vec<Waiting> {
    list(keeper).await.waiting.unwrap()
}

/// Waits until an owner is in line.
pub async fn until_in_line(keeper: &Keeper, owner: &str) {
    until(&format!("{owner} is in line"), async || {
        let waiting = waiting(keeper).await;
        waiting.iter().any(|waiter| waiter.owner.as_str() == owner)
    })
    .await;
}

/// Waits until no request is in line.
pub async fn until_nobody_waits(keeper: &Keeper) {
    until("nobody waits", async || waiting(keeper).await.is_empty()).await;
}

/// Returns the locks held, with owners and modes.
pub async fn held(keeper: &Keeper) -> Vec<String> {
    let listing = list(keeper).await;
    let show = |lease: tenure::Lease| format!("{} {} {}", lease.owner, lease.resource, lease.mode);
    listing.held.into_iter().map(show).collect()
}

/// Looks again and again until a condition holds.
pub async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) -> Duration {
    let began = Instant::now();
    while !holds().await {
        assert!(began.elapsed() < DEADLINE, "in vain: {what}");
        tokio::time::sleep(PAUSE).await;
    }
    began.elapsed()
}
