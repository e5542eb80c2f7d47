//! Work that is done later, if it is still needed then.
//!
//! 1. Wait, without the lock: others go on meanwhile.
//! 2. Take the lock.
//! 3. Read anew, under the lock: another may have done it.
//! 4. Act on what was read, still under the lock.
//!
//! A crash in 1 to 3 has changed nothing. One in 4 leaves what the application's transaction says.

use std::future::Future;

use super::{EntityLocks, refreshed, serialise};
use crate::{Error, Result};

/// Acts after a wait. Returns `None` if nothing is to be done by then.
///
/// The lock is asked for after the wait. `reread` returns what is still to be done.
///
/// # Errors
///
/// Errors of [`serialise()`], and of the two functions.
pub async fn deferred<S, T, E, R, A>(
    wait: impl Future<Output = ()>,
    locks: &impl EntityLocks,
    id: i32,
    reread: impl FnOnce() -> R,
    act: impl FnOnce(S) -> A,
) -> Result<Option<T>, E>
where
    E: From<Error>,
    R: Future<Output = Result<Option<S>, E>>,
    A: Future<Output = Result<T, E>>,
{
    wait.await;
    serialise(locks, id, |_| refreshed(reread, act)).await
}
