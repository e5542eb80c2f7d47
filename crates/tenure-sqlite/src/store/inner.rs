//! The database in use: reads and steps, and what is done when it was deleted or replaced.
//!
//! # A database that moves away
//!
//! 1. Every step looks, after its commit and before anyone hears of it, whether the file is still at
//!    its path; every read looks before it is told. If it is not, the caller gets a passing
//!    error, and asks again.
//! 2. Whoever notices opens what is at the path now. That is refused while a session is alive
//!    that may hold leases in the old file (`anchor`), its own ones too: their guards learn of
//!    the loss within a second, and the sessions end when those are dropped.
//! 3. Sessions of this process that hold nothing give up their files first: they wait, and begin
//!    anew. That they hold nothing is known for sure, because a grant is noted under the same
//!    mutex under which it was committed.
//!
//! All of it happens under the mutex of the connection, so that no step ever notes in one
//! database what it did in another.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tenure_core::{Error, LeaseId, Mode, Place, Resource, Result, SessionId};

use super::owed::Debts;
use super::sessions::{self, Sessions};
use super::step::{After, Step};
use crate::connection::{Db, Durability, Sql, retry_busy, retry_busy_blocking};
use crate::{session_file, wake};

/// How long a drop waits for a busy database.
const BRIEFLY: Duration = Duration::from_secs(1);

/// What the store and its background work have in common.
pub(super) struct Inner {
    /// Itself, for work that goes on after a drop.
    pub(super) itself: Weak<Inner>,
    url: String,
    path: PathBuf,
    trust: bool,
    wake_directory: PathBuf,
    db: Mutex<Db>,
    pub(super) sessions: Sessions,
    pub(super) debts: Debts,
    /// The process that opened it. A forked child ends nothing of its parent, and does not
    /// wait for mutexes that a thread of the parent may have held.
    process: u32,
}

impl Inner {
    pub(super) fn open(path: &Path, trust: bool) -> Result<Arc<Inner>> {
        let db = Db::open(path, trust)?;
        let path = db.path().to_owned();
        let directory = path.parent().unwrap_or(Path::new("/")).to_owned();
        Ok(Arc::new_cyclic(|itself| Inner {
            itself: Weak::clone(itself),
            url: format!("sqlite:{}", path.display()),
            trust,
            wake_directory: directory.join("wake"),
            sessions: Sessions::new(directory.join("sessions")),
            db: Mutex::new(db),
            debts: Debts::default(),
            process: std::process::id(),
            path,
        }))
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn wake_directory(&self) -> &Path {
        &self.wake_directory
    }

    pub(super) fn db(&self) -> MutexGuard<'_, Db> {
        // A panic inside a transaction has rolled it back.
        self.db.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_forked(&self) -> bool {
        self.process != std::process::id()
    }

    /// Reads, outside any transaction.
    pub(super) async fn read<T>(&self, mut look: impl FnMut(&Sql<'_>) -> Result<T>) -> Result<T> {
        retry_busy(|| {
            let mut db = self.db();
            let seen = db.read(&mut look);
            self.same_database(&mut db)?;
            seen
        })
        .await
    }

    /// Makes a step, as soon as the database is free.
    pub(super) async fn write<T>(
        &self,
        mut make: impl FnMut(&mut Step<'_>) -> Result<T>,
    ) -> Result<T> {
        retry_busy(|| self.write_once(&mut make)).await
    }

    /// Makes a step where nothing can be awaited.
    pub(super) fn write_briefly<T>(
        &self,
        mut make: impl FnMut(&mut Step<'_>) -> Result<T>,
    ) -> Result<T> {
        if self.is_forked() {
            return Err(Error::Internal("a forked child ends nothing".into()));
        }
        retry_busy_blocking(BRIEFLY, || self.write_once(&mut make))
    }

    /// Makes a step if the database is free at this moment.
    pub(super) fn write_once<T>(
        &self,
        make: &mut impl FnMut(&mut Step<'_>) -> Result<T>,
    ) -> Result<T> {
        let mut db = self.db();
        let mut durability = Durability::Crash;
        loop {
            let mut after = None;
            let mut redo = false;
            let done = db.write(durability, |sql| {
                let mut step = Step::new(self, sql)?;
                let done = make(&mut step)?;
                step.bury_dead()?;
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
            let done = match done {
                Ok(done) => done,
                Err(error) => {
                    self.same_database(&mut db)?;
                    return Err(error);
                }
            };
            self.same_database(&mut db)?;
            if let Some(after) = &after {
                self.sessions.note(&after.granted);
            }
            drop(db);
            self.committed(after);
            return Ok(done);
        }
    }

    /// What a committed step leaves to be done, when the database is free for others.
    fn committed(&self, after: Option<After>) {
        let Some(After { wake, buried, .. }) = after else {
            return;
        };
        for session in wake {
            wake::wake(&self.wake_directory, &session);
        }
        for session in buried {
            self.clear_up(&session);
        }
    }

    /// Removes the files of a session whose row is gone.
    pub(super) fn clear_up(&self, session: &SessionId) {
        // A file that stays is swept another time.
        drop(session_file::bury(self.sessions.directory(), session));
        wake::bury(&self.wake_directory, session);
    }

    pub(super) fn has_moved(&self) -> bool {
        self.db().has_moved()
    }

    /// Looks whether the database has moved away.
    pub(super) fn look_at_database(&self) -> Result<()> {
        self.same_database(&mut self.db())
    }

    /// Opens what is at the path now, if that is another database than the one in use. The
    /// passing error says that everything has to be asked again in that one.
    fn same_database(&self, db: &mut Db) -> Result<()> {
        if !db.has_moved() {
            return Ok(());
        }
        self.sessions.begin_anew();
        *db = Db::reopen(&self.path, self.trust)?;
        let replaced = io::Error::new(io::ErrorKind::WouldBlock, "it was deleted or replaced");
        Err(Error::io("use", &self.path, replaced))
    }

    pub(super) fn end_session(&self, session: &SessionId) {
        if self.is_forked() {
            return;
        }
        let Some(ending) = self.sessions.forget(session) else {
            return;
        };
        // Row first, file then. Where the row cannot be deleted the file stays: unlocked it
        // proves the session dead, missing it would prove nothing.
        let deleted = match ending.row_is_gone {
            true => Ok(()),
            false => self.write_briefly(|step| sessions::delete(step.sql, session)),
        };
        if deleted.is_ok() {
            ending.file.end();
        }
        wake::bury(&self.wake_directory, session);
    }

    pub(super) fn descriptor(&self, lease: &LeaseId) -> Result<OwnedFd> {
        let file = self.sessions.keeping(lease);
        let file = file.ok_or_else(|| self.over(lease))?;
        file.descriptor()
    }

    pub(super) fn place(&self, resource: &Resource, mode: Mode) -> Box<Place> {
        Box::new(Place {
            resource: resource.clone(),
            mode,
            store: self.url.clone(),
            location: self.path.display().to_string(),
        })
    }

    /// The error for a request whose time is over.
    pub(super) fn late(&self, resource: &Resource, mode: Mode) -> Error {
        Error::Busy {
            place: self.place(resource, mode),
            holders: Vec::new(),
        }
    }

    /// The error for a lease that is not there.
    pub(super) fn over(&self, lease: &LeaseId) -> Error {
        Error::LeaseOver {
            lease: lease.clone(),
            reason: "it is not held in this store".into(),
        }
    }

    /// The same, with how it ended where that is known.
    pub(super) async fn gone(&self, lease: &LeaseId) -> Error {
        match self.how_it_ended(lease).await {
            Ok(Some(reason)) => Error::LeaseOver {
                lease: lease.clone(),
                reason,
            },
            _ => self.over(lease),
        }
    }
}
