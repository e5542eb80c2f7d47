//! A lock in hand.

mod hold;

use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use tenure_core::{Error, Lease, Mode, Resource, Result, Token, UpgradeRequest};

use crate::log::Logged;
use crate::poison::lock;
use crate::retry::retry;
use crate::session::{Claim, GaveUp, Patience, Shared, wait};

pub(crate) use hold::Hold;

/// How far a guard can be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuardState {
    /// The lock is held.
    Held,
    /// The last check failed without an answer: it may be held or not.
    Unknown,
    /// The lock is gone, and does not come back.
    Lost,
}

/// Holds a lock until released or dropped.
///
/// Dropping it releases, after a panic too; [`release`](Guard::release) tells how that went.
#[must_use = "dropping the guard releases the lock"]
pub struct Guard {
    hold: Arc<Hold>,
    session: Arc<Shared>,
    /// Ends after the lease: while the store holds it, the session counts it as held.
    claim: Option<Claim>,
    released: bool,
    /// Ends last, when the lock is given back.
    log: Logged,
}

/// A release that failed, and the guard that still holds.
#[derive(Debug, thiserror::Error)]
#[error("cannot release {}: {source}", guard.resource())]
pub struct ReleaseError {
    /// Try again with it, or drop it.
    pub guard: Guard,
    /// What went wrong.
    pub source: Error,
}

impl Guard {
    pub(crate) fn new(session: Arc<Shared>, claim: Claim, lease: Lease, log: Logged) -> Guard {
        let store = Arc::clone(session.keeper.store());
        let retry = session.keeper.settings().retry.clone();
        let hold = Arc::new(Hold::new(store, lease, retry));
        let guard = Guard {
            hold,
            session,
            claim: Some(claim),
            released: false,
            log,
        };
        // Only with the guard made: if this panics, for want of a runtime, it releases.
        guard.session.watch.add(&guard.hold);
        guard
    }

    /// The lease as it is now.
    pub fn lease(&self) -> Lease {
        self.hold.lease()
    }

    /// Its fencing token.
    pub fn token(&self) -> Token {
        lock(&self.hold.lease).token
    }

    /// How it is held.
    pub fn mode(&self) -> Mode {
        lock(&self.hold.lease).mode
    }

    /// What is held.
    pub fn resource(&self) -> &Resource {
        &self.hold.resource
    }

    /// How far it can be trusted, as of the last check.
    pub fn state(&self) -> GuardState {
        self.hold.state()
    }

    /// Waits until the lock is lost, and says why. Any number may wait.
    pub async fn lost(&self) -> Error {
        self.hold.lost().await
    }

    /// Makes sure that it is still held.
    ///
    /// # Errors
    ///
    /// `Lost` when it is gone for good. Any other error leaves it unknown.
    pub async fn renew(&self) -> Result<()> {
        self.hold.renew().await
    }

    /// Makes an upgradeable lock exclusive, waiting for the readers to leave.
    /// On failure, and when the future is dropped, the lock is as before.
    ///
    /// # Errors
    ///
    /// `Conflict` if the lock is read, or write already; `Order` if the session holds or
    /// awaits anything ordered later; `Timeout` if the readers did not leave in time.
    pub async fn upgrade(&mut self, wait: Option<Duration>) -> Result<Token> {
        let patience = self.session.patience(wait);
        match self.become_write(&patience).await? {
            Ok(token) => Ok(token),
            Err(gave_up) => {
                let (resource, own) = (&self.hold.resource, Some(&self.hold.id));
                let error = self.session.in_the_way(gave_up, resource, Mode::Write, own);
                Err(error.await)
            }
        }
    }

    /// Makes an upgradeable lock exclusive if that needs no waiting; None if it does.
    pub async fn try_upgrade(&mut self) -> Result<Option<Token>> {
        let patience = Patience::new(Duration::ZERO);
        Ok(self.become_write(&patience).await?.ok())
    }

    async fn become_write(&mut self, patience: &Patience) -> Result<Result<Token, GaveUp>> {
        self.hold.check()?;
        let mode = self.mode();
        if mode != Mode::Upgradeable {
            return Err(Error::Conflict {
                place: self.hold.place(),
                expected: "an upgradeable lease".into(),
                actual: mode.to_string(),
            });
        }
        let session = &self.session;
        session.strike_out_ended().await?;
        let turn = session.book.enter_upgrade(&self.hold.resource);
        let turn = turn.map_err(|refusal| session.refused(refusal, Mode::Write))?;
        if let Err(gave_up) = turn.come(patience).await {
            return Ok(Err(gave_up));
        }
        let (store, id) = (&self.hold.store, &self.hold.id);
        let request = UpgradeRequest {
            lease: id.clone(),
            asker: Arc::clone(&session.asker),
            deadline: patience.deadline_at(),
            until: patience.until(),
        };
        let token = wait(
            patience,
            &self.hold.retry,
            || store.try_upgrade(id),
            || store.upgrade(&request),
        );
        let token = token
            .await
            .inspect_err(|error| self.hold.note_loss(error))?;
        if let Ok(token) = token {
            let mut lease = lock(&self.hold.lease);
            lease.mode = Mode::Write;
            lease.token = token;
        }
        Ok(token)
    }

    /// Makes an upgraded lock upgradeable again. Dropped half-way, the guard counts as
    /// upgradeable whatever the store did, as nobody may then rely on being alone.
    ///
    /// # Errors
    ///
    /// `Conflict` if it was never upgraded.
    pub async fn downgrade(&mut self) -> Result<Mode> {
        self.hold.check()?;
        let before = std::mem::replace(&mut lock(&self.hold.lease).mode, Mode::Upgradeable);
        let answer = retry(&self.hold.retry, || {
            self.hold.store.downgrade(&self.hold.id)
        })
        .await;
        let after = answer.as_ref().copied().unwrap_or(before);
        lock(&self.hold.lease).mode = after;
        answer.inspect_err(|error| self.hold.note_loss(error))
    }

    /// Releases the lock. Dropped half-way, it is released all the same.
    ///
    /// # Errors
    ///
    /// Whatever the store says, with the guard to try again.
    pub async fn release(mut self) -> Result<(), ReleaseError> {
        match retry(&self.hold.retry, || self.hold.store.release(&self.hold.id)).await {
            Ok(()) => {
                self.released = true;
                Ok(())
            }
            Err(source) => {
                self.hold.note_loss(&source);
                let guard = self;
                Err(ReleaseError { guard, source })
            }
        }
    }

    /// Leaves the lease in the store, where it goes on without a guard. Only for a lease that
    /// is bound to nothing here: one bound to the session would be held until that ends.
    pub(crate) fn leave(mut self) {
        self.released = true;
        self.log.leave();
        if let Some(claim) = self.claim.take() {
            claim.leave();
        }
    }

    /// A descriptor that keeps the lock held for as long as any process has it open,
    /// where the store has such a thing.
    pub fn descriptor(&self) -> Result<Option<OwnedFd>> {
        self.hold.store.descriptor(&self.hold.id)
    }

    pub(crate) fn hold(&self) -> &Arc<Hold> {
        &self.hold
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.session.watch.remove(&self.hold);
        if !self.released {
            self.hold.store.abandon(&self.hold.id);
        }
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lease = self.lease();
        write!(
            f,
            "Guard({} {} as {}",
            lease.resource, lease.mode, lease.lease
        )?;
        write!(f, ", {:?})", self.state())
    }
}
