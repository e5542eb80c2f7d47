//! Ending waits early.
//!
//! A [`Cancel`] is given to the waiters and kept by the caller who may end their waits. It is
//! cancelled once and stays so. It ends waits, not work: a call looks at it only where it would
//! wait, so a lock that is free is taken, and a write that has begun is finished.
//!
//! # A wait, step by step, and the race at each
//!
//! 1. The waiter registers a waker with [`Cancel::register`].
//! 2. It asks [`Cancel::is_cancelled`]. *Race:* a cancellation sets the mark before it looks for
//!    wakers, so this question sees a cancellation that missed the waker.
//! 3. It waits. A cancellation wakes it, and it asks again. *Race:* the waker takes the mutex or
//!    the parking token under which the waiter asked, so it never falls between the question and
//!    the wait.
//! 4. It drops the registration. *Race:* a cancellation that took the waker before that may still
//!    wake it: a waiter must bear being woken for nothing.
//!
//! Wakers are woken outside the mutex, so they may take any other.
//!
//! # Forks
//!
//! A forked child has a copy of its own, in which the parent's waiters are still registered. A
//! waker that takes a mutex must look which process it is in: a thread that the child does not have
//! may hold the mutex.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use tenure_core::internal::lock;

use crate::clock;

/// A handle that ends waits. Its clones are the same handle.
#[derive(Clone, Default)]
pub struct Cancel {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    is_cancelled: AtomicBool,
    registered: Mutex<Registered>,
    /// Notified for the threads that [sleep](Cancel::sleep).
    cancelled: Condvar,
}

#[derive(Default)]
struct Registered {
    wakers: Vec<(u64, Waker)>,
    next_number: u64,
}

/// The reason why a wait ended without what was waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The deadline passed.
    Deadline,
    /// The wait was cancelled.
    Cancelled,
}

/// A waker that is woken by a cancellation until this is dropped.
#[must_use = "dropping it ends the registration"]
pub struct Registration {
    cancel: Cancel,
    number: u64,
}

impl Cancel {
    /// Ends all waits that have this handle, later ones included.
    pub fn cancel(&self) {
        self.shared.is_cancelled.store(true, Ordering::SeqCst);
        let wakers = std::mem::take(&mut lock(&self.shared.registered).wakers);
        self.shared.cancelled.notify_all();
        for (_, waker) in wakers {
            waker.wake();
        }
    }

    /// Returns true once it was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.shared.is_cancelled.load(Ordering::SeqCst)
    }

    /// Resolves once it is cancelled.
    pub async fn cancelled(&self) {
        let mut registration = None;
        poll_fn(|context| {
            // The registration before this is dropped: a task may have moved to another waker.
            registration = Some(self.register(context.waker().clone()));
            if self.is_cancelled() {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
        drop(registration);
    }

    /// Registers a waker. A waker that is registered after the cancellation is not woken: ask
    /// [`is_cancelled`](Self::is_cancelled) after this.
    pub fn register(&self, waker: Waker) -> Registration {
        let mut registered = lock(&self.shared.registered);
        registered.next_number += 1;
        let number = registered.next_number;
        registered.wakers.push((number, waker));
        Registration {
            cancel: self.clone(),
            number,
        }
    }

    /// Blocks the thread for this time, or until it is cancelled.
    pub fn sleep(&self, time: Duration) -> Ended {
        let deadline = clock::after(Instant::now(), time);
        let mut registered = lock(&self.shared.registered);
        while !self.is_cancelled() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ended::Deadline;
            }
            let woken = self.shared.cancelled.wait_timeout(registered, left);
            registered = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        Ended::Cancelled
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut registered = lock(&self.cancel.shared.registered);
        let mut wakers = registered.wakers.iter();
        let found = wakers.position(|(number, _)| *number == self.number);
        let waker = found.map(|at| registered.wakers.swap_remove(at));
        // Dropped outside the mutex: a waker may run anything.
        drop(registered);
        drop(waker);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::sync::mpsc;
    use std::task::{Context, Wake};
    use std::thread;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[derive(Default)]
    struct Counter(AtomicUsize);

    impl Wake for Counter {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_sleep_ends_early_whenever_it_is_cancelled() {
        // Many rounds, so that the cancellation falls before, into and after the first step of the
        // sleep.
        for round in 0..200 {
            let (cancel, started) = (Cancel::default(), Instant::now());
            let sleeper = cancel.clone();
            let (sender, has_started) = mpsc::channel();
            let thread = thread::spawn(move || {
                sender.send(()).unwrap();
                sleeper.sleep(LONG)
            });
            has_started.recv().unwrap();
            for _ in 0..round * 20 {
                std::hint::spin_loop();
            }
            cancel.cancel();
            assert_eq!(thread.join().unwrap(), Ended::Cancelled);
            assert!(started.elapsed() < LONG);
        }
    }

    #[test]
    fn a_sleep_that_nobody_cancels_lasts_as_long_as_it_was_to() {
        let (started, time) = (Instant::now(), Duration::from_millis(20));
        assert_eq!(Cancel::default().sleep(time), Ended::Deadline);
        assert!(started.elapsed() >= time);
    }

    #[test]
    fn a_future_that_waits_for_it_is_woken_and_resolves() {
        let (cancel, woken) = (Cancel::default(), Arc::<Counter>::default());
        let mut cancelled = Box::pin(cancel.cancelled());
        let waker = Waker::from(Arc::clone(&woken));
        let mut context = Context::from_waker(&waker);
        assert!(cancelled.as_mut().poll(&mut context).is_pending());
        assert!(cancelled.as_mut().poll(&mut context).is_pending());
        cancel.cancel();
        assert_eq!(woken.0.load(Ordering::SeqCst), 1);
        assert!(cancelled.as_mut().poll(&mut context).is_ready());
    }

    #[test]
    fn a_cancellation_wakes_those_that_are_registered_and_nobody_else() {
        let (cancel, stays, left) = (
            Cancel::default(),
            Arc::<Counter>::default(),
            Arc::<Counter>::default(),
        );
        let registration = cancel.register(Arc::clone(&left).into());
        let _stays = cancel.register(Arc::clone(&stays).into());
        drop(registration);
        assert!(!cancel.is_cancelled());
        cancel.cancel();
        cancel.clone().cancel();
        assert!(cancel.is_cancelled());
        assert_eq!(stays.0.load(Ordering::SeqCst), 1);
        assert_eq!(left.0.load(Ordering::SeqCst), 0);
        assert_eq!(Arc::strong_count(&left), 1, "nothing of it is kept");
    }
}
