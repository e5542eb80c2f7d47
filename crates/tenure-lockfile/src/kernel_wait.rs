//! A task's wait in the kernel, on a thread of its own.
//!
//! Dropping the future cancels the wait. It does not wait for the disk.
//!
//! # A drop, step by step, and the race at each
//!
//! 1. The wait is cancelled. *Race:* the lock is granted in this instant, and the thread works on.
//! 2. The result counts as abandoned. *Race:* it is there already, untaken: the drop drops it.
//! 3. The drop waits until the thread is out of the kernel and has given back what it was granted
//!    in that instant. That takes microseconds, and after it nothing of the wait is left. It does
//!    not wait for a thread that [syncs](unawaited), and for no thread longer than [`QUICK_MAX`].
//! 4. The thread drops what it was granted, which releases it, and says that it is done.
//!
//! So a result must give back what it holds when it is dropped. The work must own everything that
//! has to stay until it is done, such as a place in the queue.
//!
//! In a forked child, which does not have the thread, a drop does nothing.

use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use tenure_core::internal::lock;
use tenure_core::{Error, Result};
use tenure_os::cancel::Cancel;
use tenure_os::platform;

use crate::interrupt::Interrupt;

/// The longest time that a drop waits for work that needs no sync. A write to a disk that hangs is
/// left to its thread.
const QUICK_MAX: Duration = Duration::from_secs(2);

/// The stack of the thread: the wait needs little more than one record's room.
const STACK_BYTES: usize = 256 * 1024;

type Tell = Box<dyn Fn(bool)>;

thread_local! {
    /// Tells the wait of this thread whether the thread syncs.
    static SYNCS: RefCell<Option<Tell>> = const { RefCell::new(None) };
}

/// Does work that takes as long as the disk. The drop of a wait does not wait for it.
pub(crate) fn unawaited<T>(work: impl FnOnce() -> T) -> T {
    let tell = |syncs| {
        SYNCS.with_borrow(|told| {
            if let Some(told) = told {
                told(syncs);
            }
        });
    };
    tell(true);
    let done = work();
    tell(false);
    done
}

/// A future that resolves to the result of its work.
pub(crate) struct KernelWait<T> {
    cancel: Cancel,
    shared: Arc<Shared<T>>,
    generation: u32,
}

struct Shared<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

struct State<T> {
    is_done: bool,
    /// True while the thread is in work that a drop does not wait for.
    syncs: bool,
    is_abandoned: bool,
    /// The result, until it is taken. `None` if the work panicked.
    result: Option<T>,
    waker: Option<Waker>,
}

impl<T> Default for Shared<T> {
    fn default() -> Self {
        let state = State {
            is_done: false,
            syncs: false,
            is_abandoned: false,
            result: None,
            waker: None,
        };
        Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
        }
    }
}

impl<T: Send + 'static> KernelWait<T> {
    /// Starts the work on a thread of its own.
    pub(crate) fn start(work: impl FnOnce(&mut Interrupt) -> T + Send + 'static) -> Result<Self> {
        let (cancel, shared) = (Cancel::default(), Arc::<Shared<T>>::default());
        let (waits, ours) = (cancel.clone(), Arc::clone(&shared));
        let body = move || {
            platform::block_signals();
            let told = Arc::clone(&ours);
            let mut finish = Finish {
                shared: ours,
                result: None,
            };
            let tell = move |syncs| {
                lock(&told.state).syncs = syncs;
                told.changed.notify_all();
            };
            SYNCS.set(Some(Box::new(tell)));
            finish.result = Some(work(&mut Interrupt::new(None, &waits)));
        };
        let builder = thread::Builder::new().name("tenure-wait".into());
        let thread = builder.stack_size(STACK_BYTES).spawn(body);
        thread.map_err(|source: io::Error| Error::io("start a thread for", "", source))?;
        Ok(Self {
            cancel,
            shared,
            generation: platform::fork_generation(),
        })
    }
}

/// Ends the work, also if it panicked.
struct Finish<T> {
    shared: Arc<Shared<T>>,
    result: Option<T>,
}

impl<T> Drop for Finish<T> {
    fn drop(&mut self) {
        let mut state = lock(&self.shared.state);
        if state.is_abandoned {
            drop(state);
            // The result is dropped outside the mutex, and before a waiter learns that the thread
            // is done.
            self.result = None;
            state = lock(&self.shared.state);
        }
        state.result = self.result.take();
        state.is_done = true;
        let waker = state.waker.take();
        drop(state);
        self.shared.changed.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T: Send + 'static> Future for KernelWait<T> {
    type Output = Result<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = lock(&self.shared.state);
        if !state.is_done {
            state.waker = Some(context.waker().clone());
            return Poll::Pending;
        }
        let panicked = || Error::Internal("a waiting thread panicked".into());
        Poll::Ready(state.result.take().ok_or_else(panicked))
    }
}

impl<T> Drop for KernelWait<T> {
    fn drop(&mut self) {
        if self.generation != platform::fork_generation() {
            return;
        }
        self.cancel.cancel();
        let mut state = lock(&self.shared.state);
        state.is_abandoned = true;
        let is_quick = |state: &mut State<T>| !state.is_done && !state.syncs;
        let waited = self
            .shared
            .changed
            .wait_timeout_while(state, QUICK_MAX, is_quick);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let (result, waker) = (state.result.take(), state.waker.take());
        // The result and the waker are dropped outside the mutex: both may run anything.
        drop(state);
        drop((result, waker));
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::mpsc;
    use std::time::Instant;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_drop_does_not_wait_for_the_disk_and_the_thread_drops_the_result() {
        let (go_on, may_go_on) = mpsc::channel::<()>();
        let (entered, has_entered) = mpsc::channel();
        let (result, dropped) = mpsc::channel::<()>();
        let work = move |_: &mut Interrupt| {
            unawaited(|| {
                entered.send(()).unwrap();
                may_go_on.recv_timeout(LONG).unwrap();
            });
            result
        };
        let mut wait = KernelWait::start(work).unwrap();
        let mut context = Context::from_waker(Waker::noop());
        assert!(pin!(&mut wait).poll(&mut context).is_pending());
        has_entered.recv_timeout(LONG).unwrap();
        let dropped_at = Instant::now();
        drop(wait);
        assert!(dropped_at.elapsed() < QUICK_MAX, "it waited");
        // The drop did not wait, since the thread goes on only now.
        go_on.send(()).unwrap();
        assert_eq!(
            dropped.recv_timeout(LONG),
            Err(mpsc::RecvTimeoutError::Disconnected)
        );
    }

    #[test]
    fn a_drop_while_the_thread_waits_leaves_nothing_of_it() {
        let (result, dropped) = mpsc::channel::<()>();
        let (entered, has_entered) = mpsc::channel();
        let work = move |interrupt: &mut Interrupt| {
            let ten_seconds = rustix::fs::Timespec {
                tv_sec: 10,
                tv_nsec: 0,
            };
            let ended = interrupt.wait(|| {
                entered.send(()).unwrap();
                let _ = rustix::thread::nanosleep(&ten_seconds);
                Err(io::ErrorKind::Interrupted.into())
            });
            (result, ended)
        };
        let wait = KernelWait::start(work).unwrap();
        has_entered.recv_timeout(LONG).unwrap();
        drop(wait);
        assert_eq!(dropped.try_recv(), Err(mpsc::TryRecvError::Disconnected));
    }
}
