//! A background worker that skips what is locked.

use std::future::Future;

use super::{EntityGuard, EntityLocks, under};
use crate::{Error, Result, Token};

/// The outcome of one go through all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tally {
    /// The number of entities whose work was done.
    pub done: usize,
    /// The number of entities that another holder had locked; they are left to the next go.
    pub skipped: usize,
}

/// Goes through entities one by one: takes the lock, works and commits, gives the lock back. An
/// entity that is locked is skipped.
///
/// The lock, and with it its connection, is given back before the next entity, so one go takes one
/// connection, however many there are. The work commits what it did before it returns, as the lock
/// is given back then.
///
/// # Errors
///
/// The first error ends it: an error of the work, or one of the lock other than that it is held.
pub async fn for_each_unlocked<E, W>(
    locks: &impl EntityLocks,
    ids: impl IntoIterator<Item = i32>,
    mut work: impl FnMut(i32, Token) -> W,
) -> Result<Tally, E>
where
    E: From<Error>,
    W: Future<Output = Result<(), E>>,
{
    locks.scope(Box::pin(each(locks, ids, &mut work))).await
}

async fn each<E, W>(
    locks: &impl EntityLocks,
    ids: impl IntoIterator<Item = i32>,
    work: &mut impl FnMut(i32, Token) -> W,
) -> Result<Tally, E>
where
    E: From<Error>,
    W: Future<Output = Result<(), E>>,
{
    let mut tally = Tally::default();
    for id in ids {
        let Some(guard) = locks.lock_or_skip(id).await? else {
            tally.skipped += 1;
            continue;
        };
        let token = guard.token();
        under(guard, work(id, token)).await?;
        tally.done += 1;
    }
    Ok(tally)
}
