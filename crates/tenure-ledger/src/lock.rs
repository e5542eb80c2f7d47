//! `ledger.lock` among strangers, and the kernel lock before it.
//!
//! Strangers make `ledger.lock` with `O_EXCL` or `mkdir`. Ours is a second name of
//! `.ledger.lock.tmp`, made with `link`, which excludes both. So the file is never empty, and its
//! inode says who made it. Only the holder of `.queue.lock` makes or removes a `ledger.lock` of
//! ours.
//!
//! # Races
//!
//! - A process of ours dies with both locks: the kernel frees `.queue.lock`, and its next holder
//!   finds a `ledger.lock` that is ours and has no living holder.
//! - Two processes find the same dead lock: only one of them holds `.queue.lock`.
//! - Between a look at `ledger.lock` and its removal another program makes its own: the file is
//!   first renamed to a name that no other program knows, looked at there, and put back if it is
//!   not the one that was meant.
//! - A stranger takes our lock away because it looks old, while we stand still: we look before and
//!   after the rename of an event. No other process of ours can take it meanwhile, as we still hold
//!   `.queue.lock`.

use crate::LedgerError;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tenure_core::{Error, LockContext, Mode, Result, Timestamp, duration};
use tenure_lockfile::{LockGuard, resource_of};
use tenure_os::cancel::Ended;
use tenure_os::clock;
use tenure_os::platform::Identity;

use super::event::seconds;
use super::names::{aside, displaced};
use super::{Ledger, names::Form};

/// The interval at which a lock of strangers is tried.
const POLL: Duration = Duration::from_millis(10);
/// A lock of strangers is not removed before it is this old.
pub(super) const STALE: Duration = Duration::from_secs(30);
/// The largest number of bytes that are read of a lock of strangers.
const RECORD_BYTES_MAX: u64 = 64 * 1024;
const MODE: u32 = 0o600;

/// The content of a lock file.
#[derive(Serialize, Deserialize)]
struct Record {
    agent_id: String,
    acquired_at: String,
}

/// The lock of the ledger, held. Dropping it unlocks.
#[must_use = "dropping it unlocks the ledger"]
pub(super) struct LedgerLock<'a> {
    ledger: &'a Ledger,
    queue: LockGuard,
    own: Identity,
}

/// A lock that another program holds.
pub(super) struct Foreign {
    identity: Identity,
    /// Its age, by its own text or by the file system, whichever makes it younger: the text may be
    /// in local time, and the file may be a copy.
    pub(super) age: Duration,
    /// The facts that are known about its holder.
    pub(super) holder: String,
}

impl Ledger {
    /// Locks the ledger: steps 3 and 4. A wait that is cancelled in step 4 drops what is locked so
    /// far.
    pub(super) fn lock(&self, deadline: Instant) -> Result<LedgerLock<'_>> {
        let held = self.queue(deadline)?;
        let (own, lock) = (self.names.own_lock(), self.names.lock());
        loop {
            // The record is written anew each time: one older than the lock looks like that of a
            // dead process.
            self.write_record()?;
            match self.disk.link(&own, &lock) {
                Ok(()) => break,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(source) => return Err(Error::io("lock", lock, source)),
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                // The lock may have gone in this instant.
                let holder = self.foreign_lock()?.map(|foreign| foreign.holder);
                return Err(LedgerError::ForeignLock {
                    path: lock,
                    holder: holder.unwrap_or_else(|| "another program had it".into()),
                    limit: self.locker.timeout(),
                }
                .into());
            }
            if self.locker.cancel().sleep(POLL.min(left)) == Ended::Cancelled {
                return Err(self.interrupted());
            }
        }
        (self.on_locked)();
        Ok(held)
    }

    /// Takes the kernel lock and clears what a dead holder of it left. From here on, a
    /// `ledger.lock` that is there is a stranger's.
    pub(super) fn queue(&self, deadline: Instant) -> Result<LedgerLock<'_>> {
        if self.names.form == Form::Af {
            return Err(Error::BadInput(format!(
                "{} is a ledger of another form (000001.json), which is only read",
                self.names.ledger().display()
            )));
        }
        let queue = self
            .locker
            .lock_by(&self.names.queue(), Mode::Write, deadline)?;
        let own = self.own_lock()?;
        if self.lock_identity()? == Some(own) {
            self.remove_own(own)?;
        }
        let ledger = self;
        Ok(LedgerLock { ledger, queue, own })
    }

    /// Returns the file that is linked to the lock. The file is made once, and is durable before
    /// its first link.
    fn own_lock(&self) -> Result<Identity> {
        let path = self.names.own_lock();
        let failed = |action| {
            let path = path.clone();
            move |source| Error::io(action, path, source)
        };
        let found = self.disk.identity(&path).map_err(failed("look at"))?;
        let is_noted = || matches!(self.disk.exists(&self.names.newest()), Ok(true));
        if let Some(found) = found.filter(|_| is_noted()) {
            // The note exists, and it is written only after a sync of the directory: so the file is
            // durable.
            return Ok(found);
        }
        if found.is_none() {
            drop(self.disk.create(&path, MODE).map_err(failed("create"))?);
        }
        let synced = self.disk.sync_directory(self.names.ledger());
        synced.map_err(failed("sync the directory of"))?;
        let made = self.disk.identity(&path).map_err(failed("look at"))?;
        made.ok_or_else(|| failed("find")(io::ErrorKind::NotFound.into()))
    }

    fn write_record(&self) -> Result<()> {
        let record = Record {
            agent_id: self.locker.owner().to_string(),
            acquired_at: seconds((self.now)()),
        };
        let mut text = serde_json::to_vec(&record).expect("text is serialisable");
        text.push(b'\n');
        let path = self.names.own_lock();
        let written = self.disk.overwrite(&path, &text);
        written.map_err(|source| Error::io("write", path, source))
    }

    fn lock_identity(&self) -> Result<Option<Identity>> {
        let path = self.names.lock();
        let identity = self.disk.identity(&path);
        identity.map_err(|source| Error::io("look at", path, source))
    }

    /// Removes `ledger.lock` if it is ours. Returns false, and leaves it, if it is not.
    fn remove_own(&self, own: Identity) -> Result<bool> {
        let to = displaced(&self.names.lock());
        let is_ours = self.displace(&self.names.lock(), to.clone(), own)?;
        if is_ours {
            let removed = self.disk.remove(&to);
            removed.map_err(|source| Error::io("remove", to, source))?;
        }
        Ok(is_ours)
    }

    /// Renames a file if it is the one that is meant. Returns false if there is none, or another,
    /// which is put back.
    pub(super) fn displace(&self, from: &PathBuf, to: PathBuf, meant: Identity) -> Result<bool> {
        let failed = |source| Error::io("move", from, source);
        match self.disk.rename_without_replacing(from, &to) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            moved => moved.map_err(failed)?,
        }
        let moved = self.disk.identity(&to);
        if matches!(moved, Ok(Some(moved)) if moved == meant) {
            return Ok(true);
        }
        if self.disk.rename_without_replacing(&to, from).is_err() {
            // A third file has the name by now, so the moved one stays where it is, and a message
            // tells of it.
            (self.tell)(&format!("{} was moved to {}", from.display(), to.display()));
        }
        moved.map(|_| false).map_err(failed)
    }

    /// Returns the lock that is there if it is a stranger's.
    pub(super) fn foreign_lock(&self) -> Result<Option<Foreign>> {
        let path = self.names.lock();
        let Some(identity) = self.lock_identity()? else {
            return Ok(None);
        };
        let own = self.disk.identity(&self.names.own_lock()).ok().flatten();
        let Ok(found) = fs::symlink_metadata(&path) else {
            return Ok(None);
        };
        if own == Some(identity) {
            return Ok(None);
        }
        let now = (self.now)();
        let made: Timestamp = found.modified().map_or(now, Timestamp::from);
        let record = self.disk.content(&path, RECORD_BYTES_MAX).ok().flatten();
        let record = record.and_then(|bytes| serde_json::from_slice::<Record>(&bytes).ok());
        let said = record
            .as_ref()
            .and_then(|record| record.acquired_at.parse().ok());
        let age = now.since(said.map_or(made, |said: Timestamp| said.max(made)));
        let shown = duration::show(age);
        let holder = match record {
            Some(record) => format!("held by {} for {shown}", record.agent_id),
            None if found.is_dir() => format!("a directory that another program made {shown} ago"),
            None if found.len() == 0 => format!("an empty file, made {shown} ago"),
            None => format!("another program made it {shown} ago"),
        };
        Ok(Some(Foreign {
            identity,
            age,
            holder,
        }))
    }
}

impl LedgerLock<'_> {
    /// Fails if the lock was taken away.
    pub(super) fn check(&self) -> Result<()> {
        self.queue.check()?;
        if self.ledger.lock_identity()? == Some(self.own) {
            return Ok(());
        }
        Err(self.lost("someone removed it while it was held"))
    }

    /// Returns the error of a lock that is no longer ours.
    pub(super) fn lost(&self, reason: &str) -> Error {
        let lock = self.ledger.names.lock();
        let place = lock.display().to_string();
        let context = LockContext::new(resource_of(&lock), Mode::Write, "ledger:", place);
        Error::lost(Box::new(context), reason)
    }

    /// Moves a stale lock of strangers aside, and returns its new path. Returns `None` if another
    /// lock is there by now.
    pub(super) fn take_out(&self, foreign: &Foreign) -> Result<Option<PathBuf>> {
        let lock = self.ledger.names.lock();
        let to = aside(&lock);
        let is_out = self.ledger.displace(&lock, to.clone(), foreign.identity)?;
        Ok(is_out.then_some(to))
    }
}

impl Drop for LedgerLock<'_> {
    fn drop(&mut self) {
        // Without the kernel lock, another process of ours may have linked the same file by now.
        let is_locked = self.queue.check().is_ok();
        if is_locked && matches!(self.ledger.lock_identity(), Ok(Some(at)) if at == self.own) {
            // If the removal fails, the next process of ours removes the file.
            let _ = self.ledger.remove_own(self.own);
        }
    }
}

/// Returns the instant at which a wait that begins now ends.
pub(super) fn deadline(ledger: &Ledger) -> Instant {
    clock::after(Instant::now(), ledger.locker.timeout())
}
