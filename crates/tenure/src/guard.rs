//! A lock in hand.

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
use tenure_core::{Error, Lease, Mode, Resource, Result, Token, UpgradeRequest};

use crate::log::Logged;
use crate::poison::lock;
use crate::retry::{Tries, retry};
use crate::session::{Claim, GaveUp, Patience, Shared, wait};

pub use doubt::Doubt;
pub(crate) use hold::{Checks, Hold};
pub(crate) use trust::Phase;

/// How far a guard can be trusted.
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
/// Dropping it releases, after a panic too; [`release`](Guard::release) tells how that went.
///
/// Where its lease runs out by itself, as on PostgreSQL, it is renewed in the background. If that
/// fails it is unknown at once, [in doubt](Guard::in_doubt) when two thirds of its time are used up, and
/// [lost](Guard::lost) at five sixths: before anybody else can have the lock.
#[must_use = "dropping the guard releases the lock"]
pub struct Guard {
    hold: Arc<Hold>,
    session: Arc<Shared>,
    /// Ends after the lease: while the store holds it, the session counts it as held.
    claim: Option<Claim>,
    released: bool,
    /// How it was taken; an upgrade is on top of that.
    taken: Mode,
    /// Whether a downgrade was asked for and its outcome is open: it counts as upgradeable, and may be write.
    lowering: bool,
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
    /// What was granted by a question asked then, in milliseconds since boot.
    pub(crate) fn new(
        session: Arc<Shared>,
        claim: Claim,
        lease: Lease,
        log: Logged,
        asked: Millis,
    ) -> Guard {
        let store = Arc::clone(session.keeper.store());
        let retry = session.keeper.settings().retry.clone();
        let taken = lease.mode;
        let hold = Arc::new(Hold::new(store, lease, retry, asked));
        Guard {
            hold,
            session,
            claim: Some(claim),
            released: false,
            taken,
            lowering: false,
            log,
        }
    }

    /// Has it checked from now on. What waited long for its grant is proved first: nobody judges it by
    /// the time it waited.
    pub(crate) async fn watched(self) -> Result<Guard> {
        self.hold.prove().await?;
        // Only with the guard made: if this panics, for want of a runtime, it releases.
        self.session.watch.add(&self.hold);
        Ok(self)
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

    /// How long the lease is known to last, if it is not renewed. None where it lasts for as long as
    /// its session.
    pub fn expires_in(&self) -> Option<Duration> {
        self.hold.expires_in()
    }

    /// Waits until the lease has used up two thirds of its time without a renewal, or is lost,
    /// and says what is wrong. Whoever needs time to stop begins now. Any number may wait.
    pub async fn in_doubt(&self) -> Doubt {
        self.session.watch.watching(self.hold.in_doubt()).await
    }

    /// Waits until the lock is lost, and says why. Any number may wait.
    pub async fn lost(&self) -> Error {
        self.session.watch.watching(self.hold.lost()).await
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
        if self.lowering {
            // It may be write in the store, which would refuse to make it so.
            self.downgrade().await?;
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
        let token = tokio::select! {
            biased;
            token = token => token.inspect_err(|error| self.hold.note_loss(error))?,
            // What is lost cannot be upgraded, whether or not the store can say so.
            lost = self.lost() => return Err(lost),
        };
        if let Ok(token) = token {
            let mut lease = lock(&self.hold.lease);
            lease.mode = Mode::Write;
            lease.token = token;
        }
        Ok(token)
    }

    /// Makes an upgraded lock upgradeable again. Dropped half-way, or without an answer, the guard
    /// counts as upgradeable whatever the store did, as nobody may then rely on being alone.
    /// Asking again, for this or for an upgrade, settles it.
    ///
    /// # Errors
    ///
    /// `Conflict` if it was never upgraded.
    pub async fn downgrade(&mut self) -> Result<Mode> {
        self.hold.check()?;
        let asked_before = self.lowering;
        if self.taken == Mode::Upgradeable && self.mode() == Mode::Write {
            lock(&self.hold.lease).mode = Mode::Upgradeable;
            self.lowering = true;
        }
        let mut tries = Tries::default();
        let downgrade = || self.hold.store.downgrade(&self.hold.id);
        let answer = tries.run(&self.hold.retry, downgrade).await;
        let asked_before = asked_before || tries.made > 1;
        let answer = match answer {
            // An earlier question had done it, and its answer was lost.
            Err(Error::Conflict { .. }) if self.lowering && asked_before => Ok(Mode::Upgradeable),
            answer => answer,
        };
        self.lowering &= answer.as_ref().is_err_and(leaves_open);
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

/// Whether a store that answered so may have done what it was asked, or not.
fn leaves_open(error: &Error) -> bool {
    let definite = matches!(
        error,
        Error::Conflict { .. } | Error::LeaseOver { .. } | Error::Lost { .. }
    );
    !definite
}

/// Waits until one of them is lost. There may be none.
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
