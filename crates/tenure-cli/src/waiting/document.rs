//! Waiting for documents. Their locks are waited for in the kernel, by a thread that cannot tell
//! anything meanwhile; so another one does.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tenure::{Mode, Place, Resource, SessionId};
use tenure_files::holders;

use super::blocked::{Blocked, unrecorded};
use super::screen::Screen;

/// What is waited for.
#[derive(Debug, Clone)]
pub struct Documents {
    /// The documents, each with its lock file.
    pub files: Vec<(PathBuf, PathBuf)>,
    /// How they are locked.
    pub mode: Mode,
    /// For how long is waited at most.
    pub limit: Duration,
    /// Who waits.
    pub session: SessionId,
    /// Whether Node's locks are waited for, too.
    pub with_node: bool,
}

/// Tells about a wait, until stopped or dropped. When [`stop`](Self::stop) returns, the live line is
/// gone, and nothing more is told.
pub struct Telling {
    ended: Arc<Ended>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Ended {
    ended: Mutex<bool>,
    changed: Condvar,
}

impl Telling {
    /// Begins, in a thread of its own. Where there can be none, nothing is told.
    pub fn start(documents: Documents) -> Self {
        let ended = Arc::new(Ended::default());
        let told = Arc::clone(&ended);
        let thread = (!documents.limit.is_zero()).then(|| {
            let thread = thread::Builder::new().name("telling".into());
            thread.spawn(move || tell(&documents, &told)).ok()
        });
        Self {
            ended,
            thread: Mutex::new(thread.flatten()),
        }
    }

    /// Ends it, and waits for that. Once is enough, more often does no harm.
    pub fn stop(&self) {
        *self.ended.lock() = true;
        self.ended.changed.notify_all();
        let thread = self
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(thread) = thread {
            // One that panicked tells nothing more, either.
            let _ = thread.join();
        }
    }
}

impl Drop for Telling {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Ended {
    fn lock(&self) -> std::sync::MutexGuard<'_, bool> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sleeps until then; false if it is to end.
    fn sleep_until(&self, when: Instant) -> bool {
        let left = when.saturating_duration_since(Instant::now());
        let waited = self
            .changed
            .wait_timeout_while(self.lock(), left, |ended| !*ended);
        let (ended, _) = waited.unwrap_or_else(PoisonError::into_inner);
        !*ended
    }
}

fn tell(documents: &Documents, ended: &Ended) {
    let began = Instant::now();
    let mut screen = Screen::of_process();
    let mut told = 0;
    while ended.sleep_until(began + screen.when(told)) {
        told += 1;
        let blocked = what_blocks(documents);
        screen.show(blocked.as_ref(), began.elapsed(), documents.limit);
    }
}

/// The first document that someone else has. Where it cannot be looked up, nothing is said.
fn what_blocks(documents: &Documents) -> Option<Blocked> {
    let mut first_missing = None;
    for (document, lock) in &documents.files {
        let blocked = who_has(documents, document, lock);
        if !blocked.holders.is_empty() {
            return Some(blocked);
        }
        first_missing = first_missing.or(Some(blocked));
    }
    first_missing
}

fn who_has(documents: &Documents, document: &Path, lock: &Path) -> Blocked {
    let mode = documents.mode;
    let held = holders(lock).unwrap_or_default();
    let ours = held.iter().any(|lease| lease.session == documents.session);
    let in_the_way = held
        .into_iter()
        .filter(|lease| lease.session != documents.session && lease.mode.conflicts_with(mode));
    let holders: Vec<_> = in_the_way.collect();
    let place = Place {
        resource: name_of(document),
        mode,
        store: "file:".into(),
        location: lock.display().to_string(),
    };
    Blocked {
        slots: None,
        // Nobody inherits the lock of a document.
        outlived: Vec::new(),
        holders,
        // Node's lock is taken inside of ours: it is what is missing where ours is held.
        unrecorded: match documents.with_node && ours {
            true => Some(format!(
                "a program that speaks proper-lockfile: {}.lock",
                document.display()
            )),
            false => place.without_record().map(unrecorded),
        },
        position: None,
        resource: place.resource,
        mode,
    }
}

/// The name a document has in records and errors, or its end if it is long.
pub fn name_of(document: &Path) -> Resource {
    use std::os::unix::ffi::OsStrExt;
    let bytes = document.as_os_str().as_bytes();
    let end = &bytes[bytes.len().saturating_sub(300)..];
    let whole = Resource::new("file", bytes);
    let name = whole.or_else(|_| Resource::new("file", end));
    name.expect("300 bytes that are not empty make a resource")
}
