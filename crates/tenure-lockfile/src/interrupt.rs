//! Blocking system calls that end at a deadline or when cancelled.
//!
//! `flock(2)` and `fcntl(2)` have no timeout. A thread that waits in one of them is ended by a
//! signal that the [interrupter](Interrupter) sends. The thread leaves the kernel by itself, so
//! nothing is left behind that could be granted the lock later.
//!
//! The interrupter is a thread of its own that sleeps until the earliest deadline. A cancellation
//! moves the deadline of a wait to now. A thread that is granted in time only takes itself off a
//! list, without a system call: that matters, because it happens between the grant and the return
//! to the caller.
//!
//! # Races
//!
//! - The signal arrives before the call has begun: it is sent again every few milliseconds
//!   until the wait is over.
//! - The grant and the signal come together: the return value of the call decides. A grant counts,
//!   and the caller of a cancelled wait gives it back.
//! - The cancellation comes before the wait is on the list, or before its waker is registered: the
//!   thread asks whether it was cancelled after both, and before the call.
//! - The thread ends and another thread gets its number: a thread is only signalled under the mutex
//!   of the list, and takes itself off that list before it goes on.
//! - A fork: the child has no interrupter and starts one of its own. A waker of the parent does
//!   nothing in the child.

use std::io;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::Wake;
use std::thread;
use std::time::{Duration, Instant};

use tenure_core::internal::lock;
use tenure_os::cancel::{Cancel, Ended, Registration};
use tenure_os::platform::{self, ThreadToInterrupt};

/// The time after which a signal is sent again: it may have come before the call began.
const AGAIN: Duration = Duration::from_millis(2);
/// The time without work after which the interrupter's thread ends.
const IDLE: Duration = Duration::from_secs(1);

/// The right to block in the kernel, until a deadline or until cancelled.
pub(crate) struct Interrupt {
    deadline: Option<Instant>,
    cancel: Cancel,
    entry: Option<Entry>,
}

impl Interrupt {
    /// Returns an interrupt that ends waits when cancelled, and at the deadline if there is one.
    pub(crate) fn new(deadline: Option<Instant>, cancel: &Cancel) -> Self {
        Self {
            deadline,
            cancel: cancel.clone(),
            entry: None,
        }
    }

    /// Returns an interrupt that ends waits at `deadline`, and that is never cancelled.
    pub(crate) fn at(deadline: Instant) -> Self {
        Self::new(Some(deadline), &Cancel::default())
    }

    /// Repeats the call until it succeeds or fails, or the wait must end.
    pub(crate) fn wait(
        &mut self,
        mut call: impl FnMut() -> io::Result<()>,
    ) -> io::Result<Result<(), Ended>> {
        self.arm()?;
        loop {
            if let Some(ended) = self.ended() {
                return Ok(Err(ended));
            }
            match call() {
                Ok(()) => return Ok(Ok(())),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns why waits have ended, or `None` if they have not.
    pub(crate) fn ended(&self) -> Option<Ended> {
        if self.cancel.is_cancelled() {
            return Some(Ended::Cancelled);
        }
        let late = |deadline: &Instant| Instant::now() >= *deadline;
        self.deadline.filter(late).map(|_| Ended::Deadline)
    }

    /// Puts this thread on the list, once for all calls of a wait.
    fn arm(&mut self) -> io::Result<()> {
        if self.entry.is_none() {
            let thread = ThreadToInterrupt::this()?;
            let wait = Interrupter::of_this_process().add(thread, self.deadline)?;
            self.entry = Some(Entry {
                wait,
                _registration: self.cancel.register(Arc::new(wait).into()),
            });
        }
        Ok(())
    }
}

/// Takes a thread off the list when dropped.
struct Entry {
    wait: WatchedWait,
    _registration: Registration,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.wait.watch.remove(self.wait.number);
    }
}

/// A wait on the list. Waking it ends the wait.
#[derive(Clone, Copy)]
struct WatchedWait {
    watch: &'static Interrupter,
    number: u64,
}

impl Wake for WatchedWait {
    fn wake(self: Arc<Self>) {
        // In a forked child the mutex may be locked for ever.
        if self.watch.generation == platform::fork_generation() {
            self.watch.end_now(self.number);
        }
    }
}

/// Signals threads whose deadline has passed.
struct Interrupter {
    generation: u32,
    list: Mutex<List>,
    changed: Condvar,
}

#[derive(Default)]
struct List {
    waits: Vec<Watched>,
    next_number: u64,
    running: bool,
}

struct Watched {
    number: u64,
    thread: ThreadToInterrupt,
    deadline: Option<Instant>,
}

impl Interrupter {
    /// Returns the interrupter of this process. A forked child gets a new one: the mutex of the old
    /// one may be locked for ever. An interrupter is never freed.
    fn of_this_process() -> &'static Interrupter {
        static CURRENT: AtomicPtr<Interrupter> = AtomicPtr::new(std::ptr::null_mut());
        let generation = platform::fork_generation();
        let current = CURRENT.load(Ordering::Acquire);
        // SAFETY: it is null, or was leaked below and is valid for ever.
        if let Some(watch) = unsafe { current.as_ref() }
            && watch.generation == generation
        {
            return watch;
        }
        let watch = Box::leak(Box::new(Interrupter {
            generation,
            list: Mutex::default(),
            changed: Condvar::new(),
        }));
        let swapped = CURRENT.compare_exchange(current, watch, Ordering::AcqRel, Ordering::Acquire);
        match swapped {
            Ok(_) => watch,
            // SAFETY: the present pointer was leaked by another thread of this process.
            Err(other) => unsafe { &*other },
        }
    }

    fn add(
        &'static self,
        thread: ThreadToInterrupt,
        deadline: Option<Instant>,
    ) -> io::Result<WatchedWait> {
        let mut list = lock(&self.list);
        if !list.running {
            let builder = thread::Builder::new().name("tenure-watch".into());
            builder.stack_size(128 * 1024).spawn(|| self.run())?;
            list.running = true;
        }
        list.next_number += 1;
        let number = list.next_number;
        let earliest = list.waits.iter().filter_map(|wait| wait.deadline).min();
        list.waits.push(Watched {
            number,
            thread,
            deadline,
        });
        let is_earlier = |deadline| earliest.is_none_or(|earliest| deadline < earliest);
        if deadline.is_some_and(is_earlier) {
            self.changed.notify_one();
        }
        let watch = self;
        Ok(WatchedWait { watch, number })
    }

    /// Moves the deadline of a wait to now, if it is still on the list.
    fn end_now(&self, number: u64) {
        let mut list = lock(&self.list);
        if let Some(wait) = list.waits.iter_mut().find(|wait| wait.number == number) {
            wait.deadline = Some(Instant::now());
            self.changed.notify_one();
        }
    }

    fn remove(&self, number: u64) {
        lock(&self.list).waits.retain(|wait| wait.number != number);
    }

    fn run(&self) {
        platform::block_signals();
        let mut list = lock(&self.list);
        let mut idle_since = None;
        loop {
            let now = Instant::now();
            let mut pause = IDLE;
            for wait in &list.waits {
                let Some(deadline) = wait.deadline else {
                    continue;
                };
                if deadline <= now {
                    wait.thread.interrupt();
                    pause = pause.min(AGAIN);
                } else {
                    pause = pause.min(deadline - now);
                }
            }
            if list.waits.is_empty() {
                let since = *idle_since.get_or_insert(now);
                if now.duration_since(since) >= IDLE {
                    list.running = false;
                    return;
                }
            } else {
                idle_since = None;
            }
            let waited = self.changed.wait_timeout(list, pause);
            list = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// Blocks until a signal comes, for at most ten seconds.
    fn block() -> io::Result<()> {
        let ten_seconds = rustix::fs::Timespec {
            tv_sec: 10,
            tv_nsec: 0,
        };
        let _ = rustix::thread::nanosleep(&ten_seconds);
        Err(io::ErrorKind::Interrupted.into())
    }

    #[test]
    fn waits_end_at_their_own_deadlines() {
        let started = Instant::now();
        thread::scope(|scope| {
            for millis in [80, 20, 50, 21, 500] {
                scope.spawn(move || {
                    let wait = Duration::from_millis(millis);
                    let mut interrupt = Interrupt::at(started + wait);
                    assert_eq!(interrupt.wait(block).unwrap(), Err(Ended::Deadline));
                    let waited = started.elapsed();
                    assert!(
                        waited >= wait && waited < Duration::from_secs(9),
                        "{waited:?}"
                    );
                });
            }
        });
    }

    #[test]
    fn a_deadline_in_the_past_makes_no_call() {
        let mut interrupt = Interrupt::at(Instant::now());
        let ended = interrupt.wait(|| panic!("it was called")).unwrap();
        assert_eq!(ended, Err(Ended::Deadline));
    }

    #[test]
    fn a_wait_that_was_granted_is_not_interrupted_later() {
        let mut interrupt = Interrupt::at(Instant::now() + Duration::from_millis(5));
        assert_eq!(interrupt.wait(|| Ok(())).unwrap(), Ok(()));
        drop(interrupt);
        let nap = rustix::fs::Timespec {
            tv_sec: 0,
            tv_nsec: 30_000_000,
        };
        let slept = rustix::thread::nanosleep(&nap);
        assert!(matches!(slept, rustix::thread::NanosleepRelativeResult::Ok));
    }

    #[test]
    fn a_cancelled_wait_ends_whenever_it_is_cancelled() {
        // Many rounds, so that the cancellation falls before, into and after the call.
        for round in 0..200 {
            let cancel = Cancel::default();
            let (started, has_started) = mpsc::channel();
            let thread = thread::spawn({
                let cancel = cancel.clone();
                move || {
                    started.send(()).unwrap();
                    Interrupt::new(None, &cancel).wait(block).unwrap()
                }
            });
            has_started.recv().unwrap();
            for _ in 0..round * 20 {
                std::hint::spin_loop();
            }
            let cancelled = Instant::now();
            cancel.cancel();
            assert_eq!(thread.join().unwrap(), Err(Ended::Cancelled));
            assert!(cancelled.elapsed() < Duration::from_secs(9));
        }
    }

    #[test]
    fn a_cancellation_ends_a_wait_long_before_its_deadline_and_no_other_wait() {
        let (cancel, started) = (Cancel::default(), Instant::now());
        let wait = |cancel: &Cancel, time| {
            let mut interrupt = Interrupt::new(Some(started + time), cancel);
            interrupt.wait(block).unwrap()
        };
        thread::scope(|scope| {
            let cancelled = scope.spawn(|| wait(&cancel, Duration::from_secs(60)));
            let other = scope.spawn(|| wait(&Cancel::default(), Duration::from_millis(300)));
            cancel.cancel();
            assert_eq!(cancelled.join().unwrap(), Err(Ended::Cancelled));
            assert_eq!(other.join().unwrap(), Err(Ended::Deadline));
        });
        assert!(started.elapsed() < Duration::from_secs(9));
    }
}
