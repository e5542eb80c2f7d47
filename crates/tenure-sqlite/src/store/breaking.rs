//! Breaking: a person takes a lease away.
//!
//! The lease becomes revoking: no other request is granted until its holder confirms its stop by
//! releasing it, or ten seconds have passed. A live holder learns of it when it next renews its
//! lease, within about a second.

use rusqlite::params;
use tenure_core::audit::Action;
use tenure_core::decide::{Ask, Outcome};
use tenure_core::loaded::LineExtent;
use tenure_core::{Lease, LeaseId, Owner, Result};

use super::inner::Inner;
use super::load::load_lease;
use super::step::Step;

impl Inner {
    pub(super) async fn break_lease(
        &self,
        lease: &LeaseId,
        actor: &Owner,
        reason: &str,
    ) -> Result<Lease> {
        let resource = self.resource_of(lease).await?;
        let found = self.read(|sql| {
            let moment = super::moment::Moment::now()?;
            let row = load_lease(sql, lease, &moment)?;
            let session = row.map(|row| row.lease.session);
            self.sessions.dead(sql, session.as_ref())
        });
        let dead = found.await?;
        let broken = self.write(|step| {
            step.after.durable = true;
            step.actor = Some(actor.clone());
            let ask = Ask::Break(lease.clone());
            let decision = step.decide_and_write(&resource, LineExtent::Front, &ask, &dead)?;
            if decision.outcome != Outcome::Done {
                return Ok(None);
            }
            note(step, lease, actor, reason)
        });
        match broken.await? {
            Some(lease) => Ok(lease),
            None => Err(self.gone(lease).await),
        }
    }
}

/// Writes who broke it and why: into the audit, and for the holder to read.
fn note(
    step: &mut Step<'_>,
    lease: &LeaseId,
    actor: &Owner,
    reason: &str,
) -> Result<Option<Lease>> {
    const UPDATE: &str = "UPDATE dal_locks SET note = coalesce(note, ?2) WHERE lock_id = ?1";
    let Some(row) = load_lease(step.sql, lease, &step.moment)? else {
        return Ok(None);
    };
    let note = format!("broken by {actor}: {reason}");
    step.sql.execute(UPDATE, params![lease.as_str(), note])?;
    step.audit(Action::Break, &row.lease, Some(reason), false)?;
    Ok(Some(row.lease))
}
