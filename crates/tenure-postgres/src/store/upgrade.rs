//! Upgradeable to write, and back.
//!
//! An upgrade is a step on the resource of the lease, and waits like a new lease (`wait`). Two
//! things differ: it is granted outright, without an offer, as its holder has the lease already;
//! and the row names the session that asked, so that a session that gives up undoes only its own
//! upgrade. If the answer is lost the upgrade is asked for again: if the lease is write by then,
//! for this session, this very call has upgraded it.

use tenure_core::decide::{Ask, Outcome};
use tenure_core::request::Awaited;
use tenure_core::{LeaseId, Mode, Owner, Resource, Result, Token, UpgradeRequest};

use super::acquire::{OnPendingCleanup, StepOutcome};
use super::inner::Inner;
use super::load::load_lease;
use super::look_timer::LookTimer;
use super::retry::Retry;
use super::step::Step;
use super::wait::QueuedRequest;

impl Inner {
    pub(super) async fn upgrade(&self, request: &UpgradeRequest) -> Result<Option<Token>> {
        let resource = self.resource_of(&request.lease).await?;
        let mut retry = Retry::of(request.wait, self.retry_policy());
        let awaited = Awaited::Upgrade(request.clone(), resource);
        let mut queued = QueuedRequest::new(self, awaited)?;
        let lease = queued.until_answered(&mut retry).await?;
        Ok(lease.map(|lease| lease.token))
    }

    pub(super) async fn downgrade(&self, lease: &LeaseId, actor: Option<&Owner>) -> Result<Mode> {
        let asked_before = std::sync::atomic::AtomicBool::new(false);
        self.retrying(|| async {
            let again = asked_before.swap(true, std::sync::atomic::Ordering::Relaxed);
            self.downgrade_once(lease, actor, again).await
        })
        .await
    }

    async fn downgrade_once(
        &self,
        lease: &LeaseId,
        actor: Option<&Owner>,
        asked_before: bool,
    ) -> Result<Mode> {
        let Some(mut step) = Step::of_lease(self, lease).await? else {
            return Err(self.gone(lease).await);
        };
        step.actor = actor.cloned();
        let downgrade = Ask::Downgrade(lease.clone());
        let decision = step.decide(&downgrade).await?;
        if let Outcome::Refused(refusal) = decision.outcome {
            let mode = step.loaded.lease(lease).map(|row| row.lease.mode);
            let context = self.context(step.resource()?, Mode::Upgradeable);
            let error = refusal.of_mode(lease, context);
            step.roll_back().await?;
            return match mode {
                Some(Mode::Upgradeable) if asked_before => Ok(Mode::Upgradeable),
                _ => Err(error),
            };
        }
        step.write(&decision.changes, None)?;
        step.commit().await?;
        Ok(Mode::Upgradeable)
    }

    /// Upgrades, unless an earlier try of the request did something already. Returns `None` if the
    /// request would be turned away for a lease that this process is about to take back.
    pub(super) async fn upgrade_once(
        &self,
        awaited: &Awaited,
        asked_before: Option<&UpgradeRequest>,
        on_pending: OnPendingCleanup,
    ) -> Result<Option<StepOutcome>> {
        let lease = awaited.lease();
        let Some(step) = Step::of_lease(self, lease).await? else {
            return Err(self.gone(lease).await);
        };
        if let Some(found) = asked_before.and_then(|request| found(&step, request)) {
            step.roll_back().await?;
            return Ok(Some(found));
        }
        step.answer(awaited, on_pending).await
    }

    /// Returns the resource of a lease.
    pub(super) async fn resource_of(&self, lease: &LeaseId) -> Result<Resource> {
        let find = || async {
            let sql = self.lend().await?;
            load_lease(&sql, lease).await
        };
        match self.retrying(find).await? {
            Some((row, _)) => Ok(row.lease.resource),
            None => Err(self.gone(lease).await),
        }
    }
}

/// Returns the outcome of an earlier try whose answer was lost, if it did anything.
fn found(step: &Step<'_>, request: &UpgradeRequest) -> Option<StepOutcome> {
    let (lease, session) = (&request.lease, &request.asker.session);
    let held = step.loaded.lease(lease)?;
    if held.lease.mode == Mode::Write
        && held.holder.upgraded
        && held.upgraded_by.as_ref() == Some(session)
    {
        return Some(StepOutcome::Granted(Box::new(held.lease.clone())));
    }
    let waiter = step.loaded.waiter(lease)?;
    (waiter.session == *session).then(|| StepOutcome::Queued(LookTimer::of(step, lease)))
}
