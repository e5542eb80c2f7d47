//! Proof that a lease is still held, and new time for it.
//!
//! A holder asks every two seconds. Mostly that is a read; when a third of the time to live has passed since the last
//! heartbeat, it is a step that gives new time. It needs its own row only: nobody else has a say in it.
//!
//! The answer is how long the lease lasts from the moment it was asked. The clock of the database is read after that
//! moment, and what was left then is the answer: the holder never trusts itself for longer than others have to.
//! A renewal whose answer is lost has given time that the holder does not know of, and no harm is done.
//!
//! A guard trusts what it was told. So whoever else renews its lease may give it more time, and never less; a lease of its
//! own gets what is asked for.

use std::time::Duration;

use tenure_core::decide::{Ask, Bound, Outcome, Refusal, Standing};
use tenure_core::leases::grace;
use tenure_core::request::Newcomer;
use tenure_core::{Error, Lease, LeaseId, Result};

use super::inner::Inner;
use super::load::load_lease;
use super::moment::Moment;
use super::row::{LeaseRow, millis};
use super::step::Step;

impl Inner {
    /// Makes sure that a lease is held, and for how long from now.
    pub(super) async fn show(&self, lease: &LeaseId) -> Result<Option<Duration>> {
        self.retrying(|| self.show_once(lease)).await.map(Some)
    }

    async fn show_once(&self, lease: &LeaseId) -> Result<Duration> {
        let found = {
            let sql = self.lend_urgently().await?;
            load_lease(&sql, lease).await?
        };
        let Some((row, moment)) = found else {
            return Err(self.gone(lease).await);
        };
        if let Standing::Revoking { .. } = row.holder.standing {
            return Err(Error::Lost {
                place: self.place(&row.lease.resource, row.lease.mode),
                reason: row.note.unwrap_or_else(|| "broken".into()),
            });
        }
        if moment.wall().since(row.lease.heartbeat_at) < row.ttl / 3 {
            return Ok(left(&row, &moment));
        }
        let (row, moment) = self.renew_once(lease, None).await?;
        Ok(left(&row, &moment))
    }

    /// Gives a lease new time, its last time to live if None.
    pub(super) async fn give_time(&self, lease: &LeaseId, ttl: Option<Duration>) -> Result<Lease> {
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
            Some(ttl) if !row.has_guard() => ttl,
            ttl => row.ttl.max(ttl.unwrap_or_default()),
        };
        let renew = Ask::Renew {
            lease: lease.clone(),
            ttl: millis(ttl),
            grace: millis(grace(ttl)),
        };
        let decision = step.decide_alone(&row, &renew);
        if let Outcome::Refused(refusal) = decision.outcome {
            step.roll_back().await?;
            return Err(refused(lease, &row, refusal));
        }
        step.write(&decision.changes, Newcomer::None)?;
        let renewed = step.loaded.lease(lease).cloned().unwrap_or(row);
        let moment = step.moment;
        step.commit().await?;
        Ok((renewed, moment))
    }
}

/// How long a lease lasts, from a moment on.
fn left(row: &LeaseRow, moment: &Moment) -> Duration {
    match row.holder.binding {
        Bound::Session => Duration::ZERO,
        Bound::Lease { expires, .. } => {
            Duration::from_micros(expires.saturating_mul(1000).saturating_sub(moment.micros()))
        }
    }
}

fn refused(lease: &LeaseId, row: &LeaseRow, refusal: Refusal) -> Error {
    let over = |reason: String| Error::LeaseOver {
        lease: lease.clone(),
        reason,
    };
    match refusal {
        Refusal::Revoked => over(row.note.clone().unwrap_or_else(|| "broken".into())),
        Refusal::NotLeaseBound => over("it is on offer, and was not taken up".into()),
        _ => over("it is not held".into()),
    }
}
