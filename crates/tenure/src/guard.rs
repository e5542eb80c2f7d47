//! The guard of a lock that is held.

mod doubt;
mod hold;
mod trust;

use std::fmt;
use std::future::{Future, poll_fn};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tenure_core::decide::Millis;
use tenure_core::internal::lock;
use tenure_core::{Error, Lease, LockContext, Mode, Resource, Result, Token};

use crate::log::Logged;
use crate::retry::{Tries, retry};
use crate::session::{Deadline, GaveUp, Reservation, Shared, wait};

pub use doubt::Doubt;
pub(crate) use hold::{Checks, Hold};
pub(crate) use trust::Phase;

/// The trust in a guard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuardState {
    /// The lock is held.
    Held,
    /// The last check failed without an answer, or the lease has used up two thirds of its time
    /// without a renewal: it may be held or not.
    Unknown,
    /// The lock is gone, and does not come back.
    Lost,
}

/// Holds a lock until released or dropped.
///
/// Dropping it releases the lock, after a panic too. [`release`](Guard::release) also returns
/// whether that succeeded.
///
/// A lease that expires, as on PostgreSQL, is renewed in the background. If that fails, the guard
/// is unknown at once, [in doubt](Guard::in_doubt) when two thirds of the lease's time are used up,
/// and [lost](Guard::lost) at five sixths: before another holder can have the lock.
#[must_use = "dropping the guard releases the lock"]
pub struct Guard {
    pub(crate) hold: Arc<Hold>,
    session: Arc<Shared>,
    /// Dropped after the lease has ended: until then the session counts the lock as held.
    reservation: Option<Reservation>,
    released: bool,
    /// The mode it was taken in, before any upgrade.
    taken: Mode,
    /// True if a downgrade was asked for and its outcome is open: the lock counts as upgradeable,
    /// and may be write in the store.
    downgrading: bool,
    /// Dropped last, when the lock is released.
    log: Logged,
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
    /// Makes the guard of a lease that was requested at `asked`, in milliseconds since boot.
    pub(crate) fn new(
        session: Arc<Shared>,
        reservation: Reservation,
        lease: Lease,
        log: Logged,
        asked: Millis,
    ) -> Guard {
        let store = Arc::clone(session.keeper.store());
        let retry = session.keeper.retry().cloned();
        let taken = lease.mode;
        let hold = Arc::new(Hold::new(store, lease, retry, asked));
        Guard {
            hold,
            session,
            reservation: Some(reservation),
            released: false,
            taken,
            downgrading: false,
            log,
        }
    }

    /// Begins the background checks. A lease whose grant was waited for long is renewed first, so
    /// that the wait does not count against it.
    pub(crate) async fn watched(self) -> Result<Guard> {
        self.hold.prove().await?;
        // The guard exists already: if this panics because there is no runtime, its drop releases.
        self.session.renewal.add(&self.hold);
        Ok(self)
    }

    /// Returns the lease as it is now.
    pub fn lease(&self) -> Lease {
        self.hold.lease()
    }

    /// Returns the fencing token.
    pub fn token(&self) -> Token {
        lock(&self.hold.lease).token
    }

    /// Returns the mode it is held in.
    pub fn mode(&self) -> Mode {
        lock(&self.hold.lease).mode
    }

    /// Returns the resource.
    pub fn resource(&self) -> &Resource {
        &self.hold.resource
    }

    /// Returns the trust in it, as of the last check.
    pub fn state(&self) -> GuardState {
        self.hold.state()
    }

    /// Returns the time that the lease is known to last without a renewal, or `None` if it lasts
    /// for as long as its session.
    pub fn expires_in(&self) -> Option<Duration> {
        self.hold.expires_in()
    }

    /// Returns the description of the lock in errors.
    pub fn context(&self) -> Box<LockContext> {
        self.hold.context()
    }

    /// Returns the time at which the guard is lost without a renewal, in milliseconds since boot,
    /// or `None` if it lasts for as long as its session.
    pub fn lost_at_ms(&self) -> Option<u64> {
        self.hold.over_at()
    }

    /// Waits until the lease has used up two thirds of its time without a renewal, or is lost, and
    /// returns what is wrong. A caller that needs time to stop begins now. Any number of tasks may
    /// wait.
    pub async fn in_doubt(&self) -> Doubt {
        self.session.renewal.watching(self.hold.in_doubt()).await
    }

    /// Waits until the lock is lost, and returns why. Any number of tasks may wait.
    pub async fn lost(&self) -> Error {
        self.session.renewal.watching(self.hold.lost()).await
    }

    /// Fails if the lock is known to be lost. It does not ask the store: [`renew`](Guard::renew)
    /// does.
    ///
    /// # Errors
    ///
    /// `Lost`, with the reason.
    pub fn check(&self) -> Result<()> {
        self.hold.check()
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
        let deadline = self.session.deadline(wait)?;
        match self.upgrade_within(&deadline).await? {
            Ok(token) => Ok(token),
            Err(gave_up) => {
                let (resource, own) = (&self.hold.resource, Some(&self.hold.id));
                let error = self.session.in_the_way(gave_up, resource, Mode::Write, own);
                Err(error.await)
            }
        }
    }

    /// Makes an upgradeable lock exclusive if that needs no waiting. Returns `None` if it does.
    pub async fn try_upgrade(&mut self) -> Result<Option<Token>> {
        let deadline = Deadline::new(Duration::ZERO);
        Ok(self.upgrade_within(&deadline).await?.ok())
    }

    async fn upgrade_within(&mut self, deadline: &Deadline) -> Result<Result<Token, GaveUp>> {
        self.hold.check()?;
        let mode = self.mode();
        if mode != Mode::Upgradeable {
            return Err(Error::unexpected(
                self.hold.context(),
                "an upgradeable lease",
                mode.to_string(),
            ));
        }
        if self.downgrading {
            // The lock may be write in the store, which would refuse an upgrade.
            self.downgrade().await?;
        }
        let session = &self.session;
        session.forget_ended().await?;
        let place = session.locks.enter_upgrade(&self.hold.resource);
        let place = place.map_err(|refusal| session.refused(refusal, Mode::Write))?;
        if let Err(gave_up) = place.wait_until_first(deadline).await {
            return Ok(Err(gave_up));
        }
        let request = session.upgrade_request(&self.hold.id, false, deadline);
        let ask = || self.hold.store.upgrade(&request);
        let token = wait(deadline, self.hold.retry.as_ref(), ask);
        let token = tokio::select! {
            biased;
            token = token => token.inspect_err(|error| self.hold.note_loss(error))?,
            // A lost lock cannot be upgraded, whether or not the store can answer.
            lost = self.lost() => return Err(lost),
        };
        if let Ok(token) = token {
            let mut lease = lock(&self.hold.lease);
            lease.mode = Mode::Write;
            lease.token = token;
        }
        Ok(token)
    }

    /// Makes an upgraded lock upgradeable again. If the future is dropped or the store does not
    /// answer, the guard counts as upgradeable whatever the store did, as its holder can no longer
    /// rely on being alone. The next downgrade or upgrade settles it.
    ///
    /// # Errors
    ///
    /// `Conflict` if it was never upgraded.
    pub async fn downgrade(&mut self) -> Result<Mode> {
        self.hold.check()?;
        let asked_before = self.downgrading;
        if self.taken == Mode::Upgradeable && self.mode() == Mode::Write {
            lock(&self.hold.lease).mode = Mode::Upgradeable;
            self.downgrading = true;
        }
        let mut tries = Tries::default();
        let downgrade = || self.hold.store.downgrade(&self.hold.id);
        let answer = tries.run(self.hold.retry.as_ref(), downgrade).await;
        let asked_before = asked_before || tries.made > 1;
        let answer = match answer {
            // An earlier request did it, and its answer was lost.
            Err(Error::Conflict { .. }) if self.downgrading && asked_before => {
                Ok(Mode::Upgradeable)
            }
            answer => answer,
        };
        self.downgrading &= answer.as_ref().is_err_and(is_outcome_open);
        answer.inspect_err(|error| self.hold.note_loss(error))
    }

    /// Releases the lock. If the future is dropped, the lock is released all the same.
    ///
    /// # Errors
    ///
    /// The store's error, with the guard to try again.
    pub async fn release(mut self) -> Result<(), ReleaseError> {
        match retry(self.hold.retry.as_ref(), || {
            self.hold.store.release(&self.hold.id)
        })
        .await
        {
            Ok(()) => {
                self.released = true;
                self.log.released(true);
                Ok(())
            }
            Err(source) => {
                self.log.released(false);
                self.hold.note_loss(&source);
                let guard = self;
                Err(ReleaseError { guard, source })
            }
        }
    }

    /// Leaves the lease in the store without a guard. Only for a lease-bound lease: one bound to
    /// the session would be held until the session ends.
    pub(crate) fn leave(mut self) {
        self.released = true;
        self.log.leave();
        if let Some(reservation) = self.reservation.take() {
            reservation.leave();
        }
    }

    /// Returns a descriptor that keeps the lock held for as long as any process has it open, if the
    /// store has one.
    pub fn descriptor(&self) -> Result<Option<OwnedFd>> {
        self.hold.store.descriptor(&self.hold.id)
    }
}

/// Returns true if a store that returned this error may or may not have done what it was asked.
fn is_outcome_open(error: &Error) -> bool {
    let definite = matches!(
        error,
        Error::Conflict { .. } | Error::LeaseOver { .. } | Error::Lost { .. }
    );
    !definite
}

/// Waits until one of the guards is lost. Waits for ever if there are none.
pub(crate) async fn any_lost(guards: &[Guard]) -> Error {
    let mut losses: Vec<_> = guards.iter().map(|guard| Box::pin(guard.lost())).collect();
    poll_fn(|context| {
        let lost = losses.iter_mut().map(|loss| loss.as_mut().poll(context));
        let mut lost = lost.filter(Poll::is_ready);
        lost.next().unwrap_or(Poll::Pending)
    })
    .await
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.session.renewal.remove(&self.hold);
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
