//! One logical unit of work: asks for locks, and knows what it holds and awaits.
//!
//! # Invariants
//!
//! - A session holds or awaits a resource at most once ([`held`]).
//! - What it left in the store on its own counts as held for as long as it is there.
//! - A session awaits one request at a time, and nothing it awaits is ordered before
//!   anything it holds ([`held`] refuses, [`turn`] queues).

mod acquire;
mod asker;
mod held;
mod many;
mod options;
mod turn;
mod wait;

use std::fmt;
use std::sync::Arc;

use tenure_core::{Asker, LockSet, Mode, Owner, Place, Resource, Result, SessionId};

use crate::retry::retry;
use crate::watch::Watch;
use crate::{Guard, Keeper};

pub(crate) use held::Claim;
pub(crate) use many::Taken;
pub use options::{Held, Options, SessionOptions};
pub(crate) use wait::{GaveUp, Patience, wait};

/// One logical unit of work of an owner. Clones are the same session.
#[derive(Clone)]
pub struct Session {
    pub(crate) shared: Arc<Shared>,
}

/// What the clones of a session and its guards have in common.
pub(crate) struct Shared {
    pub(crate) keeper: Keeper,
    pub(crate) asker: Arc<Asker>,
    pub(crate) book: Arc<held::Book>,
    pub(crate) watch: Arc<Watch>,
}

impl Session {
    pub(crate) fn begin(keeper: Keeper, options: SessionOptions) -> Result<Session> {
        let asker = asker::asker(options.owner, options.command)?;
        let store = Arc::clone(keeper.store());
        let book = held::Book::new(
            keeper.settings().ranking.clone(),
            store.url().to_owned(),
            options.ancestors,
        );
        let shared = Shared {
            asker: Arc::new(asker),
            book: Arc::new(book),
            watch: Arc::new(Watch::new(store)),
            keeper,
        };
        Ok(Session {
            shared: Arc::new(shared),
        })
    }

    /// Its id.
    pub fn id(&self) -> &SessionId {
        &self.shared.asker.session
    }

    /// On whose behalf it works.
    pub fn owner(&self) -> &Owner {
        &self.shared.asker.owner
    }

    /// The keeper it belongs to.
    pub fn keeper(&self) -> &Keeper {
        &self.shared.keeper
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
        acquire::acquire(&self.shared, resource, mode, options).await
    }

    /// Takes a lock if that needs no waiting. None if it does, and if the session holds
    /// or awaits the resource already; the lock it holds stays. Another request of the same
    /// session that is under way is something to wait for, too.
    pub async fn try_acquire(
        &self,
        resource: &Resource,
        mode: Mode,
        options: &Options,
    ) -> Result<Option<Guard>> {
        acquire::try_acquire(&self.shared, resource, mode, options).await
    }

    /// Takes a set of locks in the order of the keeper, all or none, within one wait.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Session::acquire); what was taken before the failure is released,
    /// last first.
    pub async fn acquire_many(&self, set: &LockSet, options: &Options) -> Result<Vec<Guard>> {
        many::acquire(&self.shared, set, options).await
    }

    /// Takes a set of locks if none of them needs waiting; None, and none of them, otherwise.
    pub async fn try_acquire_many(
        &self,
        set: &LockSet,
        options: &Options,
    ) -> Result<Option<Vec<Guard>>> {
        many::try_acquire(&self.shared, set, options).await
    }

    /// Takes a sorted set within a wait that began earlier.
    pub(crate) async fn acquire_within(
        &self,
        set: &LockSet,
        options: &Options,
        patience: &Patience,
    ) -> Result<Vec<Guard>> {
        many::acquire_within(&self.shared, set, options, patience).await
    }
}

impl Shared {
    /// What an error about a resource names.
    pub(crate) fn place(&self, resource: &Resource, mode: Mode) -> Box<Place> {
        let store = self.keeper.store();
        Box::new(Place {
            resource: resource.clone(),
            mode,
            store: store.url().to_owned(),
            location: store.place_of(resource),
        })
    }

    /// Strikes out what the session left in the store and what has ended there since, so that
    /// nothing is refused on account of it. A session that left nothing asks nothing.
    pub(crate) async fn strike_out_ended(&self) -> Result<()> {
        let mut ended = self.book.left();
        let store = self.keeper.store();
        let Some(leases) = store.leases().filter(|_| !ended.is_empty()) else {
            return Ok(());
        };
        let policy = &self.keeper.settings().retry;
        let held = retry(policy, || leases.of_session(&self.asker.session)).await?;
        ended.retain(|left| held.iter().all(|held| held.lease != *left));
        self.book.strike_out(&ended);
        Ok(())
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // The last clone and the last guard are gone: nothing is held through it any more.
        self.keeper.store().end_session(&self.asker.session);
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Session({} of {})", self.id(), self.owner())
    }
}
