//! The open database: reads and steps, and a database that was deleted or replaced.
//!
//! # A database that moves away
//!
//! 1. Every step checks after its commit, and every read before its answer, that the file is still
//!    at its path. If it is not, the caller gets a passing error, and asks again.
//! 2. The process that notices closes its connection and opens the file that is at the path now.
//!    The opening is refused while a session is alive that may hold leases in the old file
//!    (`anchor`), the process's own sessions included: their guards learn of the loss within a
//!    second, and the sessions end when the guards are dropped. Until then no database is open,
//!    and the error that says so is a passing one: a caller with time left asks again. A process
//!    that meets this when it starts does the same.
//! 3. Sessions of this process that hold nothing give up their files first: they only wait, and
//!    begin again. It is certain that they hold nothing, because a grant is noted under the same
//!    mutex under which it was committed.
//!
//! Everything held while no database is open is lost: it was held in the old one.
//!
//! # A log that is removed
//!
//! Without its log the database is an older version of itself. A process that has the old log open
//! does not see the new one: other processes never see what it writes. Each holder therefore checks
//! every second, and each waiter when its timer ends, that the log is still at its path. The old
//! log is never written back into the database, which others use with a new log.
//!
//! All of it happens under the mutex of the connection, so that no step ever notes in one
//! database what it did in another.

use std::io;
use std::ops::{Deref, DerefMut};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError, Weak};
use std::time::Duration;

use tenure_core::internal::lock;
use tenure_core::internal::written_order::StoreOrder;
use tenure_core::leases::{check_heartbeat, check_stale_grace, grace};
use tenure_core::{Error, LeaseId, LockContext, Mode, Resource, Result, SessionId};

use super::OpenOptions;
use super::cleanup::PendingCleanup;
use super::sessions::{self, Sessions};
use super::step::Step;
use tenure_os::blocking::blocking;

use crate::anchor::is_replaced;
use crate::connection::{
    BusyPauses, Db, Durability, Sql, is_busy, retry_busy, retry_busy_blocking,
};
use crate::{session_file, wake};

/// The open database, locked for this thread.
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

/// The default interval of heartbeats.
const HEARTBEAT_EVERY: Duration = Duration::from_secs(10);

/// The time that a drop waits for a busy database before it adds a clean-up.
const DROP_WAIT_MAX: Duration = Duration::from_millis(100);

/// The state that the store shares with its background work.
pub(super) struct Inner {
    /// A weak reference to itself, for work that goes on after a drop.
    pub(super) itself: Weak<Inner>,
    url: String,
    pub(super) path: PathBuf,
    pub(super) wake_directory: PathBuf,
    /// `None` while the file at the path may not be used yet.
    db: Mutex<Option<Db>>,
    options: OpenOptions,
    order: Option<StoreOrder>,
    pub(super) sessions: Sessions,
    pub(super) pending_cleanup: PendingCleanup,
    /// The process that opened the store. A forked child ends nothing of its parent, and does not
    /// wait for mutexes that a thread of the parent may have held.
    process: u32,
}

impl Inner {
    pub(super) fn open(path: &Path, options: OpenOptions) -> Result<Arc<Inner>> {
        if let Some(every) = options.heartbeat {
            check_heartbeat(every, None)?;
        }
        if let Some(grace) = options.stale_grace {
            check_stale_grace(grace)?;
        }
        let path = Db::prepare_path(path, options.trust_file_system)?;
        let db = match Db::open(&path) {
            Err(error) if is_replaced(&error) => None,
            opened => Some(opened?),
        };
        let directory = path.parent().unwrap_or(Path::new("/")).to_owned();
        Ok(Arc::new_cyclic(|itself| Inner {
            itself: Weak::clone(itself),
            url: format!("sqlite:{}", path.display()),
            wake_directory: directory.join("wake"),
            sessions: Sessions::new(directory.join("sessions")),
            db: Mutex::new(db),
            order: options.order.clone().map(StoreOrder::new),
            options,
            pending_cleanup: PendingCleanup::default(),
            process: std::process::id(),
            path,
        }))
    }

    /// Returns the interval of a holder's heartbeats.
    pub(super) fn heartbeat(&self) -> Duration {
        self.options.heartbeat.unwrap_or(HEARTBEAT_EVERY)
    }

    /// Returns the age that the heartbeat of a lease with this time to live may reach.
    pub(super) fn grace(&self, ttl: Duration) -> Duration {
        grace(ttl, self.options.stale_grace)
    }

    /// Returns the order of the locks of this process, if it was set.
    pub(super) fn order(&self) -> Option<&StoreOrder> {
        self.order.as_ref()
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// Returns the database, and opens it first if it could not be opened before.
    pub(super) fn db(&self) -> Result<InUse<'_>> {
        let mut slot = self.slot();
        if slot.is_none() {
            self.sessions.begin_anew();
            *slot = Some(Db::reopen(&self.path, self.options.trust_file_system)?);
        }
        Ok(InUse(slot))
    }

    fn slot(&self) -> MutexGuard<'_, Option<Db>> {
        match self.db.try_lock() {
            Ok(slot) => slot,
            // A panic inside a transaction has rolled it back.
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // Another thread makes a step, which may wait for the disk.
            Err(TryLockError::WouldBlock) => blocking(|| lock(&self.db)),
        }
    }

    pub(super) fn is_forked(&self) -> bool {
        self.process != std::process::id()
    }

    /// Reads in a transaction of its own.
    pub(super) async fn read<T>(&self, mut look: impl FnMut(&Sql<'_>) -> Result<T>) -> Result<T> {
        retry_busy(|| {
            let db = self.db()?;
            let seen = db.read(&mut look);
            self.same_database(db)?;
            seen
        })
        .await
    }

    /// Makes a step that is at least this durable, as soon as the database is free.
    pub(super) async fn write<T>(
        &self,
        floor: Durability,
        mut make: impl FnMut(&mut Step<'_>) -> Result<T>,
    ) -> Result<T> {
        let mut pauses = BusyPauses::of(floor);
        loop {
            match self.write_once(floor, &mut make) {
                Err(error) if is_busy(&error) => pauses.wait().await,
                done => return done,
            }
        }
    }

    /// Makes a step where nothing can be awaited.
    pub(super) fn write_briefly<T>(
        &self,
        mut make: impl FnMut(&mut Step<'_>) -> Result<T>,
    ) -> Result<T> {
        if self.is_forked() {
            return Err(Error::Internal("a forked child ends nothing".into()));
        }
        retry_busy_blocking(DROP_WAIT_MAX, || {
            self.write_once(Durability::Crash, &mut make)
        })
    }

    /// Makes a step that is at least this durable if the database is free at this moment.
    pub(super) fn write_once<T>(
        &self,
        floor: Durability,
        mut make: impl FnMut(&mut Step<'_>) -> Result<T>,
    ) -> Result<T> {
        let mut db = self.db()?;
        let made = db.write(floor, |sql| {
            let mut step = Step::new(self, sql)?;
            let done = make(&mut step)?;
            step.delete_dead_sessions()?;
            Ok((done, step.after))
        });
        let db = self.same_database(db)?;
        let (done, after) = made?;
        self.sessions.note(after.granted);
        drop(db);
        for session in &after.wake {
            wake::wake(&self.wake_directory, session);
        }
        for session in &after.dead {
            self.remove_files(session);
        }
        Ok(done)
    }

    /// Removes the files of a session whose row is gone.
    pub(super) fn remove_files(&self, session: &SessionId) {
        let pipe = || wake::remove(&self.wake_directory, session);
        // A file that cannot be removed now is removed by a later sweep.
        drop(session_file::remove_if_dead(
            &self.sessions.directory,
            session,
            pipe,
        ));
    }

    /// Returns true if this process's database is not the one that others use any more, and closes
    /// it then.
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

    /// Checks that neither the database nor its log was moved or removed.
    pub(super) fn look_at_database(&self) -> Result<()> {
        let db = self.same_database(self.db()?)?;
        if db.has_lost_its_log() {
            return Err(self.open_anew(db));
        }
        Ok(())
    }

    /// Checks that the open database is still the one at the path.
    fn same_database<'a>(&self, db: InUse<'a>) -> Result<InUse<'a>> {
        if db.has_moved() {
            return Err(self.open_anew(db));
        }
        Ok(db)
    }

    /// Opens the database that is at the path now. Returns a passing error, so that the caller asks
    /// again there.
    fn open_anew(&self, db: InUse<'_>) -> Error {
        let mut slot = db.0;
        self.sessions.begin_anew();
        // The old one is closed first: SQLite has one log per file within a process.
        *slot = None;
        match Db::reopen(&self.path, self.options.trust_file_system) {
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
        // First the row, then the file. If the row cannot be deleted the file stays: an unlocked
        // file proves the session dead, a missing one proves nothing.
        let deleted = self.write_briefly(|step| sessions::delete(step.sql, session));
        // The file goes last: a sweep finds the rest by it.
        wake::remove(&self.wake_directory, session);
        if deleted.is_ok() {
            file.end();
        }
    }

    pub(super) fn descriptor(&self, lease: &LeaseId) -> Result<OwnedFd> {
        let file = self.sessions.keeping(lease);
        let file = file.ok_or_else(|| Error::not_held(lease))?;
        file.descriptor()
    }

    pub(super) fn context(&self, resource: &Resource, mode: Mode) -> Box<LockContext> {
        Box::new(LockContext::new(
            resource.clone(),
            mode,
            self.url.clone(),
            self.path.display().to_string(),
        ))
    }

    /// Returns the error for a lease that was held in a database that is gone.
    pub(super) fn over_with_database(&self, lease: &LeaseId) -> Error {
        Error::over(lease, "the database was deleted or replaced")
    }

    /// Returns the error for a lease that is gone, and says how it ended if that is known.
    pub(super) async fn gone(&self, lease: &LeaseId) -> Error {
        match self.ended(lease).await {
            Ok(Some(reason)) => Error::over(lease, reason),
            _ => Error::not_held(lease),
        }
    }
}

#[cfg(test)]
mod tests;
