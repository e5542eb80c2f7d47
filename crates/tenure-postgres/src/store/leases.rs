//! The store as a [`LeaseStore`]: its leases can outlive the process that took them.

use std::sync::Arc;
use std::time::Duration;

use tenure_core::audit::{AuditPage, AuditQuery};
use tenure_core::leases::{Findings, KeyState, Keyed, Recovery};
use tenure_core::loaded::LineExtent;
use tenure_core::{Asker, Lease, LeaseId, LeaseStore, Owner, Reply, Result, SessionId};

use super::PostgresStore;
use super::inner::Inner;
use super::load::load_lease;
use super::row::{LeaseRow, has_guard, leases, read_leases};
use super::sql::{Statement, values};

impl Inner {
    async fn find(&self, lease: &LeaseId) -> Result<Option<Lease>> {
        let found = self.retrying(|| self.find_once(lease)).await?;
        let Some((row, over)) = found else {
            return Ok(None);
        };
        if over {
            // If this fails the next step on the resource ends the lease.
            drop(
                self.move_on(&row.lease.resource, LineExtent::Front, None)
                    .await,
            );
            return Ok(None);
        }
        Ok(Some(row.lease))
    }

    /// Reads a lease. Also returns true if it is over and only waits to be removed.
    async fn find_once(&self, lease: &LeaseId) -> Result<Option<(LeaseRow, bool)>> {
        let sql = self.lend().await?;
        let found = load_lease(&sql, lease).await?;
        Ok(found.map(|(row, moment)| {
            let over = row.has_run_out(moment.now());
            (row, over)
        }))
    }

    async fn has_guard(&self, lease: &LeaseId) -> Result<bool> {
        let found = self.retrying(|| self.find_once(lease)).await?;
        Ok(found.is_some_and(|(row, _)| has_guard(&row)))
    }

    async fn of_session(&self, session: &SessionId) -> Result<Vec<Lease>> {
        const SELECT: &str =
            leases!("l.session = $1 AND l.lease_expires IS NOT NULL ORDER BY l.resource");
        let look = || async {
            let statement = Statement::new(SELECT, values![session.as_str()]);
            read_leases(&self.lend().await?.rows(&statement).await?)
        };
        let rows = self.retrying(look).await?;
        Ok(rows.into_iter().map(|row| row.lease).collect())
    }
}

impl LeaseStore for PostgresStore {
    fn find<'a>(&'a self, lease: &'a LeaseId) -> Reply<'a, Option<Lease>> {
        Box::pin(self.inner.find(lease))
    }

    fn has_guard<'a>(&'a self, lease: &'a LeaseId) -> Reply<'a, bool> {
        Box::pin(self.inner.has_guard(lease))
    }

    fn ended<'a>(&'a self, lease: &'a LeaseId) -> Reply<'a, Option<String>> {
        Box::pin(self.inner.ended(lease))
    }

    fn of_session<'a>(&'a self, session: &'a SessionId) -> Reply<'a, Vec<Lease>> {
        Box::pin(self.inner.of_session(session))
    }

    fn bind<'a>(
        &'a self,
        leases: &'a [LeaseId],
        ttl: Duration,
        keyed: Option<&'a Keyed>,
    ) -> Reply<'a, Vec<Lease>> {
        Box::pin(self.inner.bind(leases, ttl, keyed))
    }

    fn begin_key<'a>(&'a self, keyed: &'a Keyed) -> Reply<'a, KeyState> {
        Box::pin(self.inner.begin_key(keyed))
    }

    fn forget_key<'a>(&'a self, keyed: &'a Keyed) -> Reply<'a, ()> {
        Box::pin(self.inner.forget_key(keyed, None))
    }

    fn extend<'a>(&'a self, lease: &'a LeaseId, ttl: Option<Duration>) -> Reply<'a, Lease> {
        Box::pin(self.inner.extend(lease, ttl))
    }

    fn recover<'a>(
        &'a self,
        actor: &'a Owner,
        recovery: Recovery,
        after: Option<&'a str>,
    ) -> Reply<'a, Findings> {
        Box::pin(self.inner.recover(actor, recovery, after))
    }

    fn break_lease<'a>(
        &'a self,
        lease: &'a LeaseId,
        actor: &'a Owner,
        reason: &'a str,
    ) -> Reply<'a, Lease> {
        Box::pin(self.inner.break_lease(lease, actor, reason))
    }

    fn audit<'a>(&'a self, query: &'a AuditQuery) -> Reply<'a, AuditPage> {
        Box::pin(self.inner.audit(query))
    }

    fn claim<'a>(
        &'a self,
        lease: &'a LeaseId,
        claimant: &'a str,
        asker: &'a Arc<Asker>,
    ) -> Reply<'a, ()> {
        Box::pin(self.inner.claim(lease, claimant, asker))
    }

    fn unclaim<'a>(&'a self, lease: &'a LeaseId, claimant: &'a str) -> Reply<'a, ()> {
        Box::pin(self.inner.unclaim(lease, claimant))
    }
}
