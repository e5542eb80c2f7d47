//! A task's wait in the kernel, on a thread of its own that can be interrupted.
//!
//! Dropping the future interrupts the thread and waits until it is out of the kernel and
//! has given back what it was granted in that instant. That takes microseconds, and after
//! it nothing of the wait is left.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread::{self, JoinHandle, Thread};

use tenure_core::poison::lock;
use tenure_core::{Error, Result};

use crate::interrupt::{Cancel, Interrupt};
use crate::platform;

/// A future that resolves to the result of its work.
pub(crate) struct KernelWait<T> {
    cancel: Cancel,
    shared: Arc<Mutex<Shared>>,
    thread: Option<JoinHandle<T>>,
    generation: u32,
}

#[derive(Default)]
struct Shared {
    done: bool,
    waker: Option<Waker>,
    canceller: Option<Thread>,
}

/// The wait needs little more than one record's room.
const STACK_BYTES: usize = 256 * 1024;

impl<T: Send + 'static> KernelWait<T> {
    /// Starts the work on a thread of its own.
    pub(crate) fn start(work: impl FnOnce(&mut Interrupt) -> T + Send + 'static) -> Result<Self> {
        let cancel = Cancel::default();
        let shared = Arc::<Mutex<Shared>>::default();
        let body = {
            let cancel = cancel.clone();
            let finish = Finish(shared.clone());
            move || {
                platform::block_signals();
                let result = work(&mut Interrupt::by(&cancel));
                drop(finish);
                result
            }
        };
        let builder = thread::Builder::new().name("tenure-wait".into());
        let thread = builder.stack_size(STACK_BYTES).spawn(body);
        let thread =
            thread.map_err(|source: io::Error| Error::io("start a thread for", "", source))?;
        Ok(Self {
            cancel,
            shared,
            thread: Some(thread),
            generation: platform::fork_generation(),
        })
    }
}

impl<T> KernelWait<T> {
    /// Ends the wait now and returns its result, or `None` if the result was taken already.
    pub(crate) fn stop(&mut self) -> Option<thread::Result<T>> {
        let thread = self.thread.take()?;
        // A forked child has not got the thread; and a waker may drop the wait on the very
        // thread that woke it, which is about to end.
        let forked = self.generation != platform::fork_generation();
        if forked || thread.thread().id() == thread::current().id() {
            return None;
        }
        lock(&self.shared).canceller = Some(thread::current());
        self.cancel.cancel_until(|| lock(&self.shared).done);
        Some(thread.join())
    }
}

/// Tells that the work is done, also if it panicked.
struct Finish(Arc<Mutex<Shared>>);

impl Drop for Finish {
    fn drop(&mut self) {
        let mut shared = lock(&self.0);
        shared.done = true;
        let (waker, canceller) = (shared.waker.take(), shared.canceller.take());
        drop(shared);
        if let Some(waker) = waker {
            waker.wake();
        }
        if let Some(canceller) = canceller {
            canceller.unpark();
        }
    }
}

impl<T: Send + 'static> Future for KernelWait<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        {
            let mut shared = lock(&self.shared);
            if !shared.done {
                shared.waker = Some(context.waker().clone());
                return Poll::Pending;
            }
        }
        let thread = self
            .thread
            .take()
            .expect("a finished future is not polled again");
        // The work is done; the thread is about to end.
        let joined = thread.join();
        Poll::Ready(joined.map_err(|_| Error::Internal("a waiting thread panicked".into())))
    }
}

impl<T> Drop for KernelWait<T> {
    fn drop(&mut self) {
        // A lock that was granted is dropped here, which releases it.
        drop(self.stop());
    }
}
