//! Leases of their own, without `async`.

use std::time::Duration;

use tenure_core::audit::{AuditPage, AuditQuery};
use tenure_core::leases::{Finding, Recovery};
use tenure_core::{Lease, LeaseId, LockSet, Owner, Resource, Result, Token};

use super::{Keeper, Session};
use crate::{LeaseTerms, Options};

impl Keeper {
    /// Takes a set of locks that stay when this process ends; see [`crate::Keeper::lock`].
    pub fn lock(
        &self,
        session: &Session,
        set: &LockSet,
        terms: &LeaseTerms,
        options: &Options,
    ) -> Result<Vec<Lease>> {
        let (keeper, session) = (self.keeper.clone(), session.session.clone());
        let (set, terms, options) = (set.clone(), terms.clone(), options.clone());
        let lock = async move { keeper.lock(&session, &set, &terms, &options).await };
        self.thread.run(lock)?
    }

    /// Looks a lease up; see [`crate::Keeper::find`].
    pub fn find(&self, lease: &LeaseId) -> Result<Lease> {
        let (keeper, lease) = (self.keeper.clone(), lease.clone());
        self.thread.run(async move { keeper.find(&lease).await })?
    }

    /// Gives a lease new time; see [`crate::Keeper::renew`].
    pub fn renew(
        &self,
        lease: &LeaseId,
        ttl: Option<Duration>,
        by: Option<&Owner>,
    ) -> Result<Lease> {
        let (keeper, lease, by) = (self.keeper.clone(), lease.clone(), by.cloned());
        let renew = async move { keeper.renew(&lease, ttl, by.as_ref()).await };
        self.thread.run(renew)?
    }

    /// Ends a lease; see [`crate::Keeper::release`].
    pub fn release(&self, lease: &LeaseId, by: Option<&Owner>) -> Result<Lease> {
        let (keeper, lease, by) = (self.keeper.clone(), lease.clone(), by.cloned());
        let release = async move { keeper.release(&lease, by.as_ref()).await };
        self.thread.run(release)?
    }

    /// Makes an upgradeable lease exclusive; see [`crate::Keeper::upgrade`].
    pub fn upgrade(
        &self,
        session: &Session,
        lease: &LeaseId,
        wait: Option<Duration>,
        by: Option<&Owner>,
    ) -> Result<Lease> {
        let (keeper, session) = (self.keeper.clone(), session.session.clone());
        let (lease, by) = (lease.clone(), by.cloned());
        let upgrade = async move { keeper.upgrade(&session, &lease, wait, by.as_ref()).await };
        self.thread.run(upgrade)?
    }

    /// Makes an upgraded lease upgradeable again; see [`crate::Keeper::downgrade`].
    pub fn downgrade(&self, lease: &LeaseId, by: Option<&Owner>) -> Result<Lease> {
        let (keeper, lease, by) = (self.keeper.clone(), lease.clone(), by.cloned());
        let downgrade = async move { keeper.downgrade(&lease, by.as_ref()).await };
        self.thread.run(downgrade)?
    }

    /// Fails if a token is not good; see [`crate::Keeper::check`].
    pub fn check(&self, resource: &Resource, token: Token) -> Result<()> {
        let (keeper, resource) = (self.keeper.clone(), resource.clone());
        let check = async move { keeper.check(&resource, token).await };
        self.thread.run(check)?
    }

    /// Takes away what is stale; see [`crate::Keeper::recover`].
    pub fn recover(&self, actor: &Owner, recovery: Recovery) -> Result<Vec<Finding>> {
        let (keeper, actor) = (self.keeper.clone(), actor.clone());
        let recover = async move { keeper.recover(&actor, recovery).await };
        self.thread.run(recover)?
    }

    /// Begins to take a lease away from its holder; see [`crate::Keeper::break_lease`].
    pub fn break_lease(&self, lease: &LeaseId, actor: &Owner, reason: &str) -> Result<Lease> {
        let keeper = self.keeper.clone();
        let (lease, actor, reason) = (lease.clone(), actor.clone(), reason.to_owned());
        let broken = async move { keeper.break_lease(&lease, &actor, &reason).await };
        self.thread.run(broken)?
    }

    /// Reads the record of what was done; see [`crate::Keeper::audit`].
    pub fn audit(&self, query: &AuditQuery) -> Result<AuditPage> {
        let (keeper, query) = (self.keeper.clone(), query.clone());
        self.thread.run(async move { keeper.audit(&query).await })?
    }
}
