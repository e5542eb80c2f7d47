//! Upgradeable to write, and back.

use tenure_core::decide::{Ask, Outcome};
use tenure_core::loaded::LineExtent;
use tenure_core::request::{Awaited, NewRequest};
use tenure_core::{Error, LeaseId, Mode, Owner, Resource, Result, Token, UpgradeRequest};

use super::acquire::StepOutcome;
use super::inner::Inner;
use super::load::{DeadSessions, in_the_way, load_lease};
use super::moment::Moment;
use super::row::{LeaseRow, durability_of};
use super::step::Step;

impl Inner {
    pub(super) async fn upgrade(&self, request: &UpgradeRequest) -> Result<Option<Token>> {
        self.clean_up_upgrade(&request.lease).await?;
        let row = self.row_of(&request.lease).await?;
        let floor = durability_of(&row);
        let awaited = Awaited::Upgrade(request.clone(), row.lease.resource);
        let upgraded = self.until_answered(&awaited, floor).await?;
        Ok(upgraded.map(|lease| lease.token))
    }

    pub(super) async fn downgrade(&self, lease: &LeaseId) -> Result<Mode> {
        self.downgrade_as(lease, None).await
    }

    pub(super) async fn downgrade_by(&self, lease: &LeaseId, actor: &Owner) -> Result<Mode> {
        self.downgrade_as(lease, Some(actor)).await
    }

    async fn downgrade_as(&self, lease: &LeaseId, actor: Option<&Owner>) -> Result<Mode> {
        let row = self.row_of(lease).await?;
        let resource = &row.lease.resource;
        self.write(durability_of(&row), |step| {
            step.actor = actor.cloned();
            let downgrade = Ask::Downgrade(lease.clone());
            let nobody = DeadSessions::new();
            let decision =
                step.decide_and_write(resource, LineExtent::Front, &downgrade, &nobody)?;
            match decision.outcome {
                Outcome::Refused(refusal) => {
                    Err(refusal.of_mode(lease, self.context(resource, Mode::Upgradeable)))
                }
                _ => Ok(Mode::Upgradeable),
            }
        })
        .await
    }

    /// Returns a lease as it is, or the error that it is gone.
    pub(super) async fn row_of(&self, lease: &LeaseId) -> Result<LeaseRow> {
        let row = self.read(|sql| load_lease(sql, lease, &Moment::now()?));
        match row.await? {
            Some(row) => Ok(row),
            None => Err(self.gone(lease).await),
        }
    }
}

/// Upgrades in a step. `proved` has the dead among the sessions in the way, once they were proved.
pub(super) fn upgrade_in_step(
    step: &mut Step<'_>,
    request: &UpgradeRequest,
    resource: &Resource,
    proved: Option<&DeadSessions>,
) -> Result<StepOutcome> {
    let lease = &request.lease;
    step.actor = Some(request.asker.actor().clone());
    let ask = Ask::Upgrade {
        lease: lease.clone(),
        wait: request.wait,
    };
    let nobody = DeadSessions::new();
    let dead = proved.unwrap_or(&nobody);
    let (loaded, decision) = step.decide(resource, LineExtent::Front, &ask, dead)?;
    let must_wait = matches!(decision.outcome, Outcome::Busy | Outcome::Queued);
    if must_wait && proved.is_none() {
        return Ok(StepOutcome::Unproved(in_the_way(&loaded)));
    }
    if let Outcome::Refused(refusal) = decision.outcome {
        return Err(refusal.of_mode(lease, step.store.context(resource, Mode::Write)));
    }
    let new_request = NewRequest::Upgrade(request);
    step.write(resource, &loaded, &decision.changes, new_request)?;
    match decision.outcome {
        Outcome::Granted => {
            let row = load_lease(step.sql, lease, &step.moment)?;
            let row = row.ok_or_else(|| Error::not_held(lease))?;
            Ok(StepOutcome::Granted(Box::new(row.lease)))
        }
        Outcome::Queued => Ok(StepOutcome::Queued),
        Outcome::Busy => Ok(StepOutcome::Busy),
        other => Err(Error::Internal(format!("upgrade ended with {other:?}"))),
    }
}
