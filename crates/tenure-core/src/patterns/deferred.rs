//! Work that is done later, if it is still needed then.
//!
//! 1. Wait, without the lock: others go on meanwhile.
//! 2. Take the lock.
//! 3. Read anew, under the lock: another may have done it.
//! 4. Act on what was read, still under the lock.
//!
//! A crash in 1 to 3 has changed nothing. One in 4 leaves what the application's transaction says.

use std::future::Future;

use super::{EntityGuard, refreshed, under};
use crate::{Error, Result};

/// Acts after a wait. Returns `None` if nothing is to be done by then.
///
/// `lock` is a lock that is not yet asked for, such as `locks.lock(id, SERIALISE_WAIT)`: a future does nothing
/// until it is awaited, which is after the wait. `reread` returns what is still to be done.
///
/// # Errors
///
/// Errors of the lock, of [`under`], and of the two functions.
pub async fn deferred<G, S, T, E, R, A>(
    wait: impl Future<Output = ()>,
    lock: impl Future<Output = Result<G>>,
    reread: impl FnOnce() -> R,
    act: impl FnOnce(S) -> A,
) -> Result<Option<T>, E>
where
    G: EntityGuard,
    E: From<Error>,
    R: Future<Output = Result<Option<S>, E>>,
    A: Future<Output = Result<T, E>>,
{
    wait.await;
    let guard = lock.await?;
    under(guard, refreshed(reread, act)).await
}
