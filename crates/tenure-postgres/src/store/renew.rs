//! Proof that a lease is still held, and new time for it.
//!
//! A holder asks every two seconds. Mostly that is a read. When a third of the time to live, or the
//! interval that is set, has passed since the last heartbeat, it is a step that gives new time. The
//! step needs only the row of the lease, as a renewal concerns no other.
//!
//! The answer says how long the lease lasts from the moment the holder asked. The clock of the
//! database is read after that moment, so the holder never trusts its lease for longer than others
//! respect it. A renewal whose answer is lost has given time that the holder does not know of,
//! which does no harm.
//!
//! A guard trusts the time it was told, so a renewal by another caller may give its lease more
//! time, but never less. A lease without a guard gets the time that is asked for.

use std::time::Duration;

use tenure_core::decide::{Ask, Bound, HolderState, Outcome};
use tenure_core::leases::grace;
use tenure_core::{Error, Lease, LeaseId, Result};

use super::inner::Inner;
use super::load::load_lease;
use super::moment::Moment;
use super::row::{LeaseRow, has_guard};
use super::step::Step;

impl Inner {
    /// Proves that a lease is held. Returns how long it lasts from now.
    pub(super) async fn renew(&self, lease: &LeaseId) -> Result<Option<Duration>> {
        self.retrying(|| self.renew_if_due(lease)).await.map(Some)
    }

    async fn renew_if_due(&self, lease: &LeaseId) -> Result<Duration> {
        let found = {
            let sql = self.lend_urgently().await?;
            load_lease(&sql, lease).await?
        };
        let Some((row, moment)) = found else {
            return Err(self.gone(lease).await);
        };
        if let HolderState::Revoking { .. } = row.holder.state {
            return Err(self.broken(row));
        }
        if moment.wall().since(row.lease.heartbeat_at) < self.heartbeat(row.ttl()) {
            return Ok(left(&row, &moment));
        }
        let (row, moment) = self.renew_once(lease, None).await?;
        Ok(left(&row, &moment))
    }

    /// Returns the error for a lease that a person breaks, with the person and the reason.
    pub(super) fn broken(&self, row: LeaseRow) -> Error {
        Error::lost(
            self.context(&row.lease.resource, row.lease.mode),
            row.note.unwrap_or_else(|| "broken".into()),
        )
    }

    /// Gives a lease new time: `ttl`, or its last time to live if that is `None`.
    pub(super) async fn extend(&self, lease: &LeaseId, ttl: Option<Duration>) -> Result<Lease> {
        let (row, _) = self.retrying(|| self.renew_once(lease, ttl)).await?;
        Ok(row.lease)
    }

    async fn renew_once(
        &self,
        lease: &LeaseId,
        ttl: Option<Duration>,
    ) -> Result<(LeaseRow, Moment)> {
        let (mut step, _) = Step::of_leases(self, std::slice::from_ref(lease), None).await?;
        let Some(row) = step.loaded.lease(lease).cloned() else {
            step.roll_back().await?;
            return Err(self.gone(lease).await);
        };
        let ttl = match ttl {
            Some(ttl) if !has_guard(&row) => ttl,
            ttl => row.ttl().max(ttl.unwrap_or_default()),
        };
        let grace = if has_guard(&row) {
            grace(ttl, None)
        } else {
            self.grace(ttl)
        };
        let renew = Ask::renew(lease, ttl, grace);
        let decision = step.decide_alone(&row, &renew);
        if let Outcome::Refused(refusal) = decision.outcome {
            step.roll_back().await?;
            return Err(row.not_renewed(refusal));
        }
        step.write(&decision.changes, None)?;
        let renewed = step.loaded.lease(lease).cloned().unwrap_or(row);
        let moment = step.moment;
        step.commit().await?;
        Ok((renewed, moment))
    }
}

/// Returns how long a lease lasts from a moment on.
fn left(row: &LeaseRow, moment: &Moment) -> Duration {
    match row.holder.binding {
        Bound::Session => Duration::ZERO,
        Bound::Lease { expires, .. } => {
            Duration::from_micros(expires.saturating_mul(1000).saturating_sub(moment.micros))
        }
    }
}
