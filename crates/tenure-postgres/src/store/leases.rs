//! Reads of leases that can outlive their session: one lease, and the leases of a session.

use tenure_core::internal::loaded::LineExtent;
use tenure_core::{Lease, LeaseId, Result, SessionId};

use super::inner::Inner;
use super::load::load_lease;
use super::row::{LeaseRow, has_guard, leases, read_leases};
use super::sql::{Statement, values};

impl Inner {
    pub(super) async fn find(&self, lease: &LeaseId) -> Result<Option<Lease>> {
        let found = self.retrying(|| self.find_once(lease)).await?;
        let Some((row, over)) = found else {
            return Ok(None);
        };
        if over {
            // If this fails the next step on the resource ends the lease.
            drop(
                self.grant_next(&row.lease.resource, LineExtent::Front, None)
                    .await,
            );
            return Ok(None);
        }
        Ok(Some(row.lease))
    }

    /// Reads a lease. The bool is true if the lease is over and only waits to be removed.
    async fn find_once(&self, lease: &LeaseId) -> Result<Option<(LeaseRow, bool)>> {
        let sql = self.lend().await?;
        let found = load_lease(&sql, lease).await?;
        Ok(found.map(|(row, moment)| {
            let over = row.has_run_out(moment.now());
            (row, over)
        }))
    }

    pub(super) async fn has_guard(&self, lease: &LeaseId) -> Result<bool> {
        let found = self.retrying(|| self.find_once(lease)).await?;
        Ok(found.is_some_and(|(row, _)| has_guard(&row)))
    }

    pub(super) async fn of_session(&self, session: &SessionId) -> Result<Vec<Lease>> {
        const SELECT: &str =
            leases!("l.session = $1 AND l.lease_expires IS NOT NULL ORDER BY l.resource");
        let statement = Statement::new(SELECT, values![session.as_str()]);
        let rows = read_leases(&self.rows(&statement).await?)?;
        Ok(rows.into_iter().map(|row| row.lease).collect())
    }
}
