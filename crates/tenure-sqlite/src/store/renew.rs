//! Proof that a lease is still held, and a new expiry for a lease-bound one.

use std::time::Duration;

use rusqlite::params;
use tenure_core::decide::{Ask, HolderState, Outcome};
use tenure_core::{Error, Lease, LeaseId, Result};

use super::inner::Inner;
use super::load::{Loaded, load_lease};
use super::moment::Moment;
use super::row::LeaseRow;
use super::step::Step;
use crate::connection::Durability;

impl Inner {
    /// Checks that a lease is held. This is nearly always a read; sometimes it writes a heartbeat.
    pub(super) async fn renew(&self, lease: &LeaseId) -> Result<Option<Duration>> {
        if self.is_cut_off() {
            return Err(self.over_with_database(lease));
        }
        let moment = Moment::now()?;
        let row = self.row_of(lease).await?;
        if let HolderState::Revoking { .. } = row.holder.state {
            return Err(self.broken(&row));
        }
        if moment.wall.since(row.lease.heartbeat_at) >= self.heartbeat() {
            self.beat(&row).await;
        }
        Ok(None)
    }

    /// Returns the error for a lease that a person broke, with that person and the reason.
    pub(super) fn broken(&self, row: &LeaseRow) -> Error {
        Error::lost(
            self.context(&row.lease.resource, row.lease.mode),
            row.note.clone().unwrap_or_else(|| "broken".into()),
        )
    }

    /// Writes a heartbeat. It decides nothing for a session-bound lease, so a failure to write it
    /// is ignored.
    async fn beat(&self, row: &LeaseRow) {
        const UPDATE: &str = "UPDATE dal_locks SET heartbeat_ts = ?2 \
            WHERE lock_id = ?1 AND expires_boot IS NULL";
        let beat = self.write(Durability::Crash, |step| {
            let row = params![row.lease.lease.as_str(), step.moment.wall.to_string()];
            step.sql.execute(UPDATE, row).map(drop)
        });
        drop(beat.await);
    }

    /// Gives a lease-bound lease a new expiry.
    pub(super) async fn extend(&self, lease: &LeaseId, ttl: Option<Duration>) -> Result<Lease> {
        let renewed = self.write(Durability::PowerLoss, |step| {
            extend_in_step(step, lease, ttl)
        });
        match renewed.await? {
            Some(lease) => Ok(lease),
            None => Err(self.gone(lease).await),
        }
    }
}

/// Gives a lease-bound lease a new expiry: `ttl` from now, or its last time to live if that is
/// `None`. Returns `None` if the lease is over.
pub(super) fn extend_in_step(
    step: &mut Step<'_>,
    lease: &LeaseId,
    ttl: Option<Duration>,
) -> Result<Option<Lease>> {
    let Some(row) = load_lease(step.sql, lease, &step.moment)? else {
        return Ok(None);
    };
    let ttl = ttl.or(row.ttl).unwrap_or_default();
    let renew = Ask::renew(lease, ttl, step.store.grace(ttl));
    // The lease's own row decides alone.
    let alone = Loaded::alone(&row);
    let decision = step.decide_alone(&alone, &renew);
    if let Outcome::Refused(refusal) = decision.outcome {
        return Err(row.not_renewed(refusal));
    }
    let resource = &row.lease.resource;
    step.write(resource, &alone, &decision.changes, None)?;
    let renewed = load_lease(step.sql, lease, &step.moment)?;
    Ok(renewed.map(|row| row.lease))
}
