//! Leases of their own: locks that outlive the process that took them.
//!
//! [`Keeper::lock`] takes a set as any session would and then makes it lease-bound, all of
//! it in one step. From then on it belongs to no guard: a caller that knows the id of a lease may
//! renew, release, upgrade and downgrade it, unless it names another owner.
//!
//! The permission is checked here, once for every surface, before the store is asked. Neither the
//! owner of a lease, nor its taker, nor the binding of a bound one ever changes, so nothing can
//! come between the check and the act.
//!
//! | step | file |
//! |---|---|
//! | take a set and bind it; ask again under a key | `lock`, `key` |
//! | check that a lease exists and the caller may act on it | `permit` |
//! | upgrade by id | `upgrade` |
//! | take a lease that a guard of the same owner has in hand | `take_over` |
//! | recover stale leases, break others | `recover` |
//!
//! # Limitations
//!
//! Only stores with leases of their own can do this; others answer `Configuration`,
//! naming themselves.

mod key;
mod lock;
mod permit;
mod recover;
mod take_over;
mod upgrade;

use std::time::Duration;

use tenure_core::audit::{AuditPage, AuditQuery};
use tenure_core::circles::Circle;
pub use tenure_core::leases::{Finding, Findings, Recovery, TTL_DEFAULT, TTL_MAX, TTL_MIN};
use tenure_core::token::fenced;
use tenure_core::{
    Error, IdempotenceKey, Lease, LeaseId, Mode, Owner, Resource, Result, Token, duration, setters,
};

use crate::Keeper;
use crate::retry::{Tries, retry};

/// The time to live of a lease, and its key.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
#[must_use]
pub struct LeaseTerms {
    /// The time it lasts unless renewed: 1 s to 24 h.
    pub ttl: Duration,
    /// The caller's name for the request. A repeated request under it returns the same leases.
    pub key: Option<IdempotenceKey>,
}

impl Default for LeaseTerms {
    fn default() -> Self {
        let ttl = TTL_DEFAULT;
        Self { ttl, key: None }
    }
}

impl LeaseTerms {
    setters! {
        /// Sets how long it lasts unless renewed.
        with_ttl(ttl: Duration) => ttl = ttl;
        /// Sets the name of the request.
        with_key(key: IdempotenceKey) => key = Some(key);
    }
}

impl Keeper {
    /// Looks a lease up, whatever it is bound to.
    ///
    /// # Errors
    ///
    /// `NotFound` for an id that never was a lease of its own, `LeaseOver` for one that ended.
    pub async fn find(&self, lease: &LeaseId) -> Result<Lease> {
        permit::find(self, lease, "find").await
    }

    /// Gives a lease new time, counted from now: `ttl`, or as much as it had before. An expired
    /// lease gets it, too, as long as no other caller took over. The token stays.
    ///
    /// # Errors
    ///
    /// Errors of [`find`](Keeper::find); `NotAllowed` if `by` is not its owner, if the coding agent
    /// that asks did not take it, or if it is bound to a session or in the hands of a guard.
    pub async fn renew(
        &self,
        lease: &LeaseId,
        ttl: Option<Duration>,
        by: Option<&Owner>,
    ) -> Result<Lease> {
        if let Some(ttl) = ttl {
            check_ttl(ttl)?;
        }
        let held = permit::permit(self, lease, "renew", by).await?;
        if let Some(ttl) = ttl {
            self.settings().automated.check_ttl(&held.owner, ttl)?;
        }
        let leases = permit::leases(self, "renew")?;
        retry(self.retry(), || leases.extend(lease, ttl)).await
    }

    /// Ends a lease, and returns it as it was.
    ///
    /// # Errors
    ///
    /// Errors of [`renew`](Keeper::renew).
    pub async fn release(&self, lease: &LeaseId, by: Option<&Owner>) -> Result<Lease> {
        let before = permit::permit(self, lease, "release", by).await?;
        let (leases, actor) = (
            permit::leases(self, "release")?,
            permit::actor(self, &before, by),
        );
        retry(self.retry(), || leases.release_by(lease, actor)).await?;
        Ok(before)
    }

    /// Makes an upgraded lease upgradeable again.
    ///
    /// # Errors
    ///
    /// Errors of [`renew`](Keeper::renew); `Conflict` if it was never upgraded.
    pub async fn downgrade(&self, lease: &LeaseId, by: Option<&Owner>) -> Result<Lease> {
        let mut held = permit::permit(self, lease, "downgrade", by).await?;
        let (leases, actor) = (
            permit::leases(self, "downgrade")?,
            permit::actor(self, &held, by),
        );
        let mut tries = Tries::default();
        let answer = tries.run(self.retry(), || leases.downgrade_by(lease, actor));
        held.mode = match answer.await {
            // The first try had done it, and its answer was lost.
            Err(Error::Conflict { .. }) if held.mode == Mode::Write && tries.made > 1 => {
                Mode::Upgradeable
            }
            answer => answer?,
        };
        Ok(held)
    }

    /// Fails if a token is not that of the newest exclusive grant. Every store can tell. A resource
    /// that was only ever shared has the token zero, which all its holders carry.
    ///
    /// # Errors
    ///
    /// `NotAllowed` if the token is fenced, or was never granted; `UnknownResource` if the store
    /// never granted the resource.
    pub async fn check(&self, resource: &Resource, token: Token) -> Result<()> {
        let store = self.store();
        let newest = retry(self.retry(), || store.token(resource)).await?;
        let newest = newest.ok_or_else(|| Error::UnknownResource {
            resource: resource.clone(),
            store: store.url().to_owned(),
        })?;
        if token == newest {
            return Ok(());
        }
        Err(fenced(resource, token, newest, store.url()))
    }

    /// Returns the circles of requests that wait for each other at this moment. Certain circles end
    /// by themselves, as a request that closes one is refused; the others are for people to see.
    ///
    /// # Errors
    ///
    /// `Configuration` from a store without leases of their own.
    pub async fn circles(&self) -> Result<Vec<Circle>> {
        let leases = permit::leases(self, "look for circles")?;
        retry(self.retry(), || leases.circles()).await
    }

    /// Reads one page of the audit, oldest entry first.
    pub async fn audit(&self, query: &AuditQuery) -> Result<AuditPage> {
        let leases = permit::leases(self, "audit")?;
        let mut query = query.clone();
        let mut all = AuditPage::default();
        // A store may answer with a short page where it had to step over many entries.
        loop {
            let page = retry(self.retry(), || leases.audit(&query)).await?;
            let whole = query.limit.is_none() && !page.entries.is_empty();
            query.limit = query.limit.map(|limit| limit - page.entries.len());
            all.entries.extend(page.entries);
            all.next = page.next;
            if all.next.is_none() || whole || query.limit == Some(0) {
                return Ok(all);
            }
            query.after = all.next.clone();
        }
    }
}

/// Refuses a time to live that is too short to be renewed or too long to be waited for.
fn check_ttl(ttl: Duration) -> Result<()> {
    if (TTL_MIN..=TTL_MAX).contains(&ttl) {
        return Ok(());
    }
    let (asked, least, most) = (
        duration::show(ttl),
        duration::show(TTL_MIN),
        duration::show(TTL_MAX),
    );
    Err(Error::BadInput(format!(
        "bad time to live {asked}: a lease lasts from {least} to {most}"
    )))
}
