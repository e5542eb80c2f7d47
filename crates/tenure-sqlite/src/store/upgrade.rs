//! Upgradeable to write, and back.

use tenure_core::decide::{Ask, Outcome, Wait};
use tenure_core::loaded::LineExtent;
use tenure_core::request::NewRequest;
use tenure_core::{Error, LeaseId, Mode, Resource, Result, SessionId, Token, UpgradeRequest};

use super::inner::Inner;
use super::load::{DeadSessions, in_the_way, load_lease};
use super::moment::Moment;
use super::step::Step;
use super::wait::{Awaited, QueuedRequest, Waited};

enum UpgradeOutcome {
    Granted(Token),
    Queued,
    Busy,
    Unproved(Vec<SessionId>),
}

impl Inner {
    pub(super) async fn upgrade(&self, request: &UpgradeRequest) -> Result<Option<Token>> {
        self.settle_upgrade(&request.lease).await?;
        let resource = self.resource_of(&request.lease).await?;
        let mut proved = None;
        let mut queued: Option<QueuedRequest<'_>> = None;
        loop {
            let outcome =
                self.write(|step| upgrade_in_step(step, request, &resource, proved.as_ref()));
            let outcome = outcome.await;
            if let Some(queued) = queued
                .as_ref()
                .filter(|_| !matches!(outcome, Ok(UpgradeOutcome::Queued)))
            {
                // No upgrade waits, and a refused one leaves the lease as it was.
                queued.disarm();
            }
            match (outcome?, &queued) {
                (UpgradeOutcome::Granted(token), _) => return Ok(Some(token)),
                (UpgradeOutcome::Busy, _) | (UpgradeOutcome::Queued, None) => return Ok(None),
                (UpgradeOutcome::Unproved(sessions), _) => {
                    proved = Some(self.read(|sql| self.sessions.dead(sql, &sessions)).await?);
                    if let Wait::Until(until) = request.wait {
                        let awaited = Awaited::Upgrade(request, &resource);
                        queued = Some(QueuedRequest::new(self, awaited, until)?);
                    }
                }
                (UpgradeOutcome::Queued, Some(queued)) => match queued.wait_for_grant().await? {
                    Waited::Granted(lease) => {
                        queued.disarm();
                        return Ok(Some(lease.token));
                    }
                    Waited::Late => {
                        queued.disarm();
                        return Ok(None);
                    }
                    Waited::PlaceLost => proved = None,
                },
            }
        }
    }

    pub(super) async fn downgrade(&self, lease: &LeaseId) -> Result<Mode> {
        let resource = self.resource_of(lease).await?;
        self.write(|step| {
            let downgrade = Ask::Downgrade(lease.clone());
            let (loaded, decision) = step.decide(
                &resource,
                LineExtent::Front,
                &downgrade,
                &DeadSessions::new(),
            )?;
            if let Outcome::Refused(refusal) = decision.outcome {
                return Err(
                    refusal.of_mode(lease, step.store.context(&resource, Mode::Upgradeable))
                );
            }
            step.write(&resource, &loaded, &decision.changes, NewRequest::None)?;
            Ok(Mode::Upgradeable)
        })
        .await
    }

    /// Returns the resource of a lease.
    pub(super) async fn resource_of(&self, lease: &LeaseId) -> Result<Resource> {
        let row = self
            .read(|sql| load_lease(sql, lease, &Moment::now()?))
            .await?;
        match row {
            Some(row) => Ok(row.lease.resource),
            None => Err(self.gone(lease).await),
        }
    }
}

/// Upgrades in a step. `proved` has the dead among the sessions in the way, once they were proved.
fn upgrade_in_step(
    step: &mut Step<'_>,
    request: &UpgradeRequest,
    resource: &Resource,
    proved: Option<&DeadSessions>,
) -> Result<UpgradeOutcome> {
    let lease = &request.lease;
    let ask = Ask::Upgrade {
        lease: lease.clone(),
        wait: request.wait,
    };
    let nobody = DeadSessions::new();
    let dead = proved.unwrap_or(&nobody);
    let (loaded, decision) = step.decide(resource, LineExtent::Front, &ask, dead)?;
    let must_wait = matches!(decision.outcome, Outcome::Busy | Outcome::Queued);
    if must_wait && proved.is_none() {
        return Ok(UpgradeOutcome::Unproved(in_the_way(&loaded)));
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
            Ok(UpgradeOutcome::Granted(row.lease.token))
        }
        Outcome::Queued => Ok(UpgradeOutcome::Queued),
        Outcome::Busy => Ok(UpgradeOutcome::Busy),
        other => Err(Error::Internal(format!("upgrade ended with {other:?}"))),
    }
}
