//! Taking one lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tenure_core::request::check_notes;
use tenure_core::{Error, Lease, LeaseId, Mode, Request, Resource, Result};
use tenure_files::clock;
use tokio::time::timeout;

use super::held::Refusal;
use super::turn::Turn;
use super::{Claim, GaveUp, Options, Patience, Shared, wait};
use crate::{Guard, log, random};

/// Asking who is in the way takes no longer: the caller has waited enough.
const HOLDERS_WAIT_MAX: Duration = Duration::from_secs(1);

pub(super) async fn acquire(
    session: &Arc<Shared>,
    resource: &Resource,
    mode: Mode,
    options: &Options,
) -> Result<Guard> {
    check(options)?;
    let patience = session.patience(options.wait);
    session.strike_out_ended().await?;
    let entered = session.enter(resource)?;
    let entered = entered.map_err(|refusal| session.refused(refusal, mode))?;
    let taken = take_in_turn(session, entered, resource, mode, options, &patience);
    match taken.await? {
        Ok(guard) => Ok(guard),
        Err(gave_up) => Err(session.in_the_way(gave_up, resource, mode, None).await),
    }
}

pub(super) async fn try_acquire(
    session: &Arc<Shared>,
    resource: &Resource,
    mode: Mode,
    options: &Options,
) -> Result<Option<Guard>> {
    check(options)?;
    let patience = Patience::new(Duration::ZERO);
    session.strike_out_ended().await?;
    let entered = match session.enter(resource)? {
        Ok(entered) => entered,
        Err(Refusal::Reentry { .. }) => return Ok(None),
        Err(refusal) => return Err(session.refused(refusal, mode)),
    };
    let taken = take_in_turn(session, entered, resource, mode, options, &patience);
    Ok(taken.await?.ok())
}

async fn take_in_turn(
    session: &Arc<Shared>,
    (claim, turn): (Claim, Turn),
    resource: &Resource,
    mode: Mode,
    options: &Options,
    patience: &Patience,
) -> Result<Result<Guard, GaveUp>> {
    match turn.come(patience).await {
        Ok(()) => {
            let taken = session.take(claim, resource, mode, options, patience);
            taken.await
        }
        Err(gave_up) => Ok(Err(gave_up)),
    }
}

/// Refuses notes that no store would keep, and a count that nobody could ever be within.
pub(super) fn check(options: &Options) -> Result<()> {
    if options.capacity == Some(0) {
        return Err(Error::BadInput("bad capacity 0: it is at least 1".into()));
    }
    let checked = check_notes(options.purpose.as_deref(), options.metadata.as_ref());
    checked.map_err(|problem| Error::BadInput(problem.to_string()))
}

impl Shared {
    /// How long to wait, from now on.
    pub(crate) fn patience(&self, wait: Option<Duration>) -> Patience {
        Patience::new(wait.unwrap_or(self.keeper.settings().wait))
    }

    fn enter(&self, resource: &Resource) -> Result<Result<(Claim, Turn), Refusal>> {
        let asked = vec![(random::lease_id()?, resource.clone())];
        let entered = self.book.enter(asked);
        Ok(entered.map(|(mut claims, turn)| (claims.remove(0), turn)))
    }

    /// The error a refused request ends with.
    pub(crate) fn refused(&self, refusal: Refusal, mode: Mode) -> Error {
        match refusal {
            Refusal::Reentry { resource, lease } => Error::Reentry {
                place: self.place(&resource, mode),
                lease,
            },
            Refusal::Order { asked, held } => Error::Order { asked, held },
        }
    }

    /// Asks the store for what was entered, when its turn has come and while it lasts.
    pub(super) async fn take(
        self: &Arc<Self>,
        claim: Claim,
        resource: &Resource,
        mode: Mode,
        options: &Options,
        patience: &Patience,
    ) -> Result<Result<Guard, GaveUp>> {
        let request = self.request(claim.lease.clone(), resource, mode, options, patience);
        let store = self.keeper.store();
        let asking = log::Asking::new(resource, mode);
        // When the question was asked that was granted: a lease's time is never counted from later.
        let asked = AtomicU64::new(clock::boot_now());
        let lease = wait(
            patience,
            &self.keeper.settings().retry,
            || {
                asked.store(clock::boot_now(), Ordering::Relaxed);
                store.try_acquire(&request)
            },
            || {
                asking.waiting();
                asked.store(clock::boot_now(), Ordering::Relaxed);
                store.acquire(&request)
            },
        );
        // Nothing is awaited between grant and guard, so no grant is ever without one.
        let lease = match lease.await? {
            Ok(lease) => lease,
            Err(gave_up) => {
                asking.gave_up();
                return Ok(Err(gave_up));
            }
        };
        let (log, asked) = (asking.acquired(), asked.into_inner());
        let guard = Guard::new(Arc::clone(self), claim, lease, log, asked);
        Ok(Ok(guard.watched().await?))
    }

    fn request(
        &self,
        lease: LeaseId,
        resource: &Resource,
        mode: Mode,
        options: &Options,
        patience: &Patience,
    ) -> Request {
        Request {
            lease,
            resource: resource.clone(),
            mode,
            asker: Arc::clone(&self.asker),
            purpose: options.purpose.clone(),
            metadata: options.metadata.clone(),
            deadline: patience.deadline_at(),
            until: patience.until(),
            capacity: options.capacity,
        }
    }

    /// The error for a wait that ran out, with who is in the way as far as that is known. Of a store that cannot be
    /// reached nobody knows whether anybody is.
    pub(crate) async fn in_the_way(
        &self,
        gave_up: GaveUp,
        resource: &Resource,
        mode: Mode,
        own: Option<&LeaseId>,
    ) -> Error {
        let listed = timeout(HOLDERS_WAIT_MAX, self.keeper.holders(resource)).await;
        let mut holders: Vec<Lease> = match listed {
            Ok(Err(error @ Error::Unreachable { .. })) => return error,
            listed => listed.ok().and_then(Result::ok).unwrap_or_default(),
        };
        holders.retain(|holder| Some(&holder.lease) != own);
        gave_up.into_error(self.place(resource, mode), holders)
    }
}
