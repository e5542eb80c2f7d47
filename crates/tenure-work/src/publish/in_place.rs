//! Work with files, which may take long, kept from stalling the other tasks of a runtime.

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::block_in_place;

/// Does work that blocks. On a multi-thread runtime the leases of the caller are renewed meanwhile; on a current-thread runtime
/// everything waits.
pub(super) fn in_place<T>(work: impl FnOnce() -> T) -> T {
    let flavor = Handle::try_current().map(|runtime| runtime.runtime_flavor());
    match flavor {
        Ok(RuntimeFlavor::MultiThread) => block_in_place(work),
        _ => work(),
    }
}
