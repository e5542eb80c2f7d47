//! Work on one entity, one after the other.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use super::{EntityGuard, EntityLocks, SERIALISE_WAIT};
use crate::{Error, Result, Token};

/// Runs work while the exclusive lock of an entity is held. Another call for the same entity waits
/// meanwhile, for 15 s at most, and then finds what the work left. Calls for other entities do not
/// wait.
///
/// The work gets the fencing token, and reads what it needs itself, under the lock.
///
/// # Errors
///
/// Errors of [`EntityLocks::lock`] and of [`under`].
pub async fn serialise<T, E, W>(
    locks: &impl EntityLocks,
    id: i32,
    work: impl FnOnce(Token) -> W,
) -> Result<T, E>
where
    E: From<Error>,
    W: Future<Output = Result<T, E>>,
{
    let serialised = async {
        let guard = locks.lock(id, SERIALISE_WAIT).await?;
        let token = guard.token();
        under(guard, work(token)).await
    };
    // In a box: calls nest, and each layer of futures would hold the next one twice.
    locks.scope(Box::pin(serialised)).await
}

/// Runs work under a lock, and gives the lock back however the work ends.
///
/// # Errors
///
/// Errors of the work; `Lost` if the lock was lost meanwhile, in which case the work is dropped;
/// `HalfWay` if the work was done, but it is not known if the lock was held to the end.
pub async fn under<T, E>(
    guard: impl EntityGuard,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, E>
where
    E: From<Error>,
{
    let worked = {
        let (mut lost, mut work) = (pin!(guard.lost()), pin!(work));
        let worked = poll_fn(|context| {
            // A loss counts before a result of the same moment.
            if let Poll::Ready(lost) = lost.as_mut().poll(context) {
                return Poll::Ready(Err(lost));
            }
            work.as_mut().poll(context).map(Ok)
        });
        worked.await?
    };
    let released = guard.release().await;
    match (worked, released) {
        (Ok(told), Ok(())) => Ok(told),
        (Ok(_), Err(error)) => Err(E::from(Error::HalfWay {
            done: "the work under the lock was done".into(),
            source: Box::new(error),
        })),
        (Err(error), _) => Err(error),
    }
}
