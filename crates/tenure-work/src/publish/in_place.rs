//! Work with files, which may take long, kept from stalling the other tasks of a runtime.

use tokio::runtime::{Handle, RuntimeFlavor, worker_index};
use tokio::task::block_in_place;

/// Does work that blocks. On a worker of a multi-thread runtime the leases of the caller are renewed meanwhile; elsewhere, where tokio
/// would panic, everything waits.
pub(super) fn in_place<T>(work: impl FnOnce() -> T) -> T {
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
        assert_eq!(in_place(|| 1), 1);
        let many = tokio::runtime::Builder::new_multi_thread().build().unwrap();
        let local = tokio::task::LocalSet::new();
        let inside = many.block_on(local.run_until(async {
            let task = tokio::task::spawn_local(async { in_place(|| 2) });
            task.await.unwrap()
        }));
        assert_eq!(inside, 2);
        let worker = many.spawn(async { in_place(|| 3) });
        assert_eq!(many.block_on(worker).unwrap(), 3);
    }
}
