//! Asking the store for one lock of a set.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tenure_core::circles::{Lasting, Standing};
use tenure_core::request::check_notes;
use tenure_core::{
    Error, Lease, LeaseId, Mode, Request, Resource, Result, UpgradeRequest, duration,
};
use tenure_os::clock;
use tokio::time::timeout;

use super::locks::RequestRefusal;
use super::{Deadline, GaveUp, Options, Reservation, Shared, wait};
use crate::{Guard, log};

/// The longest time to ask for the holders in the way: the caller has waited enough.
const HOLDERS_WAIT_MAX: Duration = Duration::from_secs(1);

/// Refuses notes that no store would keep, and a capacity of zero.
pub(super) fn check(options: &Options) -> Result<()> {
    if options.capacity == Some(0) {
        return Err(Error::BadInput("bad capacity 0: it is at least 1".into()));
    }
    let checked = check_notes(options.purpose.as_deref(), options.metadata.as_ref());
    checked.map_err(|problem| Error::BadInput(problem.to_string()))
}

impl Shared {
    /// Returns the deadline of a request made now.
    ///
    /// # Errors
    ///
    /// `BadInput` if the wait is longer than a year; `NotAllowed` if the owner is automated and the
    /// wait too long for it.
    pub(crate) fn deadline(&self, wait: Option<Duration>) -> Result<Deadline> {
        let settings = self.keeper.settings();
        let wait = wait.unwrap_or(settings.wait);
        duration::check_wait(wait)?;
        settings.automated.check_wait(&self.asker.owner, wait)?;
        Ok(Deadline::new(wait))
    }

    /// Returns the error for a refused request.
    pub(crate) fn refused(&self, refusal: RequestRefusal, mode: Mode) -> Error {
        match refusal {
            RequestRefusal::Reentry { resource, lease } => Error::Reentry {
                context: self.context(&resource, mode),
                lease,
            },
            RequestRefusal::Order { asked, held } => Error::Order { asked, held },
        }
    }

    /// Asks the store for a reserved resource. To be called while the request is first in the
    /// queue.
    pub(super) async fn acquire_reserved(
        self: &Arc<Self>,
        reservation: Reservation,
        resource: &Resource,
        mode: Mode,
        options: &Options,
        deadline: &Deadline,
    ) -> Result<Result<Guard, GaveUp>> {
        let request = self.request(reservation.lease.clone(), resource, mode, options, deadline);
        let store = self.keeper.store();
        let asking = log::Asking::new(resource, mode);
        // When the granted request was sent: a lease's time is never counted from later.
        let asked = AtomicU64::new(clock::boot_now());
        let lease = wait(deadline, self.keeper.retry(), || {
            asked.store(clock::boot_now(), Ordering::Relaxed);
            store.acquire(&request)
        });
        // There is no await between grant and guard, so every grant gets a guard.
        let lease = match asking.until(lease).await? {
            Ok(lease) => lease,
            Err(gave_up) => {
                asking.gave_up();
                return Ok(Err(gave_up));
            }
        };
        let (log, asked) = (asking.acquired(), asked.into_inner());
        let guard = Guard::new(Arc::clone(self), reservation, lease, log, asked);
        Ok(Ok(guard.watched().await?))
    }

    fn request(
        &self,
        lease: LeaseId,
        resource: &Resource,
        mode: Mode,
        options: &Options,
        deadline: &Deadline,
    ) -> Request {
        Request {
            lease,
            resource: resource.clone(),
            mode,
            asker: Arc::clone(&self.asker),
            purpose: options.purpose.clone(),
            metadata: options.metadata.clone(),
            deadline: deadline.deadline_at(),
            wait: deadline.wait(),
            capacity: options.capacity,
            standing: Arc::new(self.standing(options.lasting, false)),
        }
    }

    /// Returns the relation of a request to the other work of its owner. A circle is looked for if
    /// the session, or the owner to which a lasting request is counted, may hold something.
    fn standing(&self, lasting: bool, upgrades: bool) -> Standing {
        let automated = self.keeper.settings().automated.covers(&self.asker.owner);
        let lasting = match (lasting, automated) {
            (false, _) => Lasting::No,
            (true, false) => Lasting::Person,
            (true, true) => Lasting::Automated,
        };
        let ancestors = self.locks.around();
        Standing {
            searches: upgrades
                || lasting == Lasting::Automated
                || !ancestors.is_empty()
                || self.locks.has_several(),
            ancestors,
            lasting,
        }
    }

    /// Returns the request for the upgrade of a lease. `lasting` says that it outlasts its session.
    pub(crate) fn upgrade_request(
        &self,
        lease: &LeaseId,
        lasting: bool,
        deadline: &Deadline,
    ) -> UpgradeRequest {
        UpgradeRequest {
            lease: lease.clone(),
            asker: Arc::clone(&self.asker),
            deadline: deadline.deadline_at(),
            wait: deadline.wait(),
            standing: Arc::new(self.standing(lasting, true)),
        }
    }

    /// Returns the error for a wait that ran out, with the holders in the way as far as they are
    /// known. If the store cannot be reached, that is the error.
    pub(crate) async fn in_the_way(
        &self,
        gave_up: GaveUp,
        resource: &Resource,
        mode: Mode,
        own: Option<&LeaseId>,
    ) -> Error {
        let listed = timeout(HOLDERS_WAIT_MAX, self.keeper.holders(resource)).await;
        let mut holders: Vec<Lease> = match listed {
            Ok(Err(error)) if error.is_passing() => return error,
            listed => listed.ok().and_then(Result::ok).unwrap_or_default(),
        };
        holders.retain(|holder| Some(&holder.lease) != own);
        gave_up.into_error(self.context(resource, mode), holders)
    }
}
