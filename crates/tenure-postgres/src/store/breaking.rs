//! The break of a lease by a person.
//!
//! The lease becomes revoking: no other request is granted until its holder confirms its stop by
//! releasing it, or ten seconds have passed. A holder that is alive finds out when it next proves
//! its lease; a holder that waits for its upgrade is woken at once.
//!
//! A break is one step. A crash before its commit leaves the lease as it was. If the answer to the
//! commit is lost the step is made again, and finds its own note.

use std::sync::atomic::{AtomicBool, Ordering};

use tenure_core::audit::Action;
use tenure_core::decide::{Ask, Outcome};
use tenure_core::{Lease, LeaseId, Owner, Result};

use super::inner::Inner;
use super::sql::{Statement, values};
use super::step::Step;

impl Inner {
    pub(super) async fn break_lease(
        &self,
        lease: &LeaseId,
        actor: &Owner,
        reason: &str,
    ) -> Result<Lease> {
        let asked = AtomicBool::new(false);
        let revoke =
            || self.break_lease_once(lease, actor, reason, asked.swap(true, Ordering::Relaxed));
        match self.retrying(revoke).await? {
            Some(lease) => Ok(lease),
            None => Err(self.gone(lease).await),
        }
    }

    async fn break_lease_once(
        &self,
        lease: &LeaseId,
        actor: &Owner,
        reason: &str,
        asked_before: bool,
    ) -> Result<Option<Lease>> {
        // The holder is told of the first break.
        const NOTE: &str =
            "UPDATE tenure.dal_locks SET note = coalesce(note, $2) WHERE lock_id = $1";
        let Some(mut step) = Step::of_lease(self, lease).await? else {
            return Ok(None);
        };
        let note = format!("broken by {actor}: {reason}");
        let before = step.loaded.lease(lease).cloned();
        if let Some(before) = before.filter(|row| asked_before && row.note.as_ref() == Some(&note))
        {
            step.roll_back().await?;
            return Ok(Some(before.lease));
        }
        step.actor = Some(actor.clone());
        let ask = Ask::Break(lease.clone());
        let decision = step.decide(&ask).await?;
        step.write(&decision.changes, None)?;
        // Leases and offers that had run out are removed all the same.
        let row = step.loaded.lease(lease).cloned();
        let Some(row) = row.filter(|_| decision.outcome == Outcome::Done) else {
            step.commit().await?;
            return Ok(None);
        };
        step.add(Statement::new(NOTE, values![lease.to_string(), note]));
        step.audit(Action::Break, &row.lease, Some(reason), false);
        step.wake(&row.process, lease);
        step.commit().await?;
        Ok(Some(row.lease))
    }
}
