//! Locks on paths of your own choosing, for threads: exclusive, shared and upgradeable.
//!
//! ```
//! # fn main() -> tenure_core::Result<()> {
//! # let directory = tempfile::tempdir().unwrap();
//! # let path = directory.path().join(".index.lock");
//! use std::time::Duration;
//! let locker = tenure_lockfile::FileLocker::new(Duration::from_secs(5));
//! let guard = locker.lock_exclusive(&path)?;
//! assert!(locker.try_lock_shared(&path)?.is_none());
//! drop(guard);
//! # Ok(())
//! # }
//! ```

use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tenure_core::decide::Wait;
use tenure_core::internal::lock;
use tenure_core::request::{command_line, kept_command};
use tenure_core::{
    Asker, Error, Lease, LeaseId, LockContext, Mode, Owner, Request, Resource, Result,
};
use tenure_core::{Token, duration};
use tenure_os::cancel::{Cancel, Ended};
use tenure_os::{clock, filesystem, platform, random};

use crate::caller::FileCaller;
use crate::hold::{self, BriefHold, Hold};
use crate::interrupt::Interrupt;
use crate::local_queue::{IdleFile, LocalQueues, QueueOccupied};
use crate::lockfile::{self, Record};
use crate::log::{self, Logged};
use crate::record_author::{RecordAuthor, RecordContext};

/// Locks files, each wait bounded by one timeout.
///
/// The path given is the lock file itself: it is created if missing and never removed, so it should
/// stand beside the data, not be the data.
///
/// A clone shares the queue of waiters and the open files, and may have a [`Cancel`] of its own.
#[derive(Clone)]
pub struct FileLocker {
    timeout: Duration,
    cancel: Cancel,
    trust: bool,
    /// The directory last found to be trusted.
    trusted: Arc<Mutex<PathBuf>>,
    queues: Arc<LocalQueues>,
    record_context: Arc<RecordContext>,
    asker: Arc<Asker>,
    /// Returns the name of a lock file in records and errors.
    name: fn(&Path) -> Resource,
    /// Makes the lock file before it is opened, where it needs a mode or an owner of its own.
    prepare: fn(&Path) -> Result<()>,
}

/// A lock on a file. Dropping it releases the lock.
#[must_use = "dropping the guard releases the lock"]
pub struct LockGuard {
    hold: Hold,
    log: Logged,
    /// Ends the wait for an upgrade.
    cancel: Cancel,
}

/// A shared lock for a moment, which leaves no record. Dropping it releases the lock.
#[must_use = "dropping the guard releases the lock"]
pub struct BriefGuard {
    _hold: BriefHold,
    _log: Logged,
}

impl FileLocker {
    /// Returns a locker whose waits end after `timeout`, in the name of this process. A timeout of
    /// more than a year is refused when a lock is asked for.
    pub fn new(timeout: Duration) -> Self {
        Self::for_asker(timeout, FileCaller::this_process(timeout).asker)
    }

    /// Returns a locker in the name of `asker`, as records and errors show it.
    pub fn for_asker(timeout: Duration, asker: Asker) -> Self {
        Self {
            timeout,
            cancel: Cancel::default(),
            trust: false,
            trusted: Arc::default(),
            queues: Arc::default(),
            record_context: Arc::new(RecordContext::new("file:".into(), None)),
            asker: Arc::new(asker),
            name: resource_of,
            prepare: |_| Ok(()),
        }
    }

    /// Returns a locker in the name of a caller, with the queue of waiters and the open files of
    /// this one.
    pub fn for_caller(&self, caller: &FileCaller) -> Self {
        Self {
            timeout: caller.wait,
            cancel: caller.cancel.clone(),
            asker: Arc::new(caller.asker.clone()),
            ..self.clone()
        }
    }

    /// Sets how lock files are named, and how they are made.
    pub fn with(mut self, name: fn(&Path) -> Resource, prepare: fn(&Path) -> Result<()>) -> Self {
        self.name = name;
        self.prepare = prepare;
        self
    }

    /// Returns true if a lock file was opened before and is kept open.
    pub fn has_open(&self, path: &Path) -> bool {
        self.queues.has_idle(path)
    }

    /// Returns the owner in whose name locks are taken.
    pub fn owner(&self) -> &Owner {
        &self.asker.owner
    }

    /// Returns the longest time that a wait may last.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Ends waits once `cancel` is cancelled, with [`Error::Interrupted`]. A lock that needs no
    /// wait is taken all the same.
    pub fn cancelled_by(mut self, cancel: Cancel) -> Self {
        self.cancel = cancel;
        self
    }

    /// Returns the handle that ends waits.
    pub fn cancel(&self) -> &Cancel {
        &self.cancel
    }

    /// Skips the check that locks hold on the file system.
    pub fn trusting_the_file_system(mut self) -> Self {
        self.trust = true;
        self
    }

    /// Waits for the exclusive lock.
    pub fn lock_exclusive(&self, path: &Path) -> Result<LockGuard> {
        self.lock(path, Mode::Write)
    }

    /// Waits for a shared lock.
    pub fn lock_shared(&self, path: &Path) -> Result<LockGuard> {
        self.lock(path, Mode::Read)
    }

    /// Waits for the upgradeable lock.
    pub fn lock_upgradeable(&self, path: &Path) -> Result<LockGuard> {
        self.lock(path, Mode::Upgradeable)
    }

    /// Takes the exclusive lock if it needs no wait.
    pub fn try_lock_exclusive(&self, path: &Path) -> Result<Option<LockGuard>> {
        self.try_lock(path, Mode::Write)
    }

    /// Takes a shared lock if it needs no wait.
    pub fn try_lock_shared(&self, path: &Path) -> Result<Option<LockGuard>> {
        self.try_lock(path, Mode::Read)
    }

    /// Takes the upgradeable lock if it needs no wait.
    pub fn try_lock_upgradeable(&self, path: &Path) -> Result<Option<LockGuard>> {
        self.try_lock(path, Mode::Upgradeable)
    }

    /// Waits for the lock in any mode.
    pub fn lock(&self, path: &Path, mode: Mode) -> Result<LockGuard> {
        // The clock is read once for both, so the time waited is never below the timeout.
        let started = Instant::now();
        self.lock_between(path, mode, started, clock::after(started, self.timeout))
    }

    /// Waits for the lock in any mode until the deadline, as part of a wait for several.
    pub fn lock_by(&self, path: &Path, mode: Mode, deadline: Instant) -> Result<LockGuard> {
        self.lock_between(path, mode, Instant::now(), deadline)
    }

    fn lock_between(
        &self,
        path: &Path,
        mode: Mode,
        started: Instant,
        deadline: Instant,
    ) -> Result<LockGuard> {
        duration::check_wait(self.timeout)?;
        let path = absolute(path)?;
        let author = match self.try_hold(&path, mode)? {
            Ok(hold) => return Ok(self.guard(hold, started)),
            Err(author) => author,
        };
        log::waiting(&path, mode);
        match hold::hold_until(&self.queues, mode, author, deadline, &self.cancel)? {
            Ok(hold) => Ok(self.guard(hold, started)),
            Err(ended) => Err(self.ended(ended, &path, mode, started)?),
        }
    }

    /// Returns the error of a wait that began at `started` and ended without the lock.
    pub fn ended(&self, ended: Ended, path: &Path, mode: Mode, started: Instant) -> Result<Error> {
        match ended {
            Ended::Deadline => self.timed_out(path, mode, started),
            Ended::Cancelled => {
                log::gave_up(path, mode, started);
                Ok(self.context_of(path, mode).interrupted())
            }
        }
    }

    fn context_of(&self, path: &Path, mode: Mode) -> LockContext {
        let (name, url) = ((self.name)(path), self.record_context.url());
        LockContext::new(name, mode, url, path.display().to_string())
    }

    fn timed_out(&self, path: &Path, mode: Mode, started: Instant) -> Result<Error> {
        log::gave_up(path, mode, started);
        Ok(Error::Timeout {
            context: Box::new(self.context_of(path, mode)),
            waited: started.elapsed(),
            limit: self.timeout,
            attempts: 1,
            holders: holders(path)?,
        })
    }

    /// Takes the lock in any mode if it needs no wait.
    pub fn try_lock(&self, path: &Path, mode: Mode) -> Result<Option<LockGuard>> {
        let started = Instant::now();
        let hold = self.try_hold(&absolute(path)?, mode)?;
        Ok(hold.ok().map(|hold| self.guard(hold, started)))
    }

    /// Shares the lock for a moment, without a record, if it needs no wait.
    pub fn try_share_briefly(&self, path: &Path) -> Result<Option<BriefGuard>> {
        let (file, author) = match self.queues.enter(path) {
            Ok(Some(IdleFile { file, author })) => (Some(file), author),
            Ok(None) => (None, self.author(path, Mode::Read)?),
            Err(QueueOccupied) => return Ok(None),
        };
        let hold = hold::try_hold_briefly(&self.queues, file, author)?;
        Ok(hold.ok().map(|hold| BriefGuard {
            _hold: hold,
            _log: Logged::acquired(path, Mode::Read, None),
        }))
    }

    /// Like `try_share_briefly`, but also returns `None` if the lock file is not open already.
    pub fn try_share_again(&self, path: &Path) -> Option<BriefGuard> {
        let Ok(Some(IdleFile { file, author })) = self.queues.enter(path) else {
            return None;
        };
        let hold = hold::try_hold_briefly(&self.queues, Some(file), author);
        Some(BriefGuard {
            _hold: hold.ok()?.ok()?,
            _log: Logged::acquired(path, Mode::Read, None),
        })
    }

    fn try_hold(&self, path: &Path, mode: Mode) -> Result<Result<Hold, RecordAuthor>> {
        match self.queues.enter(path) {
            Ok(Some(IdleFile { file, mut author })) => {
                author.reuse_for(LeaseId::from_random(random::bytes()));
                hold::try_hold(&self.queues, Some(file), mode, author)
            }
            Ok(None) => hold::try_hold(&self.queues, None, mode, self.author(path, mode)?),
            Err(QueueOccupied) => Ok(Err(self.author(path, mode)?)),
        }
    }

    fn guard(&self, hold: Hold, asked: Instant) -> LockGuard {
        LockGuard {
            log: Logged::acquired(hold.path(), hold.mode(), Some(asked)),
            hold,
            cancel: self.cancel.clone(),
        }
    }

    /// Checks a directory, unless it is the one that was checked last.
    fn require_trusted(&self, directory: &Path) -> Result<()> {
        let mut trusted = lock(&self.trusted);
        if self.trust || trusted.as_os_str() == directory.as_os_str() {
            return Ok(());
        }
        filesystem::require_trusted(directory)?;
        directory.clone_into(&mut trusted);
        Ok(())
    }

    fn author(&self, path: &Path, mode: Mode) -> Result<RecordAuthor> {
        self.require_trusted(path.parent().unwrap_or(Path::new("/")))?;
        (self.prepare)(path)?;
        let request = Request {
            standing: Default::default(),
            lease: LeaseId::from_random(random::bytes()),
            resource: (self.name)(path),
            mode,
            asker: self.asker.clone(),
            purpose: None,
            metadata: None,
            deadline: None,
            wait: Wait::No,
            capacity: None,
        };
        RecordAuthor::new(&self.record_context, request, &Arc::from(path))
    }
}

impl LockGuard {
    /// Returns the lock file.
    pub fn path(&self) -> &Path {
        self.hold.path()
    }

    /// Returns the lease as its record has it.
    pub fn lease(&self) -> Lease {
        self.hold.lease()
    }

    /// Returns the fencing token.
    pub fn token(&self) -> Token {
        self.hold.token()
    }

    /// Returns the mode in which the lock is held.
    pub fn mode(&self) -> Mode {
        self.hold.mode()
    }

    /// Fails if the lock file was replaced or removed: the lock then protects nothing.
    pub fn check(&self) -> Result<()> {
        self.hold.check()
    }

    /// Makes an upgradeable lock exclusive. Returns `None` if there is a reader.
    pub fn try_upgrade(&mut self) -> Result<Option<Token>> {
        self.hold.try_upgrade()
    }

    /// Makes an upgradeable lock exclusive. Returns `None` and leaves the lock unchanged if readers
    /// stay until `wait` is over. A cancelled wait leaves it unchanged, too, with
    /// [`Error::Interrupted`].
    pub fn upgrade(&mut self, wait: Duration) -> Result<Option<Token>> {
        duration::check_wait(wait)?;
        let deadline = clock::after(Instant::now(), wait);
        let mut interrupt = Interrupt::new(Some(deadline), &self.cancel);
        let upgraded = self.hold.wait_upgrade(&mut interrupt)?;
        if upgraded.is_none() && interrupt.ended() == Some(Ended::Cancelled) {
            return Err(Error::interrupted(self.lease().resource));
        }
        Ok(upgraded)
    }

    /// Makes an upgraded lock upgradeable again.
    pub fn downgrade(&mut self) -> Result<Mode> {
        self.hold.downgrade()
    }

    /// Releases the lock and returns whether that worked; dropping it releases silently.
    pub fn release(mut self) -> Result<()> {
        let released = self.hold.release();
        drop(self.log);
        released
    }
}

/// Returns the leases that hold a lock file, without touching it.
pub fn holders(path: &Path) -> Result<Vec<Lease>> {
    let look = lockfile::look(path)?.unwrap_or_default();
    let lease = |record: Record| record.lease;
    Ok(look.holders.into_iter().map(lease).collect())
}

/// A process that holds a lock file by `flock`, as the kernel shows it to people.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FlockHolder {
    /// The process id.
    pub pid: u32,
    /// The command line, if it can be seen.
    pub command: String,
}

/// Returns the processes that hold a lock file by `flock`, for people. Programs that leave no
/// record are among them. Takes nothing.
pub fn strangers(path: &Path) -> Vec<FlockHolder> {
    let file = std::fs::File::open(path);
    let held = file.and_then(|file| platform::flock_holders(&file));
    let holder = |(pid, _): (u32, _)| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words = line
            .split(|byte| *byte == 0)
            .filter(|word| !word.is_empty());
        let words = words.map(|word| OsStr::from_bytes(word).to_owned());
        let command = kept_command(&command_line(words));
        FlockHolder { pid, command }
    };
    held.unwrap_or_default().into_iter().map(holder).collect()
}

fn absolute(path: &Path) -> Result<Cow<'_, Path>> {
    if path.is_absolute() {
        return Ok(path.into());
    }
    let path = std::path::absolute(path).map_err(|source| Error::io("find", path, source))?;
    Ok(path.into())
}

/// Returns the name of a path in records and errors: `file:` and the path, or its end if the path
/// is long.
pub fn resource_of(path: &Path) -> Resource {
    let bytes = path.as_os_str().as_bytes();
    let whole = Resource::new("file", bytes);
    // A byte takes three characters in its longest spelling.
    let end = &bytes[bytes.len().saturating_sub(300)..];
    let cut = whole.or_else(|_| Resource::new("file", end));
    cut.expect("300 bytes that are not empty make a resource")
}
