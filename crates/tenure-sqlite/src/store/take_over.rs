//! A lease is taken out of the hands of the session that it is bound to.
//!
//! One step: the lease gets time of its own, another id and the session of the asker. Every later
//! call of its guard names the old id, and finds it over. The token stays, as the resource changes
//! no hands.

use std::time::Duration;

use rusqlite::params;
use tenure_core::audit::{Action, TAKEN_OVER};
use tenure_core::{Asker, Lease, LeaseId, LeaseState, Result};

use super::bind::bind_one;
use super::inner::Inner;
use super::load::load_lease;
use super::step::Step;
use crate::connection::Durability;

impl Inner {
    pub(super) async fn take_over(
        &self,
        lease: &LeaseId,
        new: &LeaseId,
        ttl: Duration,
        asker: &Asker,
    ) -> Result<Option<Lease>> {
        self.write(Durability::PowerLoss, |step| {
            take_over_in_step(step, lease, new, ttl, asker)
        })
        .await
    }
}

fn take_over_in_step(
    step: &mut Step<'_>,
    lease: &LeaseId,
    new: &LeaseId,
    ttl: Duration,
    asker: &Asker,
) -> Result<Option<Lease>> {
    const UPDATE: &str = "UPDATE dal_locks SET lock_id = ?2, session = ?3, pid = ?4, host = ?5, \
        command = ?6 WHERE lock_id = ?1";
    let row = load_lease(step.sql, lease, &step.moment)?;
    let in_hand = row.filter(|row| row.ends_with_session() && row.lease.state == LeaseState::Held);
    let Some(row) = in_hand else { return Ok(None) };
    bind_one(step, lease, ttl)?;
    let values = params![
        lease.as_str(),
        new.as_str(),
        asker.session.as_str(),
        asker.pid,
        asker.host,
        asker.command,
    ];
    step.sql.execute(UPDATE, values)?;
    step.actor = Some(asker.actor().clone());
    step.audit(Action::Release, &row.lease, Some(TAKEN_OVER), true)?;
    let taken = load_lease(step.sql, new, &step.moment)?.map(|row| row.lease);
    if let Some(taken) = &taken {
        step.audit(Action::Acquire, taken, Some(TAKEN_OVER), false)?;
    }
    Ok(taken)
}
