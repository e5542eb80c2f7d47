//! A background worker that skips what is locked.

use std::future::Future;

use tenure_core::{Error, Result, Token};

use super::under;
use crate::advisory::{AdvisoryLocks, Namespace};

/// The outcome of one go through all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tally {
    /// The work was done.
    pub done: usize,
    /// Somebody else works on it, so it is left to the next go.
    pub skipped: usize,
}

/// Goes through entities one by one: takes the lock, works and commits, gives the lock back; what is locked is skipped.
///
/// The connection is back in the pool before the next entity, so one go takes one connection, however many there are. The work
/// commits what it did before it returns, as the lock is given back then.
///
/// # Errors
///
/// The first error ends it: the work's own, or one of the lock other than that it is held.
pub async fn for_each_unlocked<E, W>(
    locks: &AdvisoryLocks,
    namespace: Namespace,
    ids: impl IntoIterator<Item = i32>,
    mut work: impl FnMut(i32, Token) -> W,
) -> Result<Tally, E>
where
    E: From<Error>,
    W: Future<Output = Result<(), E>>,
{
    let mut tally = Tally::default();
    for id in ids {
        let Some(guard) = locks.lock_or_skip(namespace, id).await? else {
            tally.skipped += 1;
            continue;
        };
        let token = guard.token();
        under(guard, work(id, token)).await?;
        tally.done += 1;
    }
    Ok(tally)
}
