//! Blocking system calls that end at a deadline or when told to.
//!
//! `flock(2)` and `fcntl(2)` have no timeout. A thread that waits in one of them is ended
//! by a signal: at its deadline, sent by the [interrupter](Interrupter), or at once, sent by the thread that
//! cancels the wait. The thread leaves the kernel by itself, so nothing is left behind that
//! could be granted the lock later.
//!
//! The watch is a thread of its own that sleeps until the earliest deadline. A thread that is
//! granted in time only takes itself off a list, without a system call: that matters, as
//! it happens between the grant and the return to the caller.
//!
//! # Races
//!
//! - The signal arrives before the call has begun: it is sent again every few milliseconds
//!   until the wait is over.
//! - The grant and the signal come together: the return value of the call decides. A grant counts,
//!   and the caller of a cancelled wait gives it back.
//! - The thread ends and its number is given to another: a thread is only signalled under
//!   the mutex of the list it takes itself off before it goes on.
//! - A fork: the child has no watch and starts one of its own.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tenure_core::poison::lock;

use crate::platform::{self, ThreadToInterrupt};

/// Signals that may have come too early are repeated after this time.
const AGAIN: Duration = Duration::from_millis(2);
/// The watch thread ends when it had nothing to do for this long.
const IDLE: Duration = Duration::from_secs(1);

/// The reason why a wait ended without a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The deadline passed, or the wait was cancelled.
    Early,
}

/// The right to block in the kernel, until a deadline or until cancelled.
pub(crate) struct Interrupt {
    deadline: Option<Instant>,
    cancel: Cancel,
    entry: Option<Entry>,
}

impl Interrupt {
    /// Returns an interrupt that ends waits at `deadline`.
    pub(crate) fn at(deadline: Instant) -> Self {
        Self {
            deadline: Some(deadline),
            cancel: Cancel::default(),
            entry: None,
        }
    }

    /// Returns an interrupt that ends waits only when cancelled.
    pub(crate) fn by(cancel: &Cancel) -> Self {
        Self {
            deadline: None,
            cancel: cancel.clone(),
            entry: None,
        }
    }

    /// Repeats the call until it succeeds, fails, or the wait is to end.
    pub(crate) fn wait(
        &mut self,
        mut call: impl FnMut() -> io::Result<()>,
    ) -> io::Result<Result<(), Ended>> {
        self.arm()?;
        loop {
            if self.is_over() {
                return Ok(Err(Ended::Early));
            }
            match call() {
                Ok(()) => return Ok(Ok(())),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn is_over(&self) -> bool {
        let late = self
            .deadline
            .is_some_and(|deadline| Instant::now() >= deadline);
        late || self.cancel.shared.cancelled.load(Ordering::SeqCst)
    }

    /// Puts this thread on the lists, once for all calls of a wait.
    fn arm(&mut self) -> io::Result<()> {
        if self.entry.is_some() {
            return Ok(());
        }
        let thread = ThreadToInterrupt::this()?;
        self.entry = Some(match self.deadline {
            Some(deadline) => Interrupter::of_this_process().add(thread, deadline)?,
            None => {
                // A cancellation before this is seen by the check before the call.
                *lock(&self.cancel.shared.thread) = Some(thread);
                Entry::Cancellable(self.cancel.clone())
            }
        });
        Ok(())
    }
}

/// Takes a thread off its list when dropped.
enum Entry {
    Cancellable(Cancel),
    Watched {
        watch: &'static Interrupter,
        number: u64,
    },
}

impl Drop for Entry {
    fn drop(&mut self) {
        match self {
            Entry::Cancellable(cancel) => *lock(&cancel.shared.thread) = None,
            Entry::Watched { watch, number } => watch.remove(*number),
        }
    }
}

/// Ends a wait from another thread.
#[derive(Clone, Default)]
pub(crate) struct Cancel {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    cancelled: AtomicBool,
    thread: Mutex<Option<ThreadToInterrupt>>,
}

impl Cancel {
    /// Makes the wait end, and asks again until `is_over` says that it has.
    pub(crate) fn cancel_until(&self, is_over: impl Fn() -> bool) {
        self.shared.cancelled.store(true, Ordering::SeqCst);
        while !is_over() {
            if let Some(thread) = lock(&self.shared.thread).as_ref() {
                thread.interrupt();
            }
            // The thread unparks this one when it is done; else it is interrupted again.
            thread::park_timeout(AGAIN);
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
    deadline: Instant,
}

impl Interrupter {
    /// Returns the watch of this process. A forked child gets a new one: the mutex of the old one
    /// may be locked for ever. A watch is never freed.
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
            // SAFETY: what is there now was leaked by another thread of this process.
            Err(other) => unsafe { &*other },
        }
    }

    fn add(&'static self, thread: ThreadToInterrupt, deadline: Instant) -> io::Result<Entry> {
        let mut list = lock(&self.list);
        if !list.running {
            let builder = thread::Builder::new().name("tenure-watch".into());
            builder.stack_size(128 * 1024).spawn(|| self.run())?;
            list.running = true;
        }
        list.next_number += 1;
        let number = list.next_number;
        let earliest = list.waits.iter().map(|wait| wait.deadline).min();
        list.waits.push(Watched {
            number,
            thread,
            deadline,
        });
        if earliest.is_none_or(|earliest| deadline < earliest) {
            self.changed.notify_one();
        }
        Ok(Entry::Watched {
            watch: self,
            number,
        })
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
                if wait.deadline <= now {
                    wait.thread.interrupt();
                    pause = pause.min(AGAIN);
                } else {
                    pause = pause.min(wait.deadline - now);
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
                    assert_eq!(interrupt.wait(block).unwrap(), Err(Ended::Early));
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
        assert_eq!(ended, Err(Ended::Early));
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
                    Interrupt::by(&cancel).wait(block).unwrap()
                }
            });
            has_started.recv().unwrap();
            for _ in 0..round * 20 {
                std::hint::spin_loop();
            }
            let cancelled = Instant::now();
            cancel.cancel_until(|| thread.is_finished());
            assert_eq!(thread.join().unwrap(), Err(Ended::Early));
            assert!(cancelled.elapsed() < Duration::from_secs(9));
        }
    }
}
