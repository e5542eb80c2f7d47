//! The line inside one process, and the descriptors it keeps.
//!
//! Threads and tasks that wait for the same lock file stand in line here, first come first
//! served; only the first waits in the kernel. Whoever waits gives a waker, so a thread and
//! a task wait alike.
//!
//! A released lock file stays open for the next who wants it, one for each path and
//! [`KEPT_MAX`] in all. In a forked child kept files are closed unused: the child shares
//! them with its parent, and a lock taken through one would be the parent's, too.

use std::borrow::Borrow;
use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Instant;

use crate::author::Author;
use crate::lockfile::LockFile;
use crate::platform;

/// How many lock files stay open unused.
const KEPT_MAX: usize = 64;

/// The lines and kept files of all paths.
#[derive(Default)]
pub(crate) struct Lines {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    paths: HashMap<Key, AtPath>,
    kept: usize,
    next_ticket: u64,
    generation: u32,
}

#[derive(Default)]
struct AtPath {
    line: VecDeque<Waiting>,
    kept: Option<Kept>,
}

/// A path, compared and hashed as bytes, which is all that is needed here and much faster.
#[derive(PartialEq, Eq, Hash)]
struct Key(Vec<u8>);

impl Borrow<[u8]> for Key {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

/// An open lock file that holds nothing, with the author that used it last.
pub(crate) struct Kept {
    pub(crate) file: LockFile,
    pub(crate) author: Author,
}

struct Waiting {
    ticket: u64,
    waker: Option<Waker>,
}

impl Lines {
    /// What is kept of a path, unless someone of this process waits there.
    pub(crate) fn enter(&self, path: &Path) -> Result<Option<Kept>, Waited> {
        let mut inner = self.inner();
        match inner.paths.get_mut(bytes(path)) {
            None => Ok(None),
            Some(at) if at.line.is_empty() => Ok(inner.take_kept(path)),
            Some(_) => Err(Waited),
        }
    }

    /// What is kept of a path.
    pub(crate) fn take_kept(&self, path: &Path) -> Option<Kept> {
        self.inner().take_kept(path)
    }

    /// Whether something is kept of a path.
    pub(crate) fn has_kept(&self, path: &Path) -> bool {
        let inner = self.inner();
        inner
            .paths
            .get(bytes(path))
            .is_some_and(|at| at.kept.is_some())
    }

    /// Keeps a file that holds nothing, and its author.
    pub(crate) fn keep(&self, file: LockFile, author: Author) {
        let mut inner = self.inner();
        if inner.kept >= KEPT_MAX {
            inner.forget_if_unused(file.path());
            return;
        }
        let kept = Kept { file, author };
        match inner.paths.get_mut(bytes(kept.file.path())) {
            Some(at) if at.kept.is_some() => return,
            Some(at) => at.kept = Some(kept),
            None => {
                let key = Key(bytes(kept.file.path()).to_vec());
                let line = VecDeque::new();
                inner.paths.insert(
                    key,
                    AtPath {
                        line,
                        kept: Some(kept),
                    },
                );
            }
        }
        inner.kept += 1;
    }

    /// Forgets a path whose file is not kept again.
    pub(crate) fn forget(&self, path: &Path) {
        self.inner().forget_if_unused(path);
    }

    /// Goes to the end of the line.
    pub(crate) fn join(self: &Arc<Self>, path: &Arc<Path>) -> Ticket {
        let mut inner = self.inner();
        inner.next_ticket += 1;
        let ticket = inner.next_ticket;
        let at = inner.paths.entry(Key(bytes(path).to_vec())).or_default();
        at.line.push_back(Waiting {
            ticket,
            waker: None,
        });
        Ticket {
            lines: self.clone(),
            path: path.clone(),
            ticket,
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // No step below can panic half-way, so a poisoned map is still whole.
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let generation = platform::fork_generation();
        if inner.generation != generation {
            // A forked child: the threads in line are not here, and the kept files are the
            // parent's, too.
            *inner = Inner {
                generation,
                ..Inner::default()
            };
        }
        inner
    }
}

/// Someone of this process waits there already.
#[derive(Debug)]
pub(crate) struct Waited;

impl Inner {
    fn take_kept(&mut self, path: &Path) -> Option<Kept> {
        // The entry stays, so that keeping it again costs no more than a look-up. Whoever
        // takes a file keeps it again or forgets its path.
        let kept = self.paths.get_mut(bytes(path))?.kept.take()?;
        self.kept -= 1;
        kept.file.is_ours().then_some(kept)
    }

    fn forget_if_unused(&mut self, path: &Path) {
        let unused = |at: &AtPath| at.line.is_empty() && at.kept.is_none();
        if self.paths.get(bytes(path)).is_some_and(unused) {
            self.paths.remove(bytes(path));
        }
    }
}

/// A place in line. Dropping it lets the next one move up.
pub(crate) struct Ticket {
    lines: Arc<Lines>,
    path: Arc<Path>,
    ticket: u64,
}

impl Ticket {
    /// Waits until this is the first, as a task.
    pub(crate) fn first(&self) -> impl Future<Output = ()> + '_ {
        struct First<'a>(&'a Ticket);
        impl Future for First<'_> {
            type Output = ();
            fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
                self.0.poll_first(context.waker())
            }
        }
        First(self)
    }

    /// Waits until this is the first, as a thread; false if the deadline comes first.
    pub(crate) fn wait_first(&self, deadline: Instant) -> bool {
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        loop {
            if self.poll_first(&waker).is_ready() {
                return true;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            thread::park_timeout(left);
        }
    }

    fn poll_first(&self, waker: &Waker) -> Poll<()> {
        let mut inner = self.lines.inner();
        let Some(at) = inner.paths.get_mut(bytes(&self.path)) else {
            // A ticket of the parent, in a forked child: nobody is before it.
            return Poll::Ready(());
        };
        let first = at.line.front().map(|waiting| waiting.ticket);
        if first == Some(self.ticket) {
            return Poll::Ready(());
        }
        let own = at
            .line
            .iter_mut()
            .find(|waiting| waiting.ticket == self.ticket);
        let own = own.expect("a ticket is in line until it is dropped");
        let old = own.waker.replace(waker.clone());
        // Dropped outside the mutex: a waker may run anything.
        drop(inner);
        drop(old);
        Poll::Pending
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut inner = self.lines.inner();
        let Some(at) = inner.paths.get_mut(bytes(&self.path)) else {
            return;
        };
        let was_first = at
            .line
            .front()
            .is_some_and(|first| first.ticket == self.ticket);
        at.line.retain(|waiting| waiting.ticket != self.ticket);
        let next = if was_first { at.line.front_mut() } else { None };
        let waker = next.and_then(|next| next.waker.take());
        inner.forget_if_unused(&self.path);
        // Woken outside the mutex: a waker may run anything.
        drop(inner);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;

    fn path() -> Arc<Path> {
        Arc::from(Path::new("/a"))
    }

    #[test]
    fn the_line_is_first_come_first_served() {
        let lines = Arc::new(Lines::default());
        let tickets: Vec<_> = (0..5).map(|_| lines.join(&path())).collect();
        let (done, order) = mpsc::channel();
        thread::scope(|scope| {
            for (place, ticket) in tickets.into_iter().enumerate().rev() {
                let done = done.clone();
                scope.spawn(move || {
                    assert!(ticket.wait_first(Instant::now() + Duration::from_secs(30)));
                    done.send(place).unwrap();
                });
            }
        });
        drop(done);
        assert_eq!(order.iter().collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn who_gives_up_in_the_middle_holds_nobody_up() {
        let lines = Arc::new(Lines::default());
        let first = lines.join(&path());
        let second = lines.join(&path());
        let third = lines.join(&path());
        assert!(!second.wait_first(Instant::now() + Duration::from_millis(1)));
        drop(second);
        assert!(!third.wait_first(Instant::now() + Duration::from_millis(1)));
        drop(first);
        assert!(third.wait_first(Instant::now() + Duration::from_secs(30)));
    }

    #[test]
    fn an_unused_path_is_forgotten() {
        let lines = Arc::new(Lines::default());
        drop(lines.join(&path()));
        assert!(lines.inner().paths.is_empty());
        assert!(lines.enter(&path()).is_ok());
        let _ticket = lines.join(&path());
        assert!(lines.enter(&path()).is_err());
    }
}
