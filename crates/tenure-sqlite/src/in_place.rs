//! Work that blocks for long, kept from stalling the other tasks of a runtime.
//!
//! A durable step waits for the disk, and a step of another thread may be in the way of this one. On
//! a worker of a multi-thread runtime the other tasks of the worker go on elsewhere meanwhile. On a
//! current-thread runtime, in its `LocalSet` and outside of a runtime there is no elsewhere, and
//! tokio would panic: the work is done right there.

use tokio::runtime::{Handle, RuntimeFlavor, worker_index};
use tokio::task::block_in_place;

/// Does work that may block for as long as a disk takes.
pub(crate) fn in_place<T>(work: impl FnOnce() -> T) -> T {
    let is_worker = worker_index().is_some()
        && Handle::try_current()
            .is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread);
    if is_worker {
        block_in_place(work)
    } else {
        work()
    }
}
