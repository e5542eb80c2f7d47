//! Acquires a set and makes it lease-bound.
//!
//! While the set is not complete, its leases are bound to the session: none of them expires,
//! however long the wait for the last takes, and all of them end if the process dies. When the set
//! is complete, their time begins, for all of them in one step.

use std::sync::Arc;
use std::time::Duration;

use tenure_core::{Error, Lease, LeaseId, LockSet, Result};

use super::key::{self, Asking, Begun};
use super::{LeaseTerms, check_ttl, permit};
use crate::retry::retry;
use crate::session::{Deadline, Taken};
use crate::{Guard, Keeper, Options, Session};

impl Keeper {
    /// Takes a set of locks, all or none, that stay when this process ends. Their time begins
    /// to run when the whole set is there. They come in the order they were taken.
    ///
    /// With a key, a repeated request returns the same leases for as long as no other request took
    /// one of them. Leases whose time is over get their last time to live anew. If two such
    /// requests come at the same time, one takes the locks and the other waits for it.
    ///
    /// # Cancellation
    ///
    /// A request that is dropped before it is done holds nothing, and its key is free again. A
    /// process that is killed in the instant in which the leases are bound may leave them behind
    /// without ever knowing their ids: under a key, a repeated request returns them; without one
    /// they last for their time to live.
    ///
    /// # Errors
    ///
    /// Errors of [`Session::acquire_many`]; `BadInput` for a time to live out of bounds and for an
    /// empty set; `Conflict` if the key stands for another request, or one of its leases has ended
    /// or is being broken.
    pub async fn lock(
        &self,
        session: &Session,
        set: &LockSet,
        terms: &LeaseTerms,
        options: &Options,
    ) -> Result<Vec<Lease>> {
        permit::leases(self, "lock")?;
        check_ttl(terms.ttl)?;
        self.settings()
            .automated
            .check_ttl(session.owner(), terms.ttl)?;
        if set.is_empty() {
            return Err(empty());
        }
        if !Arc::ptr_eq(self.store(), session.keeper().store()) {
            let problem = "the session belongs to another keeper than the one that is asked";
            return Err(Error::BadInput(problem.into()));
        }
        let shared = &session.shared;
        let (set, deadline) = (shared.sorted(set), shared.deadline(options.wait)?);
        let options = &Options {
            lasting: true,
            ..options.clone()
        };
        let Some(key) = &terms.key else {
            return acquire_and_bind(self, session, &set, terms, options, &deadline, None).await;
        };
        let begun = key::begin(self, shared, &set, terms.ttl, key, &deadline);
        let asking = match begun.await? {
            Begun::Ours(asking) => asking,
            Begun::Answered(leases) => return Ok(leases),
        };
        let keyed = Some(&asking);
        match acquire_and_bind(self, session, &set, terms, options, &deadline, keyed).await {
            Ok(leases) => {
                asking.bound();
                Ok(leases)
            }
            Err(error) => {
                asking.give_up().await;
                Err(error)
            }
        }
    }

    /// Leaves the locks of guards in the store for `ttl`, counted from now, whatever becomes of
    /// this process. If that fails, all of them are released.
    ///
    /// # Errors
    ///
    /// `BadInput` for a time to live out of bounds; `NotAllowed` if it is too long for an automated
    /// owner; `Configuration` if the store has no leases of their own.
    pub async fn leave(&self, guards: Vec<Guard>, ttl: Duration) -> Result<Vec<Lease>> {
        check_ttl(ttl)?;
        for guard in &guards {
            let owner = &guard.lease().owner;
            self.settings().automated.check_ttl(owner, ttl)?;
        }
        bind(self, guards, ttl, None).await
    }
}

/// Acquires and binds within the deadline of the whole request, so that the wait for the key
/// counts.
async fn acquire_and_bind(
    keeper: &Keeper,
    session: &Session,
    set: &LockSet,
    terms: &LeaseTerms,
    options: &Options,
    deadline: &Deadline,
    asking: Option<&Asking>,
) -> Result<Vec<Lease>> {
    let guards = session.acquire_within(set, options, deadline).await?;
    bind(keeper, guards, terms.ttl, asking).await
}

/// Makes the leases of guards lease-bound, or releases all of them.
async fn bind(
    keeper: &Keeper,
    guards: Vec<Guard>,
    ttl: Duration,
    asking: Option<&Asking>,
) -> Result<Vec<Lease>> {
    let mut taken = Taken(guards);
    let ids: Vec<LeaseId> = taken.0.iter().map(|guard| guard.lease().lease).collect();
    let keyed = asking.map(|asking| &*asking.keyed);
    let leases = permit::leases(keeper, "lock")?;
    let policy = keeper.retry();
    match retry(policy, || leases.bind(&ids, ttl, keyed)).await {
        Ok(leases) => {
            // There is no await between the answer and this, so that no guard releases what is
            // bound.
            for guard in taken.0.drain(..) {
                guard.leave();
            }
            Ok(leases)
        }
        Err(error) => {
            taken.release_all().await;
            Err(error)
        }
    }
}

pub(super) fn empty() -> Error {
    Error::BadInput("nothing to lock: name at least one resource".into())
}
