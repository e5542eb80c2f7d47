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
//! - Tokens never go back (see the module `token_counter`).
//! - Looking at a lock never makes it seem busy.
//!
//! # Limitations
//!
//! - No leases of their own, and no capacities: the kernel counts no holders.
//! - Local file systems only; others are refused.
//! - The order among processes is the kernel's, and waiters cannot be listed.
//! - A waiter that is stopped (SIGSTOP) while it is first in line holds up those behind it.
//! - Programs that only know `flock` are excluded and exclude, but do not stand in line and can
//!   slip in while an upgrade waits; the upgrade then fails as lost.
//! - Removing or replacing a lock file breaks its lock. The holder is told.
//! - A writer that is killed while it waits has drawn a token. Readers that share the lock from
//!   before and after that carry different tokens, and only the token of the first counts as the
//!   newest.

mod acquire;
mod list;
mod names;

use std::collections::HashMap;
use std::fs::DirBuilder;
use std::future::poll_fn;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

use tenure_core::internal::lock;
use tenure_core::{
    Capabilities, Error, Lease, LeaseId, Listing, Mode, Query, Reply, Request, Resource, Result,
    Store, Token, UpgradeRequest,
};
use tenure_os::filesystem;
use tenure_os::platform;

use crate::hold::Hold;
use crate::local_queue::LocalQueues;
use crate::lockfile;
use crate::record_author::RecordContext;
use crate::token_counter::TokenCounter;

/// The interval at which a holder looks whether its lock file is still in place.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// A directory of lock files, one for each resource.
pub struct FileStore {
    locks: PathBuf,
    queues: Arc<LocalQueues>,
    record_context: Arc<RecordContext>,
    held: Mutex<HashMap<LeaseId, Arc<HeldLease>>>,
    generation: u32,
}

/// A lease of this process.
struct HeldLease {
    /// `None` once the lease is released. The mutex is locked for moments, or by a waiting upgrade.
    hold: Mutex<Option<Hold>>,
    upgrade: Mutex<Upgrade>,
}

/// The upgrade of a lease, which has the hold locked meanwhile.
#[derive(Default)]
enum Upgrade {
    #[default]
    None,
    /// A caller waits for the upgrade.
    Waits,
    /// The caller is gone, and its thread gives up what it had. Then these are woken.
    Ends(Vec<Waker>),
}

impl HeldLease {
    fn new(hold: Hold) -> Self {
        Self {
            hold: Mutex::new(Some(hold)),
            upgrade: Mutex::default(),
        }
    }

    fn is_upgrading(&self) -> bool {
        !matches!(*lock(&self.upgrade), Upgrade::None)
    }

    fn poll_at_rest(&self, waker: &Waker) -> Poll<()> {
        match &mut *lock(&self.upgrade) {
            Upgrade::Ends(wakers) => {
                wakers.push(waker.clone());
                Poll::Pending
            }
            Upgrade::None | Upgrade::Waits => Poll::Ready(()),
        }
    }
}

impl FileStore {
    /// Opens the store in a directory, creating it (0700) if missing. `trust` skips the check that
    /// locks hold on its file system.
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
        let record_context = RecordContext::new(url, Some(TokenCounter::in_directory(&directory)));
        Ok(Self {
            locks,
            queues: Arc::default(),
            record_context: Arc::new(record_context),
            held: Mutex::default(),
            generation: platform::fork_generation(),
        })
    }

    /// Returns the lock file of a resource.
    pub fn path_of(&self, resource: &Resource) -> PathBuf {
        self.locks.join(names::file_name(resource))
    }

    fn held_lease(&self, lease: &LeaseId) -> Result<Arc<HeldLease>> {
        lock(&self.held)
            .get(lease)
            .cloned()
            .ok_or_else(|| over(lease))
    }

    /// Returns a lease once no upgrade that was given up is still at work on it.
    async fn at_rest(&self, lease: &LeaseId) -> Result<Arc<HeldLease>> {
        let held = self.held_lease(lease)?;
        poll_fn(|context| held.poll_at_rest(context.waker())).await;
        Ok(held)
    }

    /// Calls `act` with a hold, unless the hold is waiting for its upgrade.
    fn with_hold<T>(&self, lease: &LeaseId, act: impl FnOnce(&mut Hold) -> Result<T>) -> Result<T> {
        let held = self.held_lease(lease)?;
        if held.is_upgrading() {
            return Err(upgrading(lease));
        }
        let mut hold = lock(&held.hold);
        act(hold.as_mut().ok_or_else(|| over(lease))?)
    }

    fn renew_now(&self, lease: &LeaseId) -> Result<()> {
        if self.held_lease(lease)?.is_upgrading() {
            // The waiting upgrade finds a lost lock by itself.
            return Ok(());
        }
        self.with_hold(lease, Hold::renew)
    }

    /// Returns the newest token by a look, so that a check of a token makes no request wait. A lock
    /// file is never removed: a resource without one was never granted.
    fn token_now(&self, resource: &Resource) -> Result<Option<Token>> {
        let look = lockfile::look(&self.path_of(resource))?;
        Ok(look.map(|look| look.token))
    }

    fn release_now(&self, lease: &LeaseId) -> Result<()> {
        let held = self.held_lease(lease)?;
        if held.is_upgrading() {
            return Err(upgrading(lease));
        }
        let hold = lock(&held.hold).take();
        lock(&self.held).remove(lease);
        hold.ok_or_else(|| over(lease))?.release()
    }
}

fn over(lease: &LeaseId) -> Error {
    Error::over(lease, "this process does not hold it")
}

fn upgrading(lease: &LeaseId) -> Error {
    Error::Internal(format!("lease {lease} is waiting for its upgrade"))
}

impl Store for FileStore {
    fn url(&self) -> &str {
        self.record_context.url()
    }

    fn location_of(&self, resource: &Resource) -> String {
        self.path_of(resource).display().to_string()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            strict_order: false,
            lists_waiters: false,
            cross_process: true,
            check_every: Some(CHECK_EVERY),
            ttl: None,
            slots: false,
            retries: false,
        }
    }

    fn acquire<'a>(&'a self, request: &'a Request) -> Reply<'a, Option<Lease>> {
        Box::pin(self.acquire_as_task(request))
    }

    fn upgrade<'a>(&'a self, request: &'a UpgradeRequest) -> Reply<'a, Option<Token>> {
        Box::pin(self.upgrade_as_task(request))
    }

    fn downgrade<'a>(&'a self, lease: &'a LeaseId) -> Reply<'a, Mode> {
        Box::pin(async move {
            self.at_rest(lease).await?;
            self.with_hold(lease, Hold::downgrade)
        })
    }

    fn renew<'a>(&'a self, lease: &'a LeaseId) -> Reply<'a, Option<Duration>> {
        Box::pin(async move { self.renew_now(lease).map(|()| None) })
    }

    fn release<'a>(&'a self, lease: &'a LeaseId) -> Reply<'a, ()> {
        Box::pin(async move {
            self.at_rest(lease).await?;
            self.release_now(lease)
        })
    }

    fn abandon(&self, lease: &LeaseId) {
        if self.generation == platform::fork_generation() {
            let held = lock(&self.held).remove(lease);
            // A lease whose upgrade is waiting is released when that wait is over.
            if let Some(held) = held.filter(|held| !held.is_upgrading()) {
                drop(lock(&held.hold).take());
            }
            return;
        }
        // In a forked child a mutex may stay locked by a thread that does not exist there.
        // Then the descriptor stays open until the child ends or executes.
        if let Ok(mut held) = self.held.try_lock() {
            drop(held.remove(lease));
        }
    }

    fn list<'a>(&'a self, query: &'a Query) -> Reply<'a, Listing> {
        Box::pin(async move { self.list_now(query) })
    }

    fn token<'a>(&'a self, resource: &'a Resource) -> Reply<'a, Option<Token>> {
        Box::pin(async move { self.token_now(resource) })
    }

    fn descriptor(&self, lease: &LeaseId) -> Result<Option<OwnedFd>> {
        self.with_hold(lease, Hold::descriptor).map(Some)
    }
}
