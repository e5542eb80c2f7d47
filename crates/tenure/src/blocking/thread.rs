//! The thread that carries out the calls.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Mutex, mpsc as plain};
use std::thread::{self, JoinHandle};

use tenure_core::poison::lock;
use tenure_core::{Error, Result};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;

type Call = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A thread with a runtime, for as long as this value lives.
pub(super) struct Thread {
    calls: Option<mpsc::UnboundedSender<Call>>,
    handle: Mutex<Option<JoinHandle<()>>>,
}

impl Thread {
    pub(super) fn start() -> Result<Thread> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| failed("runtime", &error))?;
        let (calls, inbox) = mpsc::unbounded_channel();
        let thread = thread::Builder::new().name("tenure".into());
        let handle = thread.spawn(move || serve(runtime, inbox));
        let handle = handle.map_err(|error| failed("thread", &error))?;
        Ok(Thread {
            calls: Some(calls),
            handle: Mutex::new(Some(handle)),
        })
    }

    /// Carries out a call on the thread and waits for it.
    pub(super) fn run<T: Send + 'static>(
        &self,
        call: impl Future<Output = T> + Send + 'static,
    ) -> Result<T> {
        let (answer, answered) = plain::sync_channel(1);
        let call: Call = Box::pin(async move {
            // The caller is in recv below until this is sent.
            drop(answer.send(call.await));
        });
        if let Some(calls) = &self.calls {
            // A call that cannot be sent is dropped here, and recv fails at once.
            drop(calls.send(call));
        }
        let gone = |_| Error::Internal("a call on the tenure thread panicked".into());
        answered.recv().map_err(gone)
    }
}

fn failed(what: &str, error: &std::io::Error) -> Error {
    Error::Internal(format!("cannot start a {what}: {error}"))
}

fn serve(runtime: Runtime, mut inbox: mpsc::UnboundedReceiver<Call>) {
    runtime.block_on(async {
        while let Some(call) = inbox.recv().await {
            // A task of its own: calls of other threads go on while this one waits,
            // and a panic ends the call, not the thread.
            tokio::spawn(call);
        }
    });
    runtime.shutdown_background();
}

impl Drop for Thread {
    fn drop(&mut self) {
        // Nobody is in a call: each has a reference to this value. The thread sees the
        // closed channel and ends.
        self.calls = None;
        let handle = lock(&self.handle).take();
        // The last reference may be dropped on the thread itself, by what a call left
        // behind; it cannot wait for its own end.
        let other = |handle: &JoinHandle<()>| handle.thread().id() != thread::current().id();
        if let Some(handle) = handle.filter(other) {
            drop(handle.join());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn the_thread_and_what_runs_on_it_end_when_the_value_is_dropped() {
        let thread = Thread::start().unwrap();
        let alive = Arc::new(());
        let inside = Arc::clone(&alive);
        let spawned = thread.run(async move {
            tokio::spawn(async move {
                std::future::pending::<()>().await;
                drop(inside);
            });
        });
        spawned.unwrap();
        assert_eq!(Arc::strong_count(&alive), 2);
        drop(thread);
        assert_eq!(Arc::strong_count(&alive), 1);
    }

    #[test]
    fn a_call_that_panics_is_an_error_and_the_thread_goes_on() {
        let thread = Thread::start().unwrap();
        let panicked = thread.run(async { panic!("in a call") });
        assert!(matches!(panicked, Err::<(), _>(Error::Internal(_))));
        assert_eq!(thread.run(async { 7 }).unwrap(), 7);
    }

    #[test]
    fn calls_of_other_threads_go_on_while_one_waits() {
        let thread = Thread::start().unwrap();
        let (open, gate) = tokio::sync::oneshot::channel::<()>();
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| thread.run(gate));
            thread.run(async {}).unwrap();
            open.send(()).unwrap();
            assert!(waits.join().unwrap().unwrap().is_ok());
        });
    }
}
