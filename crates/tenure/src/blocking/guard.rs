//! The guard of a lock that is held.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use tenure_core::{Error, Mode, Result, Token};

use super::thread::Thread;
use crate::Doubt;

/// Holds a lock until released or dropped. It is released before `drop` returns.
#[must_use = "dropping the guard releases the lock"]
pub struct Guard {
    /// `None` only while it is being released.
    guard: Option<Box<crate::Guard>>,
    thread: Arc<Thread>,
}

/// A release that failed, and the guard that still holds.
#[derive(Debug, thiserror::Error)]
#[error("cannot release {}: {source}", guard.resource())]
#[non_exhaustive]
pub struct ReleaseError {
    /// The guard, to try again or to drop.
    pub guard: Guard,
    /// The error of the store.
    pub source: Error,
}

const HELD: &str = "taken only by its release";

impl Guard {
    pub(super) fn new(thread: Arc<Thread>, guard: crate::Guard) -> Guard {
        let guard = Some(Box::new(guard));
        Guard { guard, thread }
    }

    /// Blocks until the lease is in doubt, or lost; see [`crate::Guard::in_doubt`].
    pub fn in_doubt(&self) -> Doubt {
        self.thread.run(self.deref().in_doubt())
    }

    /// Blocks until the lock is lost, and returns why.
    pub fn lost(&self) -> Error {
        self.thread.run(self.deref().lost())
    }

    /// Makes sure that it is still held; see [`crate::Guard::renew`].
    pub fn renew(&self) -> Result<()> {
        self.thread.run(self.deref().renew())
    }

    /// Makes an upgradeable lock exclusive; see [`crate::Guard::upgrade`].
    pub fn upgrade(&mut self, wait: Option<Duration>) -> Result<Token> {
        self.with(async |guard| guard.upgrade(wait).await)
    }

    /// Makes an upgradeable lock exclusive if that needs no waiting. Returns `None` if it does.
    pub fn try_upgrade(&mut self) -> Result<Option<Token>> {
        self.with(crate::Guard::try_upgrade)
    }

    /// Makes an upgraded lock upgradeable again; see [`crate::Guard::downgrade`].
    pub fn downgrade(&mut self) -> Result<Mode> {
        self.with(crate::Guard::downgrade)
    }

    /// Releases the lock.
    ///
    /// # Errors
    ///
    /// The store's error, with the guard to try again.
    pub fn release(mut self) -> Result<(), ReleaseError> {
        let guard = self.guard.take().expect(HELD);
        match self.thread.run(guard.release()) {
            Ok(()) => Ok(()),
            Err(failed) => {
                self.guard = Some(Box::new(failed.guard));
                let (guard, source) = (self, failed.source);
                Err(ReleaseError { guard, source })
            }
        }
    }

    fn with<T>(&mut self, call: impl AsyncFnOnce(&mut crate::Guard) -> T) -> T {
        self.thread.run(call(self.guard.as_mut().expect(HELD)))
    }
}

/// Gives access to the calls that do not wait: they are those of [`crate::Guard`].
impl Deref for Guard {
    type Target = crate::Guard;

    fn deref(&self) -> &crate::Guard {
        self.guard.as_ref().expect(HELD)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(guard) = self.guard.take() {
            // If the release fails, the guard comes back and is dropped there.
            self.thread.run(async { drop(guard.release().await) });
        }
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.deref().fmt(f)
    }
}
