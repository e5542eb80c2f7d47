//! The queue inside one process, and the lock files that stay open unused.
//!
//! Threads and tasks that wait for one lock file queue here, first come first served; only the
//! first waits in the kernel. Each waiter gives a waker, so threads and tasks wait alike.
//!
//! A released lock file stays open for the next request, one for each path and [`IDLE_MAX`] in all.
//! A forked child closes idle files without using them: it shares them with its parent, so a lock
//! taken through one would also be the parent's.

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Instant;

use tenure_core::internal::lock;
use tenure_os::cancel::{Cancel, Ended};
use tenure_os::platform;

use crate::lockfile::LockFile;
use crate::record_author::RecordAuthor;

/// The number of unused lock files that stay open.
const IDLE_MAX: usize = 64;

/// The queues and idle files of all paths.
#[derive(Default)]
pub(crate) struct LocalQueues {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    paths: HashMap<Vec<u8>, PathState>,
    idle: usize,
    next_ticket: u64,
    generation: u32,
}

#[derive(Default)]
struct PathState {
    queue: VecDeque<Waiter>,
    idle: Option<IdleFile>,
}

/// Returns the bytes of a path: comparing and hashing them is enough here, and much faster.
fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

/// An open lock file that holds nothing, with the author that used it last.
pub(crate) struct IdleFile {
    pub(crate) file: LockFile,
    pub(crate) author: RecordAuthor,
}

struct Waiter {
    ticket: u64,
    waker: Option<Waker>,
}

impl LocalQueues {
    /// Returns the idle file of a path, or an error if this process has a waiter there.
    pub(crate) fn enter(&self, path: &Path) -> Result<Option<IdleFile>, QueueOccupied> {
        let mut inner = self.inner();
        match inner.paths.get_mut(bytes(path)) {
            None => Ok(None),
            Some(at) if at.queue.is_empty() => Ok(inner.take_idle(path)),
            Some(_) => Err(QueueOccupied),
        }
    }

    /// Returns the idle file of a path.
    pub(crate) fn take_idle(&self, path: &Path) -> Option<IdleFile> {
        self.inner().take_idle(path)
    }

    /// Returns true if a path has an idle file.
    pub(crate) fn has_idle(&self, path: &Path) -> bool {
        let inner = self.inner();
        inner
            .paths
            .get(bytes(path))
            .is_some_and(|at| at.idle.is_some())
    }

    /// Keeps a file that holds nothing open, with its author.
    pub(crate) fn keep(&self, file: LockFile, author: RecordAuthor) {
        let mut inner = self.inner();
        if inner.idle >= IDLE_MAX {
            inner.forget_if_unused(file.path());
            return;
        }
        let idle = IdleFile { file, author };
        match inner.paths.get_mut(bytes(idle.file.path())) {
            Some(at) if at.idle.is_some() => return,
            Some(at) => at.idle = Some(idle),
            None => {
                let key = bytes(idle.file.path()).to_vec();
                inner.paths.entry(key).or_default().idle = Some(idle);
            }
        }
        inner.idle += 1;
    }

    /// Forgets a path whose file is not kept open again.
    pub(crate) fn forget(&self, path: &Path) {
        self.inner().forget_if_unused(path);
    }

    /// Joins the end of the queue.
    pub(crate) fn join(self: &Arc<Self>, path: &Arc<Path>) -> Ticket {
        let mut inner = self.inner();
        inner.next_ticket += 1;
        let ticket = inner.next_ticket;
        let at = inner.paths.entry(bytes(path).to_vec()).or_default();
        at.queue.push_back(Waiter {
            ticket,
            waker: None,
        });
        Ticket {
            queues: self.clone(),
            path: path.clone(),
            ticket,
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // No step below can panic half-way, so a poisoned map is still whole.
        let mut inner = lock(&self.inner);
        let generation = platform::fork_generation();
        if inner.generation != generation {
            // A forked child has none of the queued threads, and shares the idle files with its
            // parent.
            *inner = Inner {
                generation,
                ..Inner::default()
            };
        }
        inner
    }
}

/// Another waiter of this process is queued already.
#[derive(Debug)]
pub(crate) struct QueueOccupied;

impl Inner {
    fn take_idle(&mut self, path: &Path) -> Option<IdleFile> {
        // The entry stays, so that keeping the file again costs no more than a look-up. A caller
        // that takes a file keeps it again or forgets its path.
        let idle = self.paths.get_mut(bytes(path))?.idle.take()?;
        self.idle -= 1;
        idle.file.is_ours().then_some(idle)
    }

    fn forget_if_unused(&mut self, path: &Path) {
        let unused = |at: &PathState| at.queue.is_empty() && at.idle.is_none();
        if self.paths.get(bytes(path)).is_some_and(unused) {
            self.paths.remove(bytes(path));
        }
    }
}

/// A place in the queue. Dropping it lets the next one move up.
pub(crate) struct Ticket {
    queues: Arc<LocalQueues>,
    path: Arc<Path>,
    ticket: u64,
}

impl Ticket {
    /// Resolves when this is the first in the queue.
    pub(crate) async fn first(&self) {
        poll_fn(|context| self.poll_first(context.waker())).await;
    }

    /// Blocks the thread until this is the first in the queue, or the wait is over.
    pub(crate) fn wait_first(&self, deadline: Instant, cancel: &Cancel) -> Result<(), Ended> {
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let _registration = cancel.register(waker.clone());
        loop {
            if self.poll_first(&waker).is_ready() {
                return Ok(());
            }
            if cancel.is_cancelled() {
                return Err(Ended::Cancelled);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Ended::Deadline);
            }
            thread::park_timeout(left);
        }
    }

    fn poll_first(&self, waker: &Waker) -> Poll<()> {
        let mut inner = self.queues.inner();
        let Some(at) = inner.paths.get_mut(bytes(&self.path)) else {
            // In a forked child this is a ticket of the parent: no waiter is before it.
            return Poll::Ready(());
        };
        let first = at.queue.front().map(|waiting| waiting.ticket);
        if first == Some(self.ticket) {
            return Poll::Ready(());
        }
        let own = at
            .queue
            .iter_mut()
            .find(|waiting| waiting.ticket == self.ticket);
        let own = own.expect("a ticket is in line until it is dropped");
        let old = own.waker.replace(waker.clone());
        // Wakers are dropped outside the mutex: a waker may run anything.
        drop(inner);
        drop(old);
        Poll::Pending
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut inner = self.queues.inner();
        let Some(at) = inner.paths.get_mut(bytes(&self.path)) else {
            return;
        };
        let was_first = at
            .queue
            .front()
            .is_some_and(|first| first.ticket == self.ticket);
        at.queue.retain(|waiting| waiting.ticket != self.ticket);
        let next = if was_first {
            at.queue.front_mut()
        } else {
            None
        };
        let waker = next.and_then(|next| next.waker.take());
        inner.forget_if_unused(&self.path);
        // The next waiter is woken outside the mutex: a waker may run anything.
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

    const SHORT: Duration = Duration::from_millis(1);
    const LONG: Duration = Duration::from_secs(60);

    fn path() -> Arc<Path> {
        Arc::from(Path::new("/a"))
    }

    fn wait_first(ticket: &Ticket, time: Duration) -> Result<(), Ended> {
        ticket.wait_first(Instant::now() + time, &Cancel::default())
    }

    #[test]
    fn the_line_is_first_come_first_served() {
        let queues = Arc::new(LocalQueues::default());
        let tickets: Vec<_> = (0..5).map(|_| queues.join(&path())).collect();
        let (done, order) = mpsc::channel();
        thread::scope(|scope| {
            for (place, ticket) in tickets.into_iter().enumerate().rev() {
                let done = done.clone();
                scope.spawn(move || {
                    assert_eq!(wait_first(&ticket, LONG), Ok(()));
                    done.send(place).unwrap();
                });
            }
        });
        drop(done);
        assert_eq!(order.iter().collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn who_gives_up_in_the_middle_holds_nobody_up() {
        let queues = Arc::new(LocalQueues::default());
        let first = queues.join(&path());
        let second = queues.join(&path());
        let third = queues.join(&path());
        assert_eq!(wait_first(&second, SHORT), Err(Ended::Deadline));
        drop(second);
        assert_eq!(wait_first(&third, SHORT), Err(Ended::Deadline));
        drop(first);
        assert_eq!(wait_first(&third, LONG), Ok(()));
    }

    #[test]
    fn a_cancelled_wait_ends_at_once_and_holds_nobody_up() {
        let queues = Arc::new(LocalQueues::default());
        let first = queues.join(&path());
        // Many rounds, so that the cancellation falls before, into and after the first step of the
        // wait.
        for round in 0..200 {
            let (second, cancel) = (queues.join(&path()), Cancel::default());
            let (sender, has_started) = mpsc::channel();
            let waiting = thread::spawn({
                let cancel = cancel.clone();
                move || {
                    sender.send(()).unwrap();
                    second.wait_first(Instant::now() + LONG, &cancel)
                }
            });
            has_started.recv().unwrap();
            for _ in 0..round * 20 {
                std::hint::spin_loop();
            }
            cancel.cancel();
            assert_eq!(waiting.join().unwrap(), Err(Ended::Cancelled));
        }
        let next = queues.join(&path());
        drop(first);
        assert_eq!(wait_first(&next, LONG), Ok(()));
    }

    #[test]
    fn an_unused_path_is_forgotten() {
        let queues = Arc::new(LocalQueues::default());
        drop(queues.join(&path()));
        assert!(queues.inner().paths.is_empty());
        assert!(queues.enter(&path()).is_ok());
        let _ticket = queues.join(&path());
        assert!(queues.enter(&path()).is_err());
    }
}
