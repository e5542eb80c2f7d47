//! Claims on leases: an active job keeps its lease from being recovered.
//!
//! A claim counts only while the session that made it may be alive: a job claims for as long as its
//! own worker lives. A recovery proves that at the moment it is made.

use std::sync::Arc;

use rusqlite::params;
use tenure_core::leases::check_claimant;
use tenure_core::{Asker, Error, LeaseId, Result};

use super::inner::Inner;
use super::load::load_lease;
use super::row::{parsed, text};
use super::sessions::Sessions;
use crate::connection::{Durability, Rows, Sql};
use crate::session_file::Proof;

/// The largest number of claims on one lease.
const CLAIMS_MAX: usize = 100;

/// Returns an active claimant of a lease, if it has one.
pub(super) fn claimant(
    sql: &Sql<'_>,
    sessions: &Sessions,
    lease: &LeaseId,
) -> Result<Option<String>> {
    const SELECT: &str = "SELECT claimant, session FROM lease_claims WHERE lock_id = ?1 LIMIT 100";
    let claims = sql.query(
        SELECT,
        params![lease.as_str()],
        Rows::AtMost(CLAIMS_MAX),
        |row| Ok((text(row, 0)?, parsed(row, 1)?)),
    )?;
    for (claimant, session) in claims {
        if sessions.prove(sql, &session)? != Proof::Dead {
            return Ok(Some(claimant));
        }
    }
    Ok(None)
}

/// Ends all claims of a lease that is over.
pub(super) fn forget(sql: &Sql<'_>, lease: &LeaseId) -> Result<()> {
    const DELETE: &str = "DELETE FROM lease_claims WHERE lock_id = ?1";
    sql.execute(DELETE, params![lease.as_str()]).map(drop)
}

impl Inner {
    pub(super) async fn claim(
        &self,
        lease: &LeaseId,
        claimant: &str,
        asker: &Arc<Asker>,
    ) -> Result<()> {
        const INSERT: &str = "INSERT INTO lease_claims (lock_id, claimant, session, made_at) \
            VALUES (?1, ?2, ?3, ?4) \
            ON CONFLICT (lock_id, claimant) DO UPDATE SET session = ?3, made_at = ?4";
        check_claimant(claimant)?;
        self.sessions.file(&asker.session)?;
        self.write(Durability::PowerLoss, |step| {
            let row = load_lease(step.sql, lease, &step.moment)?;
            row.ok_or_else(|| Error::not_held(lease))?;
            step.record(asker)?;
            let made_at = step.moment.wall.to_string();
            let row = params![lease.as_str(), claimant, asker.session.as_str(), made_at];
            step.sql.execute(INSERT, row).map(drop)
        })
        .await
    }

    pub(super) async fn unclaim(&self, lease: &LeaseId, claimant: &str) -> Result<()> {
        const DELETE: &str = "DELETE FROM lease_claims WHERE lock_id = ?1 AND claimant = ?2";
        self.write(Durability::Crash, |step| {
            let row = params![lease.as_str(), claimant];
            step.sql.execute(DELETE, row).map(drop)
        })
        .await
    }
}
