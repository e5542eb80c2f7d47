//! Keeps other runs out of a resource for a time, however soon the run that asks for it ends.
//!
//! A *hold* is a lease on `hold:RESOURCE`, in the mode of the lock and ordered directly before it.
//! It ends by its time, or by a person.
//!
//! A run that keeps others out:
//!
//! 1. takes the hold and then the resource, as any set of locks. Killed here, it leaves nothing.
//! 2. binds the hold to its time, durably. Killed from here on, it leaves the hold until its time
//!    is over.
//! 3. starts its command. If that cannot be started, it ends the hold.
//! 4. releases the resource, and leaves the hold alone.
//!
//! Every other run:
//!
//! 1. takes the resource.
//! 2. looks for a hold that conflicts, and starts its command if there is none.
//! 3. else releases everything, and takes holds and resources in their order. Nothing is held while
//!    it waits that is ordered later. Then it releases the holds, and starts its command.
//!
//! # Invariant
//!
//! No command starts while the hold of another run is in force. A hold is bound only by a run that
//! has the resource in the same mode. So while another run has the resource in a mode that
//! conflicts, none is bound, and one that was bound before is committed, and seen by the look. A
//! hold that is not bound yet counts in the look, too: that costs its finder another round, and
//! never lets it start too early.

use std::sync::Arc;
use std::time::Duration;

use tenure::{Error, Guard, Keeper, LeaseId, LockSet, Result, Session};

use super::held::release;
use super::taken::{self, Taken, TakenRequest};
use crate::Observer;

/// The holds of a run.
pub(super) struct Kept {
    keeper: Keeper,
    leases: Vec<LeaseId>,
}

impl Kept {
    /// Ends the holds before their time.
    pub(super) async fn give_back(self, observer: &Arc<dyn Observer>) {
        for lease in self.leases.iter().rev() {
            if let Err(failed) = self.keeper.release(lease, None).await {
                observer.word(&failed.to_string());
            }
        }
    }
}

/// Acquires a set that no other run keeps, and keeps it if the request says so.
pub(super) async fn acquire(
    session: Session,
    set: &LockSet,
    request: &TakenRequest<'_>,
) -> Result<Taken> {
    let observer = request.caller.observer();
    let keeper = session.keeper().clone();
    let with_holds = with_holds(&keeper, set);
    let mut options = request.options.clone();
    if request.at_least.is_some() {
        check(&keeper, set, &with_holds)?;
    } else {
        let taken = taken::acquire(session.clone(), set, &options, request).await?;
        match is_kept(&keeper, set).await {
            Ok(false) => return Ok(taken),
            Err(error) if !error.is_passing() => {
                taken.give_back(observer).await;
                return Err(error);
            }
            // After a passing fault a hold may be there: the second round waits for the store, too.
            Ok(true) | Err(_) => release(taken.guards, observer).await?,
        }
        options.wait = Some(request.limit.left());
    }
    let mut taken = taken::acquire(session, &with_holds, &options, request).await?;
    let is_lock = |guard: &Guard| set.iter().any(|(resource, _)| resource == guard.resource());
    let (locks, holds) = taken.guards.into_iter().partition(is_lock);
    taken.guards = locks;
    let done = match request.at_least {
        Some(time) => keep(&keeper, &mut taken, holds, time).await,
        None => release(holds, observer).await,
    };
    match done {
        Ok(()) => Ok(taken),
        Err(error) => {
            taken.give_back(observer).await;
            Err(error)
        }
    }
}

fn check(keeper: &Keeper, set: &LockSet, with_holds: &LockSet) -> Result<()> {
    if !keeper.keeps_leases() {
        return Err(Error::configuration(
            format!(
                "{} cannot keep others out after the command: every lock in it ends with its session",
                keeper.url()
            ),
            "use a store that can, such as {.store} sqlite:PATH",
        ));
    }
    if with_holds.iter().len() < 2 * set.iter().len() {
        let problem = "cannot keep others out: a name is too long, or its own hold is asked for";
        return Err(Error::BadInput(problem.into()));
    }
    Ok(())
}

/// Returns the set with the holds of its locks. A name that is too long has none.
fn with_holds(keeper: &Keeper, set: &LockSet) -> LockSet {
    let holds = set.iter();
    let holds = holds.filter_map(|(resource, mode)| Some((resource.hold().ok()?, *mode)));
    LockSet::new(&keeper.settings().ranking, set.iter().cloned().chain(holds))
}

/// Returns true if a hold conflicts with a lock of the set.
async fn is_kept(keeper: &Keeper, set: &LockSet) -> Result<bool> {
    let locks = set.iter().filter(|_| keeper.keeps_leases());
    for (resource, mode) in locks {
        let Ok(hold) = resource.hold() else { continue };
        let holders = keeper.holders(&hold).await?;
        if holders.iter().any(|held| held.mode.conflicts_with(*mode)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Leaves the holds in the store for their time. Fails if a lock was lost meanwhile.
async fn keep(keeper: &Keeper, taken: &mut Taken, holds: Vec<Guard>, time: Duration) -> Result<()> {
    let leases = keeper.leave(holds, time).await?;
    taken.kept = Some(Kept {
        keeper: keeper.clone(),
        leases: leases.into_iter().map(|lease| lease.lease).collect(),
    });
    taken.guards.iter().try_for_each(Guard::check)
}
