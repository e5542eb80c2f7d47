//! Work that blocks for long, kept from stalling the other tasks of a runtime.
//!
//! A step waits for the disk, or for a step of another thread. On a worker of a multi-thread
//! runtime the other tasks of the worker go on elsewhere meanwhile, and leases are renewed. A
//! current-thread runtime and its `LocalSet` have no other worker, and tokio would panic there: the
//! work is done in place, as it is outside of a runtime.

use tokio::runtime::{Handle, RuntimeFlavor, worker_index};
use tokio::task::block_in_place;

/// Does work that may block for as long as a disk takes.
pub fn blocking<T>(work: impl FnOnce() -> T) -> T {
    let flavor = Handle::try_current().map(|runtime| runtime.runtime_flavor());
    let is_worker = worker_index().is_some();
    match flavor {
        Ok(RuntimeFlavor::MultiThread) if is_worker => block_in_place(work),
        _ => work(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_done_wherever_it_is_asked_for() {
        assert_eq!(blocking(|| 1), 1);
        let many = tokio::runtime::Builder::new_multi_thread().build().unwrap();
        let local = tokio::task::LocalSet::new();
        let inside = many.block_on(local.run_until(async {
            let task = tokio::task::spawn_local(async { blocking(|| 2) });
            task.await.unwrap()
        }));
        assert_eq!(inside, 2);
        let worker = many.spawn(async { blocking(|| 3) });
        assert_eq!(many.block_on(worker).unwrap(), 3);
    }
}
