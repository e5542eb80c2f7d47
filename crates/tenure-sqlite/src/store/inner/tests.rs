//! Tests of the effect of a step on the runtime it is made in.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};
use tokio::task::LocalSet;

use super::Inner;

/// Only a mistake makes a test wait for this long.
const WAIT_MAX: Duration = Duration::from_secs(20);

fn store() -> (TempDir, Arc<Inner>) {
    let directory = tempfile::tempdir().unwrap();
    let inner = Inner::open(&directory.path().join("locks.db"), false).unwrap();
    (directory, inner)
}

/// Returns a runtime in which a task that blocks its thread keeps all others from running.
fn one_worker() -> Runtime {
    let mut runtime = Builder::new_multi_thread();
    runtime.worker_threads(1).enable_all().build().unwrap()
}

#[test]
fn a_durable_step_lets_other_tasks_of_a_multi_thread_runtime_run() {
    let (_directory, inner) = store();
    let (other_ran, waits) = channel();
    let (begun, begins) = tokio::sync::oneshot::channel();
    let runtime = one_worker();
    runtime.spawn(async move {
        begins.await.unwrap();
        other_ran.send(()).unwrap();
    });
    let step = runtime.spawn(async move {
        let (mut begun, mut made) = (Some(begun), 0);
        inner
            .write(move |step| {
                step.after.durable = true;
                made += 1;
                // The first try is not durable, and is rolled back. The second one stands for a slow
                // disk: it goes on only when the other task has run.
                if made == 2 {
                    begun.take().unwrap().send(()).unwrap();
                    waits.recv_timeout(WAIT_MAX).expect("the other task runs");
                }
                Ok(())
            })
            .await
    });
    runtime.block_on(step).unwrap().unwrap();
}

#[test]
fn a_step_that_waits_for_another_thread_lets_other_tasks_run() {
    let (_directory, inner) = store();
    let (other_ran, waits) = channel();
    let (held, holds) = channel();
    let holder = Arc::clone(&inner);
    let holder = std::thread::spawn(move || {
        let _db = holder.db().unwrap();
        held.send(()).unwrap();
        waits.recv_timeout(WAIT_MAX).expect("the other task runs");
    });
    holds.recv().unwrap();
    let runtime = one_worker();
    // The first task makes the step, and the second one frees it.
    let step = runtime.spawn(async move {
        tokio::spawn(async move { other_ran.send(()) });
        inner.read(|_| Ok(())).await
    });
    runtime.block_on(step).unwrap().unwrap();
    holder.join().unwrap();
}

#[test]
fn where_nothing_can_go_on_elsewhere_a_durable_step_is_made_in_place() {
    let (_directory, inner) = store();
    let durable = async || {
        let step = inner.write(|step| {
            step.after.durable = true;
            Ok(())
        });
        step.await.unwrap();
    };
    let mut single = Builder::new_current_thread();
    let single = single.enable_all().build().unwrap();
    single.block_on(durable());
    one_worker().block_on(durable());
    // In a local set tokio refuses to move its tasks away, whatever the runtime.
    LocalSet::new().block_on(&one_worker(), durable());
    LocalSet::new().block_on(&single, durable());
}
