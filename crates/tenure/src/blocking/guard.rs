//! The guard of a lock that is held.

use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use tenure_core::{Error, Lease, Mode, Resource, Result, Token};

use super::thread::Thread;
use crate::guard::Hold;
use crate::{Doubt, GuardState};

/// Holds a lock until released or dropped. It is released before `drop` returns.
#[must_use = "dropping the guard releases the lock"]
pub struct Guard {
    thread: Arc<Thread>,
    hold: Arc<Hold>,
    /// `None` while a call uses it; a call that panics drops it.
    guard: Option<Box<crate::Guard>>,
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

impl Guard {
    pub(super) fn new(thread: Arc<Thread>, guard: crate::Guard) -> Guard {
        Guard {
            thread,
            hold: Arc::clone(&guard.hold),
            guard: Some(Box::new(guard)),
        }
    }

    /// Returns the lease as it is now.
    pub fn lease(&self) -> Lease {
        self.hold.lease()
    }

    /// Returns the fencing token.
    pub fn token(&self) -> Token {
        self.hold.lease().token
    }

    /// Returns the mode it is held in.
    pub fn mode(&self) -> Mode {
        self.hold.lease().mode
    }

    /// Returns the resource.
    pub fn resource(&self) -> &Resource {
        &self.hold.resource
    }

    /// Returns how far it can be trusted, as of the last check.
    pub fn state(&self) -> GuardState {
        self.hold.state()
    }

    /// Returns how long the lease is known to last; see [`crate::Guard::expires_in`].
    pub fn expires_in(&self) -> Option<Duration> {
        self.hold.expires_in()
    }

    /// Blocks until the lease is in doubt, or lost; see [`crate::Guard::in_doubt`].
    pub fn in_doubt(&self) -> Result<Doubt> {
        let hold = Arc::clone(&self.hold);
        self.thread.run(async move { hold.in_doubt().await })
    }

    /// Blocks until the lock is lost, and returns why.
    pub fn lost(&self) -> Error {
        let hold = Arc::clone(&self.hold);
        let lost = self.thread.run(async move { hold.lost().await });
        lost.unwrap_or_else(|error| error)
    }

    /// Fails if the lock is known to be lost; see [`crate::Guard::check`].
    pub fn check(&self) -> Result<()> {
        self.hold.check()
    }

    /// Makes sure that it is still held; see [`crate::Guard::renew`].
    pub fn renew(&self) -> Result<()> {
        let hold = Arc::clone(&self.hold);
        self.thread.run(async move { hold.renew().await })?
    }

    /// Makes an upgradeable lock exclusive; see [`crate::Guard::upgrade`].
    pub fn upgrade(&mut self, wait: Option<Duration>) -> Result<Token> {
        self.with(move |guard| Box::pin(guard.upgrade(wait)))
    }

    /// Makes an upgradeable lock exclusive if that needs no waiting. Returns `None` if it does.
    pub fn try_upgrade(&mut self) -> Result<Option<Token>> {
        self.with(|guard| Box::pin(guard.try_upgrade()))
    }

    /// Makes an upgraded lock upgradeable again; see [`crate::Guard::downgrade`].
    pub fn downgrade(&mut self) -> Result<Mode> {
        self.with(|guard| Box::pin(guard.downgrade()))
    }

    /// Releases the lock.
    ///
    /// # Errors
    ///
    /// The store's error, with the guard to try again.
    pub fn release(mut self) -> Result<(), ReleaseError> {
        let Some(guard) = self.guard.take() else {
            let (guard, source) = (self, gone());
            return Err(ReleaseError { guard, source });
        };
        let released = self.thread.run(guard.release());
        let source = match released {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(failed)) => {
                self.guard = Some(Box::new(failed.guard));
                failed.source
            }
            Err(source) => source,
        };
        let guard = self;
        Err(ReleaseError { guard, source })
    }

    /// Returns a descriptor that keeps the lock held for as long as any process has it open, if the
    /// store has one.
    pub fn descriptor(&self) -> Result<Option<OwnedFd>> {
        self.guard.as_ref().ok_or_else(gone)?.descriptor()
    }

    fn with<T: Send + 'static>(
        &mut self,
        call: impl FnOnce(&mut crate::Guard) -> tenure_core::Reply<'_, T> + Send + 'static,
    ) -> Result<T> {
        let mut guard = self.guard.take().ok_or_else(gone)?;
        let called = self.thread.run(async move {
            let answer = call(&mut guard).await;
            (guard, answer)
        });
        let (guard, answer) = called?;
        self.guard = Some(guard);
        answer
    }
}

fn gone() -> Error {
    Error::Internal("an earlier call on this guard panicked, which released it".into())
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(guard) = self.guard.take() {
            // The same if the release fails: then the guard comes back and is dropped there.
            let release = async move { drop(guard.release().await) };
            drop(self.thread.run(release));
        }
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lease = self.lease();
        write!(f, "Guard({} {}", lease.resource, lease.mode)?;
        write!(f, " as {}, {:?})", lease.lease, self.state())
    }
}
