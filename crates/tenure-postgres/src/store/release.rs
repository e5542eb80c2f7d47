//! The end of a lease, and of a wait.
//!
//! # The steps of a release
//!
//! 1. The plain cases are one statement and one round trip (`tenure.release` in the schema). If the
//!    row of the resource says that this lease holds it alone and no request waits, the lease ends.
//!    If no other lease holds it and the first in line waits to write, the lease ends, and that
//!    waiter gets an offer.
//! 2. Else a step: the next in line are granted what they wait for, and notified, in the same
//!    transaction.
//!
//! A connection that is lost meanwhile leaves the outcome unknown, so the release is made again. A
//! lease that is gone by then counts as released if the record says so, and as over if it ended
//! otherwise, also if the caller asks again after an error (`cleanup`). A future that is dropped
//! runs on to its end (`cleanup`). A crash before the commit leaves the lease, which expires.

use std::sync::Arc;
use std::time::Duration;

use tenure_core::audit::Action;
use tenure_core::decide::{Ask, Millis, OFFER_MS, Outcome, Wait};
use tenure_core::internal::loaded::LineExtent;
use tenure_core::request::Awaited;
use tenure_core::{Error, LeaseId, Owner, Result, SessionId};
use tenure_os::clock::boot_now;

use super::cleanup::{CleanupTicket, run_to_end};
use super::inner::Inner;
use super::retry::Retry;
use super::row::{column, millis};
use super::sql::{Flush, values};
use super::step::Step;

/// The longest time until a lease that expired can be recovered: its last heartbeat is a moment
/// older than this process knows.
const RECOVERABLE_WITHIN: Duration = Duration::from_secs(1);

impl Inner {
    pub(super) async fn release(&self, lease: &LeaseId, actor: Option<&Owner>) -> Result<()> {
        let work = release_until_answered(
            self.arc()?,
            lease.clone(),
            actor.cloned(),
            Retry::of(Wait::No, self.retry_policy()),
        );
        run_to_end(self, work, |_| std::future::ready(())).await
    }

    /// Releases a lease in the background. Tries for as long as the lease may last.
    pub(super) fn abandon(&self, lease: &LeaseId) {
        let (Ok(store), lease) = (self.arc(), lease.clone()) else {
            return;
        };
        self.pending_cleanup.abandon(&lease);
        self.run_in_background(async move {
            // The lease is over by then, and the next request recovers it.
            let ends = boot_now().saturating_add(millis(store.ttl + RECOVERABLE_WITHIN));
            let retry = Retry::in_background(Some(ends));
            drop(release_until_answered(Arc::clone(&store), lease.clone(), None, retry).await);
            store.pending_cleanup.forget_abandoned(&lease);
        });
    }

    /// Returns a reference that work can keep after a drop.
    pub(super) fn arc(&self) -> Result<Arc<Inner>> {
        let itself = self.itself.upgrade();
        itself.ok_or_else(|| Error::Internal("the store is closed".into()))
    }

    /// Ends a lease. Returns true if there was one.
    async fn release_once(&self, lease: &LeaseId, actor: Option<&Owner>) -> Result<bool> {
        if self.release_uncontended(lease, actor).await? {
            return Ok(true);
        }
        let Some(mut step) = Step::of_lease(self, lease).await? else {
            return Ok(false);
        };
        step.actor = actor.cloned();
        let release = Ask::Release(lease.clone());
        let decision = step.decide(&release).await?;
        step.write(&decision.changes, None)?;
        if step.hands_over() {
            step.flush = Flush::Later;
        }
        step.commit().await?;
        Ok(decision.outcome == Outcome::Done)
    }

    /// Releases a lease without waiters, or with a first waiter that is the only one to be granted
    /// anything. Returns false in any other case, and then changes nothing.
    async fn release_uncontended(&self, lease: &LeaseId, actor: Option<&Owner>) -> Result<bool> {
        const RELEASE: &str = "SELECT tenure.release($1, $2, $3) IS NOT NULL";
        let asks = actor.map(ToString::to_string);
        let values = values![lease.as_str(), OFFER_MS.cast_signed(), asks];
        let row = self.row(RELEASE, values).await?;
        row.map_or(Ok(false), |row| column(&row, 0))
    }

    /// Returns true if the record says that a lease ended by its release.
    async fn was_released(&self, lease: &LeaseId) -> Result<bool> {
        const ENDED: &str =
            "SELECT 1 FROM tenure.audit WHERE lock_id = $1 AND ends AND action = $2";
        let values = values![lease.as_str(), Action::Release.as_str()];
        Ok(self.row(ENDED, values).await?.is_some())
    }
}

/// Ends a lease, and asks again if the outcome is unknown.
async fn release_until_answered(
    store: Arc<Inner>,
    lease: LeaseId,
    actor: Option<Owner>,
    mut retry: Retry,
) -> Result<()> {
    let mut asked_before = store.pending_cleanup.is_unanswered(&lease);
    loop {
        let ended = match store.release_once(&lease, actor.as_ref()).await {
            Ok(false) if asked_before => store.was_released(&lease).await,
            ended => ended,
        };
        let error = match ended {
            Ok(ended) => {
                store.pending_cleanup.answered(&lease);
                return if ended {
                    Ok(())
                } else {
                    Err(store.gone(&lease).await)
                };
            }
            Err(error) => error,
        };
        store.pending_cleanup.unanswered(&lease);
        asked_before = true;
        retry.pause(error).await?;
    }
}

/// Takes back the grant or the place of an abandoned request, if that clean-up is still pending.
///
/// A step moves the line on before it decides: a waiter that is about to leave may be granted in
/// that very step, and is then no longer a waiter. The next step takes back its grant.
pub(super) async fn clean_up_request(
    store: &Inner,
    awaited: &Awaited,
    ticket: &CleanupTicket,
) -> Result<()> {
    while !clean_up_once(store, awaited, ticket).await? {}
    Ok(())
}

/// Returns true if there is nothing more to take back.
async fn clean_up_once(store: &Inner, awaited: &Awaited, ticket: &CleanupTicket) -> Result<bool> {
    let id = awaited.lease();
    let extent = LineExtent::FrontAnd(id);
    let step = Step::on(store, Millis::MAX, awaited.resource(), extent).await?;
    let Some(mut step) = step else {
        return Ok(true);
    };
    let asked = match awaited {
        Awaited::Lease(_) => lease_taken_back(&step, id),
        Awaited::Upgrade(request, _) => upgrade_taken_back(&step, id, &request.asker.session),
    };
    let Some(ask) = asked.filter(|_| store.pending_cleanup.is_pending(ticket)) else {
        step.roll_back().await?;
        return Ok(true);
    };
    let decision = step.decide(&ask).await?;
    step.write(&decision.changes, None)?;
    step.commit().await?;
    Ok(decision.outcome == Outcome::Done)
}

/// Returns the request that leaves the line, or ends the lease that was granted.
fn lease_taken_back(step: &Step<'_>, id: &LeaseId) -> Option<Ask> {
    let lease = id.clone();
    if step.loaded.waiter(id).is_some() {
        return Some(Ask::Withdraw(lease));
    }
    let held = step.loaded.lease(id);
    held.map(|_| Ask::Release(lease))
}

/// Returns the request that leaves the line, or undoes an upgrade that was granted. It leaves alone
/// what another session waits for or was granted: that session may have asked after this waiter was
/// stopped for too long and lost its place.
fn upgrade_taken_back(step: &Step<'_>, id: &LeaseId, session: &SessionId) -> Option<Ask> {
    let lease = id.clone();
    if let Some(waiter) = step.loaded.waiter(id) {
        return (waiter.session == *session).then_some(Ask::Withdraw(lease));
    }
    let held = step.loaded.lease(id)?;
    let ours = held.upgraded_by.as_ref() == Some(session);
    ours.then_some(Ask::Downgrade(lease))
}
