//! Taking a set of locks: in order, all or none, within one deadline.

use std::sync::Arc;
use std::time::Duration;

use tenure_core::{Error, LockSet, Mode, Resource, Result};

use super::acquire::check;
use super::locks::RequestRefusal;
use super::request_queue::QueuePlace;
use super::{Deadline, GaveUp, Options, Reservation, Shared};
use crate::guard::any_lost;
use crate::{Guard, ids};

/// The lock of a set that could not be taken.
struct Missing {
    gave_up: GaveUp,
    resource: Resource,
    mode: Mode,
}

pub(super) async fn acquire(
    session: &Arc<Shared>,
    set: &LockSet,
    options: &Options,
) -> Result<Vec<Guard>> {
    let deadline = session.deadline(options.wait)?;
    acquire_within(session, &session.sorted(set), options, &deadline).await
}

/// Takes a sorted set within a deadline that was set earlier.
pub(super) async fn acquire_within(
    session: &Arc<Shared>,
    set: &LockSet,
    options: &Options,
    deadline: &Deadline,
) -> Result<Vec<Guard>> {
    check(options)?;
    session.forget_ended().await?;
    let entered = session.enter_set(set);
    let entered = entered.map_err(|refusal| refused(session, set, refusal))?;
    match acquire_all(session, set, entered, options, deadline).await? {
        Ok(guards) => Ok(guards),
        Err(Missing {
            gave_up,
            resource,
            mode,
        }) => Err(session.in_the_way(gave_up, &resource, mode, None).await),
    }
}

pub(super) async fn try_acquire(
    session: &Arc<Shared>,
    set: &LockSet,
    options: &Options,
) -> Result<Option<Vec<Guard>>> {
    check(options)?;
    let deadline = Deadline::new(Duration::ZERO);
    let set = session.sorted(set);
    session.forget_ended().await?;
    let entered = match session.enter_set(&set) {
        Ok(entered) => entered,
        Err(RequestRefusal::Reentry { .. }) => return Ok(None),
        Err(refusal) => return Err(refused(session, &set, refusal)),
    };
    let taken = acquire_all(session, &set, entered, options, &deadline).await?;
    Ok(taken.ok())
}

/// The guards taken so far. Dropped half-way, they are released in reverse order: a waiter for the
/// first of the set would otherwise only have to wait for the rest.
#[derive(Default)]
pub(crate) struct Taken(pub(crate) Vec<Guard>);

impl Taken {
    /// Releases all, last first, and waits for it: when the caller gets the error, nothing of the
    /// set is held any more.
    pub(crate) async fn release_all(&mut self) {
        while let Some(last) = self.0.pop() {
            // A failed release returns the guard, and dropping the guard abandons the lease.
            drop(last.release().await);
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        while let Some(last) = self.0.pop() {
            drop(last);
        }
    }
}

async fn acquire_all(
    session: &Arc<Shared>,
    set: &LockSet,
    (reservations, place): (Vec<Reservation>, QueuePlace),
    options: &Options,
    deadline: &Deadline,
) -> Result<Result<Vec<Guard>, Missing>> {
    let Some((first, mode)) = set.iter().next() else {
        return Ok(Ok(Vec::new()));
    };
    let missing = |gave_up, resource: &Resource, mode| Missing {
        gave_up,
        resource: resource.clone(),
        mode,
    };
    if let Err(gave_up) = place.wait_until_first(deadline).await {
        return Ok(Err(missing(gave_up, first, *mode)));
    }
    let mut taken = Taken::default();
    for ((resource, mode), reservation) in set.iter().zip(reservations) {
        let take = session.acquire_reserved(reservation, resource, *mode, options, deadline);
        let guard = tokio::select! {
            biased;
            guard = take => guard,
            // Half of a set is of no use, so the wait ends.
            lost = any_lost(&taken.0) => Err(lost),
        };
        match guard {
            Ok(Ok(guard)) => taken.0.push(guard),
            Ok(Err(gave_up)) => {
                taken.release_all().await;
                return Ok(Err(missing(gave_up, resource, *mode)));
            }
            Err(error) => {
                taken.release_all().await;
                return Err(error);
            }
        }
    }
    if let Some(lost) = taken.0.iter().find_map(|guard| guard.hold.check().err()) {
        taken.release_all().await;
        return Err(lost);
    }
    Ok(Ok(std::mem::take(&mut taken.0)))
}

fn refused(session: &Shared, set: &LockSet, refusal: RequestRefusal) -> Error {
    let (RequestRefusal::Reentry { resource, .. }
    | RequestRefusal::Order {
        asked: resource, ..
    }) = &refusal;
    let asked = set.iter().find(|(asked, _)| asked == resource);
    let mode = asked.map_or(Mode::Write, |(_, mode)| *mode);
    session.refused(refusal, mode)
}

impl Shared {
    /// Returns the set in the order of this keeper, whatever ranking it was made with.
    pub(crate) fn sorted(&self, set: &LockSet) -> LockSet {
        LockSet::new(&self.keeper.settings().ranking, set.iter().cloned())
    }

    /// Enters the whole set before the first request, so that no other task of the session takes
    /// something in between.
    fn enter_set(&self, set: &LockSet) -> Result<(Vec<Reservation>, QueuePlace), RequestRefusal> {
        let name = |(resource, _): &(Resource, Mode)| (ids::lease_id(), resource.clone());
        self.locks.enter(set.iter().map(name).collect())
    }
}
