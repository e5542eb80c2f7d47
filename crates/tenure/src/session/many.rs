//! Taking a set of locks: in order, all or none, within one deadline.

use std::sync::Arc;
use std::time::Duration;

use tenure_core::{Error, LockSet, Mode, Resource, Result};

use super::acquire::check;
use super::held::Refusal;
use super::turn::Turn;
use super::{Claim, GaveUp, Options, Patience, Shared};
use crate::guard::any_lost;
use crate::{Guard, random};

/// What could not be had of a set.
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
    let patience = session.patience(options.wait);
    acquire_within(session, &session.sorted(set), options, &patience).await
}

/// The same for a sorted set, within a wait that began earlier.
pub(super) async fn acquire_within(
    session: &Arc<Shared>,
    set: &LockSet,
    options: &Options,
    patience: &Patience,
) -> Result<Vec<Guard>> {
    check(options)?;
    session.strike_out_ended().await?;
    let entered = session.enter_set(set)?;
    let entered = entered.map_err(|refusal| refused(session, set, refusal))?;
    match take_all(session, set, entered, options, patience).await? {
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
    let patience = Patience::new(Duration::ZERO);
    let set = session.sorted(set);
    session.strike_out_ended().await?;
    let entered = match session.enter_set(&set)? {
        Ok(entered) => entered,
        Err(Refusal::Reentry { .. }) => return Ok(None),
        Err(refusal) => return Err(refused(session, &set, refusal)),
    };
    let taken = take_all(session, &set, entered, options, &patience).await?;
    Ok(taken.ok())
}

/// The guards taken so far. Dropped half-way, they go in reverse order: whoever
/// waits for the first of the set would only meet the rest of it otherwise.
#[derive(Default)]
pub(crate) struct Taken(pub(crate) Vec<Guard>);

impl Taken {
    /// Releases, last first, and waits for it: when the caller hears of the failure,
    /// nothing of the set is held any more.
    pub(crate) async fn give_back(&mut self) {
        while let Some(last) = self.0.pop() {
            // A failed release hands the guard back, and dropping that gives it up.
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

async fn take_all(
    session: &Arc<Shared>,
    set: &LockSet,
    (claims, turn): (Vec<Claim>, Turn),
    options: &Options,
    patience: &Patience,
) -> Result<Result<Vec<Guard>, Missing>> {
    let Some((first, mode)) = set.iter().next() else {
        return Ok(Ok(Vec::new()));
    };
    let missing = |gave_up, resource: &Resource, mode| Missing {
        gave_up,
        resource: resource.clone(),
        mode,
    };
    if let Err(gave_up) = turn.come(patience).await {
        return Ok(Err(missing(gave_up, first, *mode)));
    }
    let mut taken = Taken::default();
    for ((resource, mode), claim) in set.iter().zip(claims) {
        let take = session.take(claim, resource, *mode, options, patience);
        let guard = tokio::select! {
            biased;
            guard = take => guard,
            // Half of a set is of no use: nothing is waited for any longer.
            lost = any_lost(&taken.0) => Err(lost),
        };
        match guard {
            Ok(Ok(guard)) => taken.0.push(guard),
            Ok(Err(gave_up)) => {
                taken.give_back().await;
                return Ok(Err(missing(gave_up, resource, *mode)));
            }
            Err(error) => {
                taken.give_back().await;
                return Err(error);
            }
        }
    }
    if let Some(lost) = taken.0.iter().find_map(|guard| guard.hold().check().err()) {
        taken.give_back().await;
        return Err(lost);
    }
    Ok(Ok(std::mem::take(&mut taken.0)))
}

fn refused(session: &Shared, set: &LockSet, refusal: Refusal) -> Error {
    let (Refusal::Reentry { resource, .. }
    | Refusal::Order {
        asked: resource, ..
    }) = &refusal;
    let asked = set.iter().find(|(asked, _)| asked == resource);
    let mode = asked.map_or(Mode::Write, |(_, mode)| *mode);
    session.refused(refusal, mode)
}

impl Shared {
    /// The set in the order of this keeper, whichever ranking it was made with.
    pub(crate) fn sorted(&self, set: &LockSet) -> LockSet {
        LockSet::new(&self.keeper.settings().ranking, set.iter().cloned())
    }

    /// Enters the whole set before anything of it is asked for, so that no other
    /// task of the session takes something in between.
    fn enter_set(&self, set: &LockSet) -> Result<Result<(Vec<Claim>, Turn), Refusal>> {
        let name = |(resource, _): &(Resource, Mode)| Ok((random::lease_id()?, resource.clone()));
        let asked = set.iter().map(name).collect::<Result<Vec<_>>>()?;
        Ok(self.book.enter(asked))
    }
}
