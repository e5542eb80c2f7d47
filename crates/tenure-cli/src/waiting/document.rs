//! Waits for documents. The thread that waits for their locks blocks in the kernel, so another
//! thread reports the wait.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tenure::{LockContext, Mode, SessionId};
use tenure_core::poison::lock;
use tenure_lockfile::{FlockHolder, holders, resource_of, strangers};

use tenure_service::observer::WaitObserver;
use tenure_service::waiting::{BlockedRequest, unrecorded};

use super::screen::Screen;

/// A wait for documents.
#[derive(Debug, Clone)]
pub struct DocumentWait {
    /// The documents, each with its lock file.
    pub files: Vec<(PathBuf, PathBuf)>,
    /// The mode in which they are locked.
    pub mode: Mode,
    /// The longest wait.
    pub limit: Duration,
    /// The session that waits.
    pub session: SessionId,
    /// True if Node's locks are waited for, too.
    pub with_node: bool,
    /// The lock of other programs that is waited for inside of ours, if there is one.
    pub inner_lock: Option<PathBuf>,
}

/// Reports a wait until it is stopped or dropped. When [`stop`](Self::stop) returns, the live line
/// is gone, and nothing more is printed.
pub struct WaitReporter {
    /// The thread, and what ends it when it is dropped. `None` once it was stopped.
    thread: Mutex<Option<(Sender<()>, JoinHandle<()>)>>,
}

impl WaitReporter {
    /// Starts a thread that reports. If no thread can be started, nothing is reported.
    pub fn start(wait: DocumentWait) -> Self {
        let (stop, stopped) = mpsc::channel();
        let thread = (!wait.limit.is_zero()).then(|| {
            let thread = thread::Builder::new().name("telling".into());
            thread.spawn(move || tell(&wait, &stopped)).ok()
        });
        let thread = thread.flatten().map(|thread| (stop, thread));
        Self {
            thread: Mutex::new(thread),
        }
    }

    /// Stops the thread and waits for its end. Later calls do nothing.
    pub fn stop(&self) {
        let running = lock(&self.thread).take();
        if let Some((stop, thread)) = running {
            drop(stop);
            // A thread that panicked prints nothing more, either.
            let _ = thread.join();
        }
    }
}

impl Drop for WaitReporter {
    fn drop(&mut self) {
        self.stop();
    }
}

fn tell(wait: &DocumentWait, stopped: &Receiver<()>) {
    let began = Instant::now();
    let mut screen = Screen::of_process();
    let mut told = 0;
    loop {
        let left = screen.when(told).saturating_sub(began.elapsed());
        if stopped.recv_timeout(left) != Err(RecvTimeoutError::Timeout) {
            return;
        }
        told += 1;
        // Where nobody holds anything, the work itself takes its time.
        if let Some(blocked) = what_blocks(wait) {
            screen.show(Some(&blocked), began.elapsed(), wait.limit);
        }
    }
}

/// Returns the first document that another session holds, or another program by a kernel lock alone. Where one document is
/// waited for, or a lock of another kind, it is that one, whether its holder is found or not.
fn what_blocks(wait: &DocumentWait) -> Option<BlockedRequest> {
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
            // A lock that we hold is waited for no more: reading takes its time.
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

fn who_has(wait: &DocumentWait, document: &Path, lock: &Path) -> BlockedRequest {
    let mode = wait.mode;
    let held = holders(lock).unwrap_or_default();
    let ours = held.iter().any(|lease| lease.session == wait.session);
    let in_the_way = held
        .into_iter()
        .filter(|lease| lease.session != wait.session && lease.mode.conflicts_with(mode));
    let holders: Vec<_> = in_the_way.collect();
    let lock_context = LockContext::new(
        resource_of(document),
        mode,
        "file:",
        lock.display().to_string(),
    );
    BlockedRequest {
        circle: None,
        slots: None,
        holders,
        // A lock of others is taken inside of ours: it is what is missing where ours is held.
        unrecorded: match &wait.inner_lock {
            _ if wait.with_node && ours => Some(format!(
                "a program that speaks proper-lockfile: {}.lock",
                document.display()
            )),
            Some(inner) if ours => Some(format!("another program: {}", inner.display())),
            _ => lock_context.without_record().map(unrecorded),
        },
        position: None,
        resource: lock_context.resource,
        mode,
    }
}
