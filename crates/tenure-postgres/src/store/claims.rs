//! Claims: an active job keeps its lease from being recovered.
//!
//! A claim counts only while the process that made it is seen (`listener`): a job claims for as
//! long as its own worker lives. A recovery checks that at its own moment; if a resource is loaded
//! for a decision, the loading statement checks it (`load`).
//!
//! # The steps of a claim
//!
//! 1. The row of the process is fresh (`presence`). A crash here leaves only that row, for a few
//!    seconds.
//! 2. The row of the resource is locked, so that no process recovers the lease meanwhile, and the
//!    lease is looked for.
//! 3. The claim is written and committed. From here on the lease is safe.
//!
//! A claim ends with the lease (`change`), by [`Inner::unclaim`], with its session, or when its
//! process is no longer seen.

use std::sync::Arc;

use tenure_core::leases::check_claimant;
use tenure_core::{Asker, Error, LeaseId, Result, SessionId};

use super::inner::Inner;
use super::row::text;
use super::sql::{Flush, Sql, Statement, values};

/// Returns one active claimant of each of these leases that has any. Relies on no isolation: the
/// answer is for people.
pub(super) async fn claimants(sql: &Sql, leases: &[&str]) -> Result<Vec<(String, String)>> {
    const SELECT: &str = "SELECT DISTINCT ON (c.lock_id) c.lock_id, c.claimant \
        FROM tenure.lease_claims AS c JOIN tenure.processes AS p USING (process) \
        WHERE c.lock_id = ANY ($1) \
        AND p.seen_at > pg_catalog.clock_timestamp() - interval '15 seconds' \
        ORDER BY c.lock_id, c.claimant";
    let rows = sql.rows(&Statement::new(SELECT, values![leases])).await?;
    let read = |row| Ok((text(row, 0)?, text(row, 1)?));
    rows.iter().map(read).collect()
}

impl Inner {
    pub(super) async fn claim(
        &self,
        lease: &LeaseId,
        claimant: &str,
        asker: &Arc<Asker>,
    ) -> Result<()> {
        check_claimant(claimant)?;
        self.presences.keep(&self.listener, &asker.session).await?;
        let claimed = self.retrying(|| self.claim_once(lease, claimant, &asker.session));
        if claimed.await? {
            Ok(())
        } else {
            Err(Error::not_held(lease))
        }
    }

    /// Returns true if the lease is there.
    async fn claim_once(
        &self,
        lease: &LeaseId,
        claimant: &str,
        session: &SessionId,
    ) -> Result<bool> {
        // The lock keeps the lease: no process ends one without that lock. The second statement has
        // a snapshot of its own, taken after the first has the lock.
        const LOCK: &str = "SELECT 1 FROM tenure.resources WHERE resource = \
            (SELECT resource FROM tenure.dal_locks WHERE lock_id = $1) FOR UPDATE";
        const FIND: &str = "SELECT 1 FROM tenure.dal_locks WHERE lock_id = $1";
        const INSERT: &str = "INSERT INTO tenure.lease_claims \
            (lock_id, claimant, session, process, made_at) \
            VALUES ($1, $2, $3, $4, pg_catalog.clock_timestamp()) \
            ON CONFLICT (lock_id, claimant) DO UPDATE SET session = excluded.session, \
            process = excluded.process, made_at = excluded.made_at";
        let find = [
            Statement::new(LOCK, values![lease.as_str()]),
            Statement::new(FIND, values![lease.as_str()]),
        ];
        let (transaction, found) = self.lend().await?.begin(&find).await?;
        if found.last().is_none_or(Vec::is_empty) {
            transaction.roll_back().await?;
            return Ok(false);
        }
        let row = values![lease.as_str(), claimant, session.as_str(), &self.process];
        let insert = [Statement::new(INSERT, row)];
        transaction.commit(&insert, Flush::Now).await?;
        Ok(true)
    }

    pub(super) async fn unclaim(&self, lease: &LeaseId, claimant: &str) -> Result<()> {
        const DELETE: &str = "DELETE FROM tenure.lease_claims WHERE lock_id = $1 AND claimant = $2";
        let statement = Statement::new(DELETE, values![lease.as_str(), claimant]);
        self.rows(&statement).await.map(drop)
    }

    /// Ends the presence and the claims of a session of this process. The session has nothing else
    /// in the store.
    pub(super) fn end_session(&self, session: &SessionId) {
        const DELETE: &str = "DELETE FROM tenure.lease_claims WHERE session = $1";
        if !self.presences.end(session) {
            return;
        }
        let (Some(store), session) = (self.itself.upgrade(), session.clone()) else {
            return;
        };
        // After a failure the claims end when the process is no longer seen.
        self.run_in_background(async move {
            let statement = Statement::new(DELETE, values![session.as_str()]);
            drop(store.rows(&statement).await);
        });
    }
}
