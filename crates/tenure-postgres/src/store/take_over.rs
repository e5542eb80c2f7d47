//! A lease is taken out of the hands of a guard.
//!
//! One step on its resource gives the lease time of its own, another id and the session of the
//! asker, and its row names no process any more (`bind`). Its guard still names the old id, and
//! finds that over. The token stays, as the owner of the resource stays.
//!
//! A crash before the commit leaves the lease as it was. If the answer is lost the step is made
//! again, and finds the lease under its new id.

use std::time::Duration;

use tenure_core::audit::{Action, TAKEN_OVER};
use tenure_core::decide::{Ask, HolderState, Outcome};
use tenure_core::{Asker, Lease, LeaseId, Result};

use super::inner::Inner;
use super::load::load_lease;
use super::row::has_guard;
use super::sql::{Statement, values};
use super::step::Step;

impl Inner {
    pub(super) async fn take_over(
        &self,
        lease: &LeaseId,
        new: &LeaseId,
        ttl: Duration,
        asker: &Asker,
    ) -> Result<Option<Lease>> {
        self.retrying(|| self.take_over_once(lease, new, ttl, asker))
            .await
    }

    async fn take_over_once(
        &self,
        lease: &LeaseId,
        new: &LeaseId,
        ttl: Duration,
        asker: &Asker,
    ) -> Result<Option<Lease>> {
        const UPDATE: &str = "UPDATE tenure.dal_locks SET lock_id = $2, session = $3, process = '', pid = $4, \
            host = $5, command = $6 WHERE lock_id = $1";
        let Some(mut step) = Step::of_lease(self, lease).await? else {
            let sql = self.lend().await?;
            return Ok(load_lease(&sql, new).await?.map(|(row, _)| row.lease));
        };
        let row = step.loaded.lease(lease).cloned();
        let in_hand =
            |row: &super::row::LeaseRow| has_guard(row) && row.holder.state == HolderState::Held;
        let Some(row) = row.filter(in_hand) else {
            step.roll_back().await?;
            return Ok(None);
        };
        let bind = Ask::bind(lease, ttl, self.grace(ttl));
        let decision = step.decide_alone(&row, &bind);
        if decision.outcome != Outcome::Done {
            step.roll_back().await?;
            return Ok(None);
        }
        step.write(&decision.changes, None)?;
        step.add(Statement::new(
            UPDATE,
            values![
                lease.to_string(),
                new.to_string(),
                asker.session.to_string(),
                i64::from(asker.pid),
                asker.host.clone(),
                asker.command.clone(),
            ],
        ));
        let mut taken = step
            .loaded
            .lease(lease)
            .map_or(row.lease.clone(), |row| row.lease.clone());
        taken.lease = new.clone();
        taken.session = asker.session.clone();
        (taken.pid, taken.host, taken.command) =
            (asker.pid, asker.host.clone(), asker.command.clone());
        step.rename(lease, new);
        step.actor = Some(asker.actor().clone());
        step.audit(Action::Release, &row.lease, Some(TAKEN_OVER), true);
        step.audit(Action::Acquire, &taken, Some(TAKEN_OVER), false);
        step.commit().await?;
        Ok(Some(taken))
    }
}
