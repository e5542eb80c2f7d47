//! The runtime of the blocking calls, and the thread that drives it.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, JoinHandle};

use tenure_core::{Error, Result};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// A runtime, for as long as this value lives. Its thread drives timers, sockets and background
/// work; a call itself runs on the thread of its caller.
pub(super) struct Thread {
    runtime: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Thread {
    pub(super) fn start() -> Result<Thread> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| failed("runtime", &error))?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        let thread = thread::Builder::new().name("tenure".into()).spawn(move || {
            drop(runtime.block_on(stopped));
            runtime.shutdown_background();
        });
        Ok(Thread {
            runtime: handle,
            stop: Some(stop),
            thread: Some(thread.map_err(|error| failed("thread", &error))?),
        })
    }

    /// Carries out a call and waits for it. `Handle::block_on` would panic on a thread that belongs
    /// to another runtime.
    pub(super) fn run<T>(&self, call: impl Future<Output = T>) -> T {
        let _entered = self.runtime.enter();
        let mut call = pin!(call);
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let mut context = Context::from_waker(&waker);
        loop {
            if let Poll::Ready(answer) = call.as_mut().poll(&mut context) {
                return answer;
            }
            thread::park();
        }
    }
}

struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn failed(what: &str, error: &std::io::Error) -> Error {
    Error::Internal(format!("cannot start a {what}: {error}"))
}

impl Drop for Thread {
    fn drop(&mut self) {
        // No call is under way: each has a reference to this value.
        self.stop = None;
        // The last reference may be dropped on the thread itself, by what a call left
        // behind; it cannot wait for its own end.
        let other = |thread: &JoinHandle<()>| thread.thread().id() != thread::current().id();
        if let Some(thread) = self.thread.take().filter(other) {
            drop(thread.join());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_thread_and_what_runs_on_it_end_when_the_value_is_dropped() {
        let thread = Thread::start().unwrap();
        let alive = Arc::new(());
        let inside = Arc::clone(&alive);
        thread.run(async move {
            tokio::spawn(async move {
                std::future::pending::<()>().await;
                drop(inside);
            });
        });
        assert_eq!(Arc::strong_count(&alive), 2);
        drop(thread);
        assert_eq!(Arc::strong_count(&alive), 1);
    }

    #[test]
    fn a_call_that_panics_panics_in_its_caller_and_the_thread_goes_on() {
        let thread = Thread::start().unwrap();
        let call = || thread.run(async { panic!("in a call") });
        assert!(catch_unwind(AssertUnwindSafe(call)).is_err());
        let slept = thread.run(async {
            tokio::time::sleep(Duration::from_millis(1)).await;
            7
        });
        assert_eq!(slept, 7);
    }

    #[test]
    fn calls_of_other_threads_go_on_while_one_waits() {
        let thread = Thread::start().unwrap();
        let (open, gate) = oneshot::channel::<()>();
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| thread.run(gate));
            thread.run(async {});
            open.send(()).unwrap();
            assert!(waits.join().unwrap().is_ok());
        });
    }
}
