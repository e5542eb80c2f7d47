//! Tests of the effect of a step on the runtime it is made in.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};
use tokio::task::LocalSet;

use super::Inner;
use crate::connection::Durability;
use crate::connection::tests::at_commit;

/// Only a mistake makes a test wait for this long.
const WAIT_MAX: Duration = Duration::from_secs(20);

fn store() -> (TempDir, Arc<Inner>) {
    let directory = tempfile::tempdir().unwrap();
    let inner = Inner::open(
        &directory.path().join("locks.db"),
        crate::OpenOptions::trusting(false),
    )
    .unwrap();
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
    // A slow disk: the commit goes on only when the other task has run.
    let mut begun = Some(begun);
    at_commit(&mut inner.db().unwrap(), move || {
        begun.take().unwrap().send(()).unwrap();
        waits.recv_timeout(WAIT_MAX).expect("the other task runs");
    });
    let step = runtime.spawn(async move {
        // It finds out half-way that it is durable, and is made again.
        let step = inner.write(Durability::Crash, |step| {
            step.sql.require(Durability::PowerLoss);
            Ok(())
        });
        step.await
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
        let step = inner.write(Durability::PowerLoss, |_| Ok(()));
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
