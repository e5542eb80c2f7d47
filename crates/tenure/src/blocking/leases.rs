//! Leases of their own, without `async`.

use std::time::Duration;

use tenure_core::audit::{AuditPage, AuditQuery};
use tenure_core::leases::{Finding, Recovery};
use tenure_core::{Lease, LeaseId, LockSet, Owner, Resource, Result, Token};

use super::{Keeper, Session};
use crate::Options;
use crate::leases::LeaseTerms;

impl Keeper {
    /// Takes a set of locks that stay when this process ends; see [`crate::Keeper::lock`].
    pub fn lock(
        &self,
        session: &Session,
        set: &LockSet,
        terms: &LeaseTerms,
        options: &Options,
    ) -> Result<Vec<Lease>> {
        let lock = self.keeper.lock(&session.session, set, terms, options);
        self.thread.run(lock)
    }

    /// Looks a lease up; see [`crate::Keeper::find`].
    pub fn find(&self, lease: &LeaseId) -> Result<Lease> {
        self.thread.run(self.keeper.find(lease))
    }

    /// Gives a lease new time; see [`crate::Keeper::renew`].
    pub fn renew(
        &self,
        lease: &LeaseId,
        ttl: Option<Duration>,
        by: Option<&Owner>,
    ) -> Result<Lease> {
        self.thread.run(self.keeper.renew(lease, ttl, by))
    }

    /// Ends a lease; see [`crate::Keeper::release`].
    pub fn release(&self, lease: &LeaseId, by: Option<&Owner>) -> Result<Lease> {
        self.thread.run(self.keeper.release(lease, by))
    }

    /// Makes an upgradeable lease exclusive; see [`crate::Keeper::upgrade`].
    pub fn upgrade(
        &self,
        session: &Session,
        lease: &LeaseId,
        wait: Option<Duration>,
        by: Option<&Owner>,
    ) -> Result<Lease> {
        let upgrade = self.keeper.upgrade(&session.session, lease, wait, by);
        self.thread.run(upgrade)
    }

    /// Makes an upgraded lease upgradeable again; see [`crate::Keeper::downgrade`].
    pub fn downgrade(&self, lease: &LeaseId, by: Option<&Owner>) -> Result<Lease> {
        self.thread.run(self.keeper.downgrade(lease, by))
    }

    /// Fails if a token is not good; see [`crate::Keeper::check`].
    pub fn check(&self, resource: &Resource, token: Token) -> Result<()> {
        self.thread.run(self.keeper.check(resource, token))
    }

    /// Recovers stale leases; see [`crate::Keeper::recover`].
    pub fn recover(&self, actor: &Owner, recovery: Recovery) -> Result<Vec<Finding>> {
        self.thread.run(self.keeper.recover(actor, recovery))
    }

    /// Begins to take a lease away from its holder; see [`crate::Keeper::break_lease`].
    pub fn break_lease(&self, lease: &LeaseId, actor: &Owner, reason: &str) -> Result<Lease> {
        self.thread
            .run(self.keeper.break_lease(lease, actor, reason))
    }

    /// Reads one page of the audit; see [`crate::Keeper::audit`].
    pub fn audit(&self, query: &AuditQuery) -> Result<AuditPage> {
        self.thread.run(self.keeper.audit(query))
    }
}
