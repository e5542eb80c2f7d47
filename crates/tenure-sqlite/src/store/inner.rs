//! The database in use: reads and steps, and what is done when it was deleted or replaced.
//!
//! # A database that moves away
//!
//! 1. Every step looks, after its commit and before anyone hears of it, whether the file is still at
//!    its path; every read looks before it is told. If it is not, the caller gets a passing
//!    error, and asks again.
//! 2. Whoever notices closes what it has, and opens what is at the path now. That is refused
//!    while a session is alive that may hold leases in the old file (`anchor`), its own ones too:
//!    their guards learn of the loss within a second, and the sessions end when those are
//!    dropped. Until then there is no database in use, and the error that says so passes: who has
//!    time to wait asks again. A process that meets this when it starts does the same.
//! 3. Sessions of this process that hold nothing give up their files first: they wait, and begin
//!    anew. That they hold nothing is known for sure, because a grant is noted under the same
//!    mutex under which it was committed.
//!
//! Everything that is held while there is no database is lost: it was held in another one.
//!
//! # A log that is taken away
//!
//! Without the log the database is an older one of itself, and `anchor` keeps newcomers out. But
//! whoever has the old log open sees nothing of the new one: it reads and writes what reaches
//! nobody. So each holder looks every second, and each waiter when its timer ends, whether the
//! log is still at its path. The old one is never folded into the database, which others use with
//! another one.
//!
//! All of it happens under the mutex of the connection, so that no step ever notes in one
//! database what it did in another.

use std::io;
use std::ops::{Deref, DerefMut};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tenure_core::{Error, LeaseId, Mode, Place, Resource, Result, SessionId};

use super::owed::Debts;
use super::sessions::{self, Sessions};
use super::step::{After, Step};
use crate::anchor::is_replaced;
use crate::connection::{Db, Durability, Sql, retry_busy, retry_busy_blocking};
use crate::{session_file, wake};

/// The database in use, and nobody else of this process uses it meanwhile.
pub(super) struct InUse<'a>(MutexGuard<'a, Option<Db>>);

impl Deref for InUse<'_> {
    type Target = Db;

    fn deref(&self) -> &Db {
        self.0.as_ref().expect("made only where one is open")
    }
}

impl DerefMut for InUse<'_> {
    fn deref_mut(&mut self) -> &mut Db {
        self.0.as_mut().expect("made only where one is open")
    }
}

/// How long a drop waits for a busy database, before what it has to do is owed.
const BRIEFLY: Duration = Duration::from_millis(100);

/// What the store and its background work have in common.
pub(super) struct Inner {
    /// Itself, for work that goes on after a drop.
    pub(super) itself: Weak<Inner>,
    url: String,
    path: PathBuf,
    trust: bool,
    wake_directory: PathBuf,
    /// None while what is at the path may not be used yet.
    db: Mutex<Option<Db>>,
    pub(super) sessions: Sessions,
    pub(super) debts: Debts,
    /// The process that opened it. A forked child ends nothing of its parent, and does not
    /// wait for mutexes that a thread of the parent may have held.
    process: u32,
}

impl Inner {
    pub(super) fn open(path: &Path, trust: bool) -> Result<Arc<Inner>> {
        let path = Db::settle(path, trust)?;
        let db = match Db::open(&path) {
            Err(error) if is_replaced(&error) => None,
            opened => Some(opened?),
        };
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

    /// The database, opened if it could not be before.
    pub(super) fn db(&self) -> Result<InUse<'_>> {
        let mut slot = self.slot();
        if slot.is_none() {
            self.sessions.begin_anew();
            *slot = Some(Db::reopen(&self.path, self.trust)?);
        }
        Ok(InUse(slot))
    }

    fn slot(&self) -> MutexGuard<'_, Option<Db>> {
        // A panic inside a transaction has rolled it back.
        self.db.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_forked(&self) -> bool {
        self.process != std::process::id()
    }

    /// Reads, outside any transaction.
    pub(super) async fn read<T>(&self, mut look: impl FnMut(&Sql<'_>) -> Result<T>) -> Result<T> {
        retry_busy(|| {
            let db = self.db()?;
            let seen = db.read(&mut look);
            self.same_database(db)?;
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
        let mut db = self.db()?;
        let made = self.make(&mut db, make);
        if let Err(error) = &made {
            self.sessions.settle();
            if is_replaced(error) && db.has_lost_its_log() {
                return Err(self.open_anew(db));
            }
        }
        let db = self.same_database(db)?;
        let (done, after) = made?;
        self.sessions.note(after.granted);
        drop(db);
        for session in &after.wake {
            wake::wake(&self.wake_directory, session);
        }
        for session in &after.buried {
            self.clear_up(session);
        }
        Ok(done)
    }

    /// One transaction; a second one if the first turns out to have to be durable.
    fn make<T>(
        &self,
        db: &mut Db,
        make: &mut impl FnMut(&mut Step<'_>) -> Result<T>,
    ) -> Result<(T, After)> {
        let mut durability = Durability::Crash;
        loop {
            let mut redo = false;
            let made = db.write(durability, |sql| {
                let mut step = Step::new(self, sql)?;
                let done = make(&mut step)?;
                step.bury_dead()?;
                let left = step.after();
                if left.durable && durability == Durability::Crash {
                    // What was written is rolled back, and written again durably.
                    redo = true;
                    return Err(Error::Internal("to be made durable".into()));
                }
                Ok((done, left))
            });
            if !redo {
                return made;
            }
            self.sessions.settle();
            durability = Durability::PowerLoss;
        }
    }

    /// Removes the files of a session whose row is gone.
    pub(super) fn clear_up(&self, session: &SessionId) {
        let pipe = || wake::bury(&self.wake_directory, session);
        // A file that stays is swept another time.
        drop(session_file::bury(self.sessions.directory(), session, pipe));
    }

    /// Whether what this process holds was held in another database than the one that others
    /// use. One that others cannot reach any more is closed.
    pub(super) fn is_cut_off(&self) -> bool {
        let mut slot = self.slot();
        let cut_off = slot
            .as_ref()
            .is_none_or(|db| db.has_moved() || db.has_lost_its_log());
        if cut_off {
            *slot = None;
        }
        cut_off
    }

    /// Looks closely whether the database, or its log, was taken away.
    pub(super) fn look_at_database(&self) -> Result<()> {
        let db = self.same_database(self.db()?)?;
        match db.has_lost_its_log() {
            false => Ok(()),
            true => Err(self.open_anew(db)),
        }
    }

    /// Makes sure that the database in use is the one at the path.
    fn same_database<'a>(&self, db: InUse<'a>) -> Result<InUse<'a>> {
        match db.has_moved() {
            false => Ok(db),
            true => Err(self.open_anew(db)),
        }
    }

    /// Opens what is at the path now. The passing error says that everything has to be asked
    /// again in that one.
    fn open_anew(&self, db: InUse<'_>) -> Error {
        let mut slot = db.0;
        self.sessions.settle();
        self.sessions.begin_anew();
        // Closed first: within a process, SQLite has one log for all connections to a file.
        *slot = None;
        match Db::reopen(&self.path, self.trust) {
            Err(error) => error,
            Ok(db) => {
                *slot = Some(db);
                let why = io::Error::new(io::ErrorKind::WouldBlock, "it was deleted or replaced");
                Error::io("use", &self.path, why)
            }
        }
    }

    pub(super) fn end_session(&self, session: &SessionId) {
        if self.is_forked() {
            return;
        }
        let Some(file) = self.sessions.forget(session) else {
            return;
        };
        // Row first, file then. Where the row cannot be deleted the file stays: unlocked it
        // proves the session dead, missing it would prove nothing.
        let deleted = self.write_briefly(|step| sessions::delete(step.sql, session));
        // The file goes last: whoever sweeps finds the rest by it.
        wake::bury(&self.wake_directory, session);
        if deleted.is_ok() {
            file.end();
        }
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

    /// The error for a lease that was held in a database that is no more.
    pub(super) fn over_with_database(&self, lease: &LeaseId) -> Error {
        Error::LeaseOver {
            lease: lease.clone(),
            reason: "the database was deleted or replaced".into(),
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
