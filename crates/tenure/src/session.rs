//! A session: one unit of work of an owner, with the locks it holds and awaits.
//!
//! # Invariants
//!
//! - A session holds or awaits a resource at most once ([`locks`]).
//! - A lease that it left in the store counts as held for as long as it is there.
//! - A session awaits one request at a time, and nothing it awaits is ordered before
//!   anything it holds ([`locks`] refuses, [`request_queue`] queues).

mod acquire;
mod asker;
mod locks;
mod many;
mod options;
mod request_queue;
mod wait;

use std::fmt;
use std::sync::Arc;

use tenure_core::{
    Asker, Error, LeaseId, LockContext, LockSet, Mode, Owner, Resource, Result, SessionId,
};

use crate::renewal::Renewal;
use crate::retry::retry;
use crate::{Guard, Keeper};

pub(crate) use locks::Reservation;
pub(crate) use many::Taken;
pub use options::{Options, OuterLease, SessionOptions};
pub(crate) use wait::{Deadline, GaveUp, wait};

/// One unit of work of an owner. Clones are the same session.
#[derive(Clone)]
pub struct Session {
    pub(crate) shared: Arc<Shared>,
}

/// The state that the clones of a session and its guards share.
pub(crate) struct Shared {
    pub(crate) keeper: Keeper,
    pub(crate) asker: Arc<Asker>,
    pub(crate) locks: Arc<locks::SessionLocks>,
    pub(crate) renewal: Arc<Renewal>,
}

impl Session {
    pub(crate) fn begin(keeper: Keeper, options: SessionOptions) -> Session {
        let agent = keeper.settings().automated.agent().cloned();
        let asker = asker::asker(options.owner, options.command, agent);
        let store = Arc::clone(keeper.store());
        let locks = locks::SessionLocks::new(
            keeper.settings().ranking.clone(),
            store.url().to_owned(),
            options.ancestors,
        );
        let shared = Shared {
            asker: Arc::new(asker),
            locks: Arc::new(locks),
            renewal: Arc::new(Renewal::new(store)),
            keeper,
        };
        Session {
            shared: Arc::new(shared),
        }
    }

    /// Returns its id.
    pub fn id(&self) -> &SessionId {
        &self.shared.asker.session
    }

    /// Returns the owner it works for.
    pub fn owner(&self) -> &Owner {
        &self.shared.asker.owner
    }

    /// Returns the keeper it belongs to.
    pub fn keeper(&self) -> &Keeper {
        &self.shared.keeper
    }

    /// Returns the lease under which it holds or awaits a resource.
    pub fn lease_of(&self, resource: &Resource) -> Option<LeaseId> {
        self.shared.locks.lease_of(resource)
    }

    /// Takes a lock, waiting for it as long as the options say.
    ///
    /// # Errors
    ///
    /// At once: `Reentry` if the session holds or awaits the resource, `Order` if it holds or
    /// awaits something ordered later, `BadInput` for notes that cannot be kept, `Busy` if it
    /// is not free and the wait is zero. `Timeout` if it was not free in time.
    pub async fn acquire(
        &self,
        resource: &Resource,
        mode: Mode,
        options: &Options,
    ) -> Result<Guard> {
        let set = self.set_of_one(resource, mode);
        let guards = self.acquire_many(&set, options).await?;
        only(guards)
    }

    /// Takes a lock if that needs no waiting. Returns `None` if it does, or if the session holds or
    /// awaits the resource already; a lock it holds stays. Another request of the same session that
    /// is under way would have to be waited for, too.
    pub async fn try_acquire(
        &self,
        resource: &Resource,
        mode: Mode,
        options: &Options,
    ) -> Result<Option<Guard>> {
        let set = self.set_of_one(resource, mode);
        let guards = self.try_acquire_many(&set, options).await?;
        guards.map(only).transpose()
    }

    /// Takes a set of locks in the order of the keeper, all or none, within one wait.
    ///
    /// # Errors
    ///
    /// Errors of [`acquire`](Session::acquire). Locks taken before the failure are released, last
    /// first.
    pub async fn acquire_many(&self, set: &LockSet, options: &Options) -> Result<Vec<Guard>> {
        many::acquire(&self.shared, set, options).await
    }

    /// Takes a set of locks if none of them needs waiting. Otherwise returns `None` and takes none.
    pub async fn try_acquire_many(
        &self,
        set: &LockSet,
        options: &Options,
    ) -> Result<Option<Vec<Guard>>> {
        many::try_acquire(&self.shared, set, options).await
    }

    /// Acquiring one lock is acquiring a set of one.
    fn set_of_one(&self, resource: &Resource, mode: Mode) -> LockSet {
        let ranking = &self.keeper().settings().ranking;
        LockSet::new(ranking, [(resource.clone(), mode)])
    }

    /// Takes a sorted set within a deadline that was set earlier.
    pub(crate) async fn acquire_within(
        &self,
        set: &LockSet,
        options: &Options,
        deadline: &Deadline,
    ) -> Result<Vec<Guard>> {
        many::acquire_within(&self.shared, set, options, deadline).await
    }
}

/// Returns the guard of a set of one.
fn only(mut guards: Vec<Guard>) -> Result<Guard> {
    let missing = || Error::Internal("a set of one was granted without its lock".into());
    guards.pop().ok_or_else(missing)
}

impl Shared {
    /// Returns the description of a lock, for errors about it.
    pub(crate) fn context(&self, resource: &Resource, mode: Mode) -> Box<LockContext> {
        self.keeper.store().context_of(resource, mode)
    }

    /// Forgets the leases that the session left in the store and that have ended since, so that
    /// they refuse no request. Asks the store only if there are any.
    pub(crate) async fn forget_ended(&self) -> Result<()> {
        let mut ended = self.locks.left_in_store();
        let store = self.keeper.store();
        let Some(leases) = store.leases().filter(|_| !ended.is_empty()) else {
            return Ok(());
        };
        let policy = self.keeper.retry();
        let held = retry(policy, || leases.of_session(&self.asker.session)).await?;
        ended.retain(|left| held.iter().all(|held| held.lease != *left));
        self.locks.forget(&ended);
        Ok(())
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // The last clone and the last guard are gone, so the session holds nothing any more.
        self.keeper.store().end_session(&self.asker.session);
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Session({} of {})", self.id(), self.owner())
    }
}
