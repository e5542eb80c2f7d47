//! The file store: one lock file for each resource, in one directory.
//!
//! ```text
//! DIR/locks/<resource>.lock   the locks, never removed
//! DIR/tokens                  the bounds of the tokens
//! DIR/tokens.lock             who may raise them
//! ```
//!
//! # Guarantees
//!
//! - At most one writer, or any number of readers and one upgradeable holder, among all
//!   processes of the machine.
//! - A lock ends when it is released or the last process that has it open ends, never before.
//! - Tokens never go back (see the module `tokens`).
//! - Looking never makes a lock seem busy.
//!
//! # Limitations
//!
//! - Local file systems only; others are refused.
//! - The order among processes is the kernel's, and waiters cannot be listed.
//! - A waiter that is stopped (SIGSTOP) while it is first in line holds up those behind it.
//! - Programs that only know `flock` are excluded and exclude, but do not stand in line and
//!   can slip in while an upgrade waits; the upgrade then fails as lost.
//! - Whoever removes or replaces a lock file breaks its lock. The holder is told.

mod acquire;
mod list;
mod names;

use std::collections::HashMap;
use std::fs::DirBuilder;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use tenure_core::{
    Capabilities, Error, Lease, LeaseId, Listing, Mode, Query, Reply, Request, Resource, Result,
    Store, Token,
};

use crate::author::Desk;
use crate::filesystem;
use crate::hold::Hold;
use crate::line::Lines;
use crate::platform;
use crate::tokens::Tokens;

/// How often a holder looks whether its lock file is still in place.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// Locks in a directory.
pub struct FileStore {
    locks: PathBuf,
    lines: Arc<Lines>,
    desk: Arc<Desk>,
    /// Each hold has a mutex of its own: who waits for its upgrade keeps it locked.
    held: Mutex<HashMap<LeaseId, Arc<Mutex<Hold>>>>,
    generation: u32,
}

impl FileStore {
    /// Opens the store in a directory, creating it (0700) if missing. With `trust`, the
    /// file system is not asked whether locks hold on it.
    pub fn open(directory: &Path, trust: bool) -> Result<Self> {
        let directory = std::path::absolute(directory)
            .map_err(|source| Error::io("find", directory, source))?;
        let locks = directory.join("locks");
        if !locks.is_dir() {
            let mut builder = DirBuilder::new();
            let created = builder.recursive(true).mode(0o700).create(&locks);
            created.map_err(|source| Error::io("create", &locks, source))?;
        }
        if !trust {
            filesystem::require_trusted(&locks)?;
        }
        let url = format!("file:{}", directory.display());
        let desk = Desk::new(url, Some(Tokens::in_directory(&directory)));
        Ok(Self {
            locks,
            lines: Arc::default(),
            desk: Arc::new(desk),
            held: Mutex::default(),
            generation: platform::fork_generation(),
        })
    }

    /// The lock file of a resource.
    pub fn path_of(&self, resource: &Resource) -> PathBuf {
        self.locks.join(names::file_name(resource))
    }

    /// The directory with the lock files.
    pub fn locks_directory(&self) -> &Path {
        &self.locks
    }

    fn held(&self) -> MutexGuard<'_, HashMap<LeaseId, Arc<Mutex<Hold>>>> {
        // Nothing in here panics while the map is half changed.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hold_of(&self, lease: &LeaseId) -> Result<Arc<Mutex<Hold>>> {
        self.held().get(lease).cloned().ok_or_else(|| over(lease))
    }

    /// Does something with a hold, unless it is waiting for its upgrade.
    fn with_hold<T>(&self, lease: &LeaseId, act: impl FnOnce(&mut Hold) -> Result<T>) -> Result<T> {
        match self.hold_of(lease)?.try_lock() {
            Ok(mut hold) => act(&mut hold),
            Err(TryLockError::Poisoned(hold)) => act(&mut hold.into_inner()),
            Err(TryLockError::WouldBlock) => Err(Error::Internal(format!(
                "lease {lease} is waiting for its upgrade"
            ))),
        }
    }

    fn release_now(&self, lease: &LeaseId) -> Result<()> {
        let released = self.with_hold(lease, Hold::release);
        if released.is_ok() {
            self.held().remove(lease);
        }
        released
    }
}

fn over(lease: &LeaseId) -> Error {
    Error::LeaseOver {
        lease: lease.clone(),
        reason: "this process does not hold it".into(),
    }
}

impl Store for FileStore {
    fn url(&self) -> &str {
        self.desk.url()
    }

    fn place_of(&self, resource: &Resource) -> String {
        self.path_of(resource).display().to_string()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            strict_order: false,
            lists_waiters: false,
            cross_process: true,
            check_every: Some(CHECK_EVERY),
        }
    }

    fn try_acquire<'a>(&'a self, request: &'a Request) -> Reply<'a, Option<Lease>> {
        Box::pin(async move { self.try_acquire_now(request) })
    }

    fn acquire<'a>(&'a self, request: &'a Request) -> Reply<'a, Lease> {
        Box::pin(self.acquire_as_task(request))
    }

    fn try_upgrade<'a>(&'a self, lease: &'a LeaseId) -> Reply<'a, Option<Token>> {
        Box::pin(async move { self.with_hold(lease, Hold::try_upgrade) })
    }

    fn upgrade<'a>(&'a self, lease: &'a LeaseId) -> Reply<'a, Token> {
        Box::pin(self.upgrade_as_task(lease))
    }

    fn downgrade<'a>(&'a self, lease: &'a LeaseId) -> Reply<'a, Mode> {
        Box::pin(async move { self.with_hold(lease, Hold::downgrade) })
    }

    fn renew<'a>(&'a self, lease: &'a LeaseId) -> Reply<'a, ()> {
        Box::pin(async move {
            let hold = self.hold_of(lease)?;
            match hold.try_lock() {
                Ok(mut hold) => hold.renew(),
                Err(TryLockError::Poisoned(hold)) => hold.into_inner().renew(),
                // Someone is at it, for example to upgrade it, and finds out by itself.
                Err(TryLockError::WouldBlock) => Ok(()),
            }
        })
    }

    fn release<'a>(&'a self, lease: &'a LeaseId) -> Reply<'a, ()> {
        Box::pin(async move { self.release_now(lease) })
    }

    fn abandon(&self, lease: &LeaseId) {
        let mut held = if self.generation == platform::fork_generation() {
            self.held()
        } else {
            // In a forked child the mutex may be locked for ever, by a thread that is not
            // here. Then the descriptor stays open until the child ends or executes.
            match self.held.try_lock() {
                Ok(held) => held,
                Err(_) => return,
            }
        };
        let removed = held.remove(lease);
        drop(held);
        drop(removed);
    }

    fn list<'a>(&'a self, query: &'a Query) -> Reply<'a, Listing> {
        Box::pin(async move { self.list_now(query) })
    }

    fn descriptor(&self, lease: &LeaseId) -> Result<Option<OwnedFd>> {
        self.with_hold(lease, Hold::descriptor).map(Some)
    }
}
