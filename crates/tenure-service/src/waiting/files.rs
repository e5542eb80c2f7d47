//! Waits for locks of files. The thread of the wait blocks in the kernel, while another task tells
//! of it.

use std::convert::Infallible;
use std::future::pending;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tenure::{Error, LockContext, Mode, Result, SessionId};
use tenure_core::internal::lock;
use tenure_lockfile::{FlockHolder, holders, resource_of, strangers};
use tokio::task::{JoinSet, block_in_place, spawn_blocking};
use tokio::time::{Instant, sleep_until};

use super::blocked::{BlockedRequest, unrecorded};
use crate::Caller;
use crate::observer::WaitObserver;

/// A wait for files.
#[derive(Debug, Clone)]
pub struct FileWait {
    /// The files, each with its lock file.
    pub files: Vec<(PathBuf, PathBuf)>,
    /// The mode in which they are locked.
    pub mode: Mode,
    /// The longest wait.
    pub limit: Duration,
    /// The session that waits.
    pub session: SessionId,
    /// True if the locks of Node programs are waited for, too.
    pub with_node: bool,
    /// The lock of other programs that is taken inside of ours, if there is one.
    pub inner_lock: Option<PathBuf>,
}

impl FileWait {
    /// Returns the first of the locks. There must be at least one.
    pub(crate) fn first(&self) -> LockContext {
        let (file, lock) = &self.files[0];
        context_of(file, lock, self.mode)
    }
}

fn context_of(file: &Path, lock: &Path, mode: Mode) -> LockContext {
    LockContext::new(resource_of(file), mode, "file:", lock.display().to_string())
}

/// Tells the observer of a caller of one wait. Clones tell of that wait, too.
#[derive(Clone)]
pub struct WaitTeller {
    /// The observer, until the wait is over.
    observer: Arc<Mutex<Option<Box<dyn WaitObserver>>>>,
    caller: Caller,
}

impl WaitTeller {
    /// Begins a wait.
    pub fn new(caller: &Caller) -> Self {
        Self {
            observer: Arc::new(Mutex::new(caller.observer().begin_wait())),
            caller: caller.clone(),
        }
    }

    /// Ends the wait: when this returns, the observer is told nothing more. Later calls do nothing.
    pub fn end(&self) {
        let observer = lock(&self.observer).take();
        drop(observer);
    }

    async fn tell(self, wait: FileWait) -> Infallible {
        let began = Instant::now();
        let mut told = 0;
        loop {
            let when = lock(&self.observer).as_ref().map(|it| it.when(told));
            let Some(when) = when.filter(|_| !wait.limit.is_zero()) else {
                return pending().await;
            };
            sleep_until(began + when).await;
            told += 1;
            // If nothing blocks, the work itself takes its time, and there is nothing to tell.
            if let Some(blocked) = what_blocks(&wait)
                && let Some(observer) = &mut *lock(&self.observer)
            {
                observer.show(Some(&blocked), began.elapsed(), wait.limit);
            }
        }
    }
}

/// Does work that waits for the locks of files, and tells of the wait.
pub async fn for_files<T, E>(
    wait: &FileWait,
    teller: &WaitTeller,
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, E>
where
    T: Send + 'static,
    E: From<Error> + Send + 'static,
{
    // A task of its own tells, as the work may block this one. It ends with this one.
    let mut telling = JoinSet::new();
    telling.spawn(teller.clone().tell(wait.clone()));
    let done = blocking(&teller.caller, work).await;
    teller.end();
    done
}

/// Does work on files that blocks: on this thread if the caller allows it, else on a thread of its
/// own.
pub async fn blocking<T, E>(
    caller: &Caller,
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, E>
where
    T: Send + 'static,
    E: From<Error> + Send + 'static,
{
    if caller.may_block {
        return block_in_place(work);
    }
    let done = spawn_blocking(work).await;
    let died = || Error::Internal("the thread of a call on files died".into());
    done.unwrap_or_else(|_| Err(died().into()))
}

/// Returns the first document that another session holds, or that another program holds by a kernel
/// lock alone. If the wait is for one document, or for a lock of other programs, that one is
/// returned even if its holder is not found.
fn what_blocks(wait: &FileWait) -> Option<BlockedRequest> {
    let has_inner_lock = wait.with_node || wait.inner_lock.is_some();
    let is_certain = wait.files.len() == 1 || has_inner_lock;
    let (mut first_missing, mut by_stranger) = (None, None);
    for (document, lock) in &wait.files {
        let mut blocked = who_has(wait, document, lock);
        if !blocked.holders.is_empty() {
            return Some(blocked);
        }
        let (ours, strangers): (Vec<_>, Vec<_>) = strangers(lock)
            .into_iter()
            .partition(|holder| holder.pid == std::process::id());
        if is_certain {
            // A lock that we hold is no longer waited for: it is the reading that takes its time.
            let is_missing = has_inner_lock || ours.is_empty();
            first_missing = first_missing.or(is_missing.then_some(blocked));
            continue;
        }
        if let Some(stranger) = strangers.into_iter().next() {
            let FlockHolder { pid, command, .. } = stranger;
            blocked.unrecorded = Some(format!("pid {pid}, \"{command}\", which leaves no record"));
            by_stranger = by_stranger.or(Some(blocked));
        }
    }
    by_stranger.or(first_missing)
}

fn who_has(wait: &FileWait, document: &Path, lock: &Path) -> BlockedRequest {
    let mode = wait.mode;
    let held = holders(lock).unwrap_or_default();
    let ours = held.iter().any(|lease| lease.session == wait.session);
    let in_the_way = held
        .into_iter()
        .filter(|lease| lease.session != wait.session && lease.mode.conflicts_with(mode));
    let holders: Vec<_> = in_the_way.collect();
    let lock_context = context_of(document, lock, mode);
    BlockedRequest {
        circle: None,
        slots: None,
        holders,
        // The lock of other programs is taken inside of ours: if we hold ours, theirs is missing.
        unrecorded: match &wait.inner_lock {
            _ if wait.with_node && ours => Some(format!(
                "a program that speaks proper-lockfile: {}.lock",
                document.display()
            )),
            Some(inner) if ours => Some(format!("another program: {}", inner.display())),
            _ => lock_context.without_record().map(unrecorded),
        },
        position: None,
        name: lock_context.name(),
        resource: lock_context.resource,
        mode,
    }
}
