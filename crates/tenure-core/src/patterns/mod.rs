//! Patterns for locks on numbered things, as calls that programs need again and again. Each is
//! written once, for every kind of lock that implements [`EntityLocks`].
//!
//! | call | when |
//! |---|---|
//! | [`serialise()`] | requests about one thing run one after the other, about others beside it |
//! | [`for_each_unlocked`] | a background worker goes through many things, and skips those that are locked |
//!
//! # Guarantees
//!
//! - Work under a lock that is lost is dropped at its next await, and the caller is told.
//! - A lock is given back on every way out: a result, an error, a panic, a dropped future.
//! - The work reads after the lock was granted, so it sees everything that the holder before it
//!   left.
//!
//! # Limitations
//!
//! - Work that was done before the loss of its lock stays done: fence its writes with the token.

mod each;
mod serialise;

use std::future::Future;
use std::time::Duration;

pub use each::{Tally, for_each_unlocked};
pub use serialise::{serialise, under};

use crate::{Error, Result, Token};

/// The longest time that [`serialise()`] waits for a lock.
pub const SERIALISE_WAIT: Duration = Duration::from_secs(15);

/// Exclusive locks on things that have numbers, such as agents.
pub trait EntityLocks: Sync {
    /// The guard of one lock.
    type Guard: EntityGuard;

    /// Waits for a lock.
    ///
    /// # Errors
    ///
    /// `Timeout` if it was not free in time, and errors of the store.
    fn lock(&self, id: i32, wait: Duration) -> impl Future<Output = Result<Self::Guard>> + Send;

    /// Takes a lock if it is free, and returns `None` if it is not.
    ///
    /// # Errors
    ///
    /// Errors of the store.
    fn lock_or_skip(&self, id: i32) -> impl Future<Output = Result<Option<Self::Guard>>> + Send;

    /// Runs work that takes these locks. A lock that the work already holds is refused at once,
    /// however deep it asks. Locks of one session need nothing for that.
    fn scope<F: Future>(&self, work: F) -> impl Future<Output = F::Output> {
        work
    }
}

/// Holds one lock until it is released or dropped.
pub trait EntityGuard: Send + Sync {
    /// Returns the fencing token.
    fn token(&self) -> Token;

    /// Resolves when the lock is lost.
    fn lost(&self) -> impl Future<Output = Error> + Send;

    /// Gives the lock back.
    ///
    /// # Errors
    ///
    /// Errors of the store, if it is not known whether the lock was held to the end.
    fn release(self) -> impl Future<Output = Result<()>> + Send;
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};
    use std::time::Duration;

    use super::{EntityGuard, EntityLocks, serialise};
    use crate::{Error, Result, Token};

    /// Locks that are never free, and tell how long they were waited for.
    struct NeverFree;

    enum Never {}

    impl EntityLocks for NeverFree {
        type Guard = Never;

        async fn lock(&self, _id: i32, wait: Duration) -> Result<Never> {
            Err(Error::Internal(format!("waited for {wait:?}")))
        }

        async fn lock_or_skip(&self, _id: i32) -> Result<Option<Never>> {
            Ok(None)
        }
    }

    impl EntityGuard for Never {
        fn token(&self) -> Token {
            match *self {}
        }

        async fn lost(&self) -> Error {
            match *self {}
        }

        async fn release(self) -> Result<()> {
            match self {}
        }
    }

    fn refusal<T>(call: impl Future<Output = Result<T>>) -> String {
        let call = pin!(call);
        match call.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Err(error)) => error.to_string(),
            _ => panic!("the lock is never free"),
        }
    }

    #[test]
    fn a_lock_is_waited_for_fifteen_seconds() {
        let serialised = serialise(&NeverFree, 1, |_| async { Ok(()) });
        assert!(refusal(serialised).ends_with("waited for 15s"));
    }
}
