//! The guard of a lock that is held.

use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use tenure_core::{Error, Lease, Mode, Resource, Result, Token};

use super::thread::Thread;
use crate::{Doubt, GuardState};

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

    /// Returns the lease as it is now.
    pub fn lease(&self) -> Lease {
        self.held().lease()
    }

    /// Returns the fencing token.
    pub fn token(&self) -> Token {
        self.held().token()
    }

    /// Returns the mode it is held in.
    pub fn mode(&self) -> Mode {
        self.held().mode()
    }

    /// Returns the resource.
    pub fn resource(&self) -> &Resource {
        self.held().resource()
    }

    /// Returns how far it can be trusted, as of the last check.
    pub fn state(&self) -> GuardState {
        self.held().state()
    }

    /// Returns how long the lease is known to last; see [`crate::Guard::expires_in`].
    pub fn expires_in(&self) -> Option<Duration> {
        self.held().expires_in()
    }

    /// Blocks until the lease is in doubt, or lost; see [`crate::Guard::in_doubt`].
    pub fn in_doubt(&self) -> Doubt {
        self.thread.run(self.held().in_doubt())
    }

    /// Blocks until the lock is lost, and returns why.
    pub fn lost(&self) -> Error {
        self.thread.run(self.held().lost())
    }

    /// Fails if the lock is known to be lost; see [`crate::Guard::check`].
    pub fn check(&self) -> Result<()> {
        self.held().check()
    }

    /// Makes sure that it is still held; see [`crate::Guard::renew`].
    pub fn renew(&self) -> Result<()> {
        self.thread.run(self.held().renew())
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

    /// Returns a descriptor that keeps the lock held for as long as any process has it open, if the
    /// store has one.
    pub fn descriptor(&self) -> Result<Option<OwnedFd>> {
        self.held().descriptor()
    }

    fn held(&self) -> &crate::Guard {
        self.guard.as_ref().expect(HELD)
    }

    fn with<T>(&mut self, call: impl AsyncFnOnce(&mut crate::Guard) -> T) -> T {
        self.thread.run(call(self.guard.as_mut().expect(HELD)))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(guard) = self.guard.take() {
            // The same if the release fails: then the guard comes back and is dropped there.
            self.thread.run(async { drop(guard.release().await) });
        }
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.held().fmt(f)
    }
}
