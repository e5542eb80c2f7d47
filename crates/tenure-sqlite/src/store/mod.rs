//! The store on SQLite: leases, lines, sessions and their record in one database.
//!
//! | file | step |
//! |---|---|
//! | `acquire`, `wait` | a new lease, and the line for it |
//! | `upgrade`, `release` | upgradeable to write and back; the end of a lease or a wait |
//! | `renew`, `bind`, `keys` | proof and new time; a time of its own; asked again |
//! | `recover`, `claims`, `breaking` | stale leases, who needs them, and a person's last resort |
//! | `list`, `audit` | who holds and waits; who did what |
//! | `step` | one write transaction: the decision, its changes, who is woken |
//! | `load`, `row`, `moment` | rows as what is decided upon, at one moment |
//! | `sessions` | the sessions of this process, and proof about others |
//!
//! # Invariants
//!
//! - What a step decides is [`decide`](tenure_core::decide::decide)'s. The only shortcuts are
//!   the empty cases: an acquire where nobody holds or waits, a release where nobody waits.
//! - Nothing is relied on before its transaction has committed, and nothing that was granted
//!   before the database was seen to be still at its path.
//! - A proof of death is made outside or inside a transaction, as it suits: it never expires.

mod acquire;
mod audit;
mod bind;
mod breaking;
mod claims;
mod keys;
mod leases;
mod list;
mod load;
mod moment;
mod recover;
mod release;
mod renew;
mod row;
mod sessions;
mod step;
mod upgrade;
mod wait;

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tenure_core::{
    Capabilities, Error, Lease, LeaseId, LeaseStore, Listing, Mode, Place, Query, Reply, Request,
    Resource, Result, SessionId, Store, Token, UpgradeRequest,
};

use crate::connection::{Db, Durability, Sql, retry_busy, retry_busy_blocking};
use crate::wake;
use sessions::Sessions;
use step::{After, Step};

/// How often a holder makes sure that it still holds.
const CHECK_EVERY: Duration = Duration::from_secs(1);
/// How long a drop waits for a busy database.
const BRIEFLY: Duration = Duration::from_secs(1);

/// Leases in a SQLite database. See the [front page](crate) for what it promises.
pub struct SqliteStore {
    url: String,
    path: PathBuf,
    trust: bool,
    wake_directory: PathBuf,
    db: Mutex<Db>,
    sessions: Sessions,
    /// Leases and waits that a drop could not end.
    owed: Mutex<Vec<Owed>>,
    /// The process that opened it. A forked child ends nothing of its parent, and does not
    /// wait for mutexes that a thread of the parent may have held.
    process: u32,
}

/// What a drop could not end.
#[derive(Debug, Clone)]
enum Owed {
    /// A lease.
    Lease(LeaseId),
    /// A place in the line, or what it was granted.
    Place(LeaseId, Resource),
}

impl SqliteStore {
    /// Opens the database at a path, which must be absolute, and makes it if it is not there.
    ///
    /// # Errors
    ///
    /// `Configuration` where locks cannot be trusted, for a database of another program and for
    /// one of a newer Tenure; `Corrupt` for a damaged one; `Io` where the system refuses.
    pub fn open(path: &Path, trust_file_system: bool) -> Result<SqliteStore> {
        let db = Db::open(path, trust_file_system)?;
        let path = db.path().to_owned();
        let directory = path.parent().unwrap_or(Path::new("/"));
        Ok(SqliteStore {
            url: format!("sqlite:{}", path.display()),
            trust: trust_file_system,
            wake_directory: directory.join("wake"),
            sessions: Sessions::new(directory.join("sessions")),
            db: Mutex::new(db),
            owed: Mutex::default(),
            process: std::process::id(),
            path,
        })
    }

    fn db(&self) -> MutexGuard<'_, Db> {
        // A panic inside a transaction has rolled it back.
        self.db.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake_directory(&self) -> &Path {
        &self.wake_directory
    }

    /// Reads, outside any transaction.
    async fn read<T>(&self, mut look: impl FnMut(&Sql<'_>) -> Result<T>) -> Result<T> {
        retry_busy(|| self.db().read(&mut look)).await
    }

    /// Makes a step, as soon as the database is free.
    async fn write<T>(&self, mut make: impl FnMut(&mut Step<'_>) -> Result<T>) -> Result<T> {
        self.settle();
        retry_busy(|| self.write_once(&mut make)).await
    }

    /// Makes a step where nothing can be awaited.
    fn write_briefly<T>(&self, mut make: impl FnMut(&mut Step<'_>) -> Result<T>) -> Result<T> {
        if self.is_forked() {
            return Err(Error::Internal("a forked child ends nothing".into()));
        }
        retry_busy_blocking(BRIEFLY, || self.write_once(&mut make))
    }

    fn write_once<T>(&self, make: &mut impl FnMut(&mut Step<'_>) -> Result<T>) -> Result<T> {
        let mut durability = Durability::Crash;
        loop {
            let mut after = None;
            let mut redo = false;
            let done = self.db().write(durability, |sql| {
                let mut step = Step::new(self, sql)?;
                let done = make(&mut step)?;
                let left = step.after();
                if left.durable && durability == Durability::Crash {
                    // What was written is rolled back, and written again durably.
                    redo = true;
                    return Err(Error::Internal("to be made durable".into()));
                }
                after = Some(left);
                Ok(done)
            });
            if redo {
                durability = Durability::PowerLoss;
                continue;
            }
            let done = done?;
            self.committed(after);
            return Ok(done);
        }
    }

    fn is_forked(&self) -> bool {
        self.process != std::process::id()
    }

    fn committed(&self, after: Option<After>) {
        let Some(After { wake, recorded, .. }) = after else {
            return;
        };
        if let Some(session) = recorded {
            self.sessions.recorded(&session);
        }
        for session in wake {
            wake::wake(&self.wake_directory, &session);
        }
    }

    /// Notes what could not be ended.
    fn owe(&self, owed: Owed) {
        if self.is_forked() {
            return;
        }
        let mut all = self.owed.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(owed);
    }

    /// Ends what is owed, as far as that goes at once.
    fn settle(&self) {
        let owed = {
            let mut owed = self.owed.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *owed)
        };
        for one in owed {
            let ended = match &one {
                Owed::Lease(lease) => self.write_once(&mut |step| release::end_once(step, lease)),
                Owed::Place(lease, resource) => {
                    self.write_once(&mut |step| release::give_up(step, lease, resource))
                }
            };
            match (ended, one) {
                (Ok(_), Owed::Lease(lease)) => self.sessions.no_longer_holds(&lease),
                (Ok(_), Owed::Place(..)) => {}
                (Err(_), one) => self.owe(one),
            }
        }
    }

    fn has_moved(&self) -> bool {
        self.db().has_moved()
    }

    /// After a grant: it counts only in the database that is at the path.
    async fn still_there(&self, lease: &LeaseId) -> Result<()> {
        if !self.has_moved() {
            return Ok(());
        }
        // The database it was granted in may come back; the lease shall not.
        drop(self.write_briefly(|step| release::end_once(step, lease)));
        self.sessions.no_longer_holds(lease);
        self.same_database()
    }

    /// Opens what is at the path now, if that is another database than the one in use. Whoever
    /// waits has to ask again in that one, which the passing error says.
    fn same_database(&self) -> Result<()> {
        if !self.has_moved() {
            return Ok(());
        }
        self.sessions.begin_anew();
        let db = Db::open(&self.path, self.trust)?;
        *self.db() = db;
        let replaced = io::Error::new(io::ErrorKind::WouldBlock, "it was deleted or replaced");
        Err(Error::io("use", &self.path, replaced))
    }

    fn place(&self, resource: &Resource, mode: Mode) -> Box<Place> {
        Box::new(Place {
            resource: resource.clone(),
            mode,
            store: self.url.clone(),
            location: self.path.display().to_string(),
        })
    }

    /// The error for a lease that is not there.
    fn over(&self, lease: &LeaseId) -> Error {
        Error::LeaseOver {
            lease: lease.clone(),
            reason: "it is not held in this store".into(),
        }
    }

    /// The same, with how it ended where that is known.
    async fn gone(&self, lease: &LeaseId) -> Error {
        match self.how_it_ended(lease).await {
            Ok(Some(reason)) => Error::LeaseOver {
                lease: lease.clone(),
                reason,
            },
            _ => self.over(lease),
        }
    }

    /// The error for a lease that protects nothing any more.
    fn lost(&self, lease: &LeaseId, reason: &str) -> Error {
        self.sessions.no_longer_holds(lease);
        Error::LeaseOver {
            lease: lease.clone(),
            reason: reason.to_owned(),
        }
    }

    /// Deletes the rows and files of dead sessions.
    async fn sweep(&self, sessions: &[SessionId]) -> Result<()> {
        let dead = self.read(|sql| self.sessions.dead(sql, sessions)).await?;
        if dead.is_empty() {
            return Ok(());
        }
        self.write(|step| {
            for session in &dead {
                sessions::delete(step.sql, session)?;
            }
            Ok(())
        })
        .await?;
        for session in &dead {
            // A file that stays is swept another time.
            drop(crate::session_file::bury(
                self.sessions.directory(),
                session,
            ));
            wake::bury(&self.wake_directory, session);
        }
        Ok(())
    }
}

impl Store for SqliteStore {
    fn url(&self) -> &str {
        &self.url
    }

    fn place_of(&self, _resource: &Resource) -> String {
        self.path.display().to_string()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            strict_order: true,
            lists_waiters: true,
            cross_process: true,
            slots: true,
            check_every: Some(CHECK_EVERY),
        }
    }

    fn try_acquire<'a>(&'a self, request: &'a Request) -> Reply<'a, Option<Lease>> {
        Box::pin(self.try_take(request))
    }

    fn acquire<'a>(&'a self, request: &'a Request) -> Reply<'a, Lease> {
        Box::pin(self.take(request))
    }

    fn try_upgrade<'a>(&'a self, lease: &'a LeaseId) -> Reply<'a, Option<Token>> {
        Box::pin(self.try_become_write(lease))
    }

    fn upgrade<'a>(&'a self, request: &'a UpgradeRequest) -> Reply<'a, Token> {
        Box::pin(self.become_write(request))
    }

    fn downgrade<'a>(&'a self, lease: &'a LeaseId) -> Reply<'a, Mode> {
        Box::pin(self.become_upgradeable(lease))
    }

    fn renew<'a>(&'a self, lease: &'a LeaseId) -> Reply<'a, ()> {
        Box::pin(self.show(lease))
    }

    fn release<'a>(&'a self, lease: &'a LeaseId) -> Reply<'a, ()> {
        Box::pin(self.end(lease))
    }

    fn abandon(&self, lease: &LeaseId) {
        self.let_go(lease);
    }

    fn list<'a>(&'a self, query: &'a Query) -> Reply<'a, Listing> {
        Box::pin(self.list_page(query))
    }

    fn token<'a>(&'a self, resource: &'a Resource) -> Reply<'a, Token> {
        Box::pin(self.read(move |sql| load::load_token(sql, resource)))
    }

    fn end_session(&self, session: &SessionId) {
        if self.is_forked() {
            return;
        }
        self.settle();
        let Some(file) = self.sessions.forget(session) else {
            return;
        };
        // Row first, file then. Where the row cannot be deleted the file stays: unlocked it
        // proves the session dead, missing it would prove nothing.
        let deleted = self.write_briefly(|step| sessions::delete(step.sql, session));
        if deleted.is_ok() {
            file.end();
        }
    }

    fn leases(&self) -> Option<&dyn LeaseStore> {
        Some(self)
    }

    fn descriptor(&self, lease: &LeaseId) -> Result<Option<OwnedFd>> {
        let file = self.sessions.keeping(lease);
        let file = file.ok_or_else(|| self.over(lease))?;
        file.descriptor().map(Some)
    }
}
