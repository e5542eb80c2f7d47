//! The end of a lease, and of a wait.
//!
//! # The steps of a release
//!
//! 1. The plain cases, one statement and one round trip (`tenure.release` in the schema). Where the row of the resource
//!    says that this lease holds it alone and nobody waits, it ends. Where nobody else holds it and the first in
//!    line waits to write, it ends, and that one has it on offer.
//! 2. Else a step: the next in line are granted what they wait for, and told, in the same transaction.
//!
//! A connection that is lost meanwhile leaves the outcome unknown, so it is asked again; a lease that is then gone counts as
//! released if the record says that it was, and as over if it ended otherwise. That holds also where it is the caller who asks
//! again, after an error (`owed`). A future that is dropped goes on
//! to the end (`owed`). A crash before the commit leaves the lease, which runs out.

use std::sync::Arc;
use std::time::Instant;

use tenure_core::audit::Action;
use tenure_core::decide::{Ask, OFFER_MS, Outcome};
use tenure_core::request::Newcomer;
use tenure_core::{Error, LeaseId, Result, SessionId};

use super::inner::Inner;
use super::load::Line;
use super::owed::{Debt, carry};
use super::patience::Patience;
use super::row::column;
use super::sql::{Asked, values};
use super::step::Step;
use super::wait::Place;

impl Inner {
    pub(super) async fn end(&self, lease: &LeaseId) -> Result<()> {
        let work = end_surely(self.arc()?, lease.clone(), Patience::briefly());
        carry(self, work, |_| std::future::ready(())).await
    }

    /// Ends a lease from a drop: as soon as that is possible, and for as long as it may be there.
    pub(super) fn let_go(&self, lease: &LeaseId) {
        let (Ok(store), lease) = (self.arc(), lease.clone()) else {
            return;
        };
        self.debts.let_go(&lease);
        self.leave_behind(async move {
            let ends = Instant::now() + store.ttl();
            let mut ended =
                end_surely(Arc::clone(&store), lease.clone(), Patience::briefly()).await;
            while ended.is_err_and(|error| error.is_passing()) && Instant::now() < ends {
                let patience = Patience::briefly();
                ended = end_surely(Arc::clone(&store), lease.clone(), patience).await;
            }
            store.debts.went(&lease);
        });
    }

    /// Itself, for work that may go on after a drop.
    pub(super) fn arc(&self) -> Result<Arc<Inner>> {
        let itself = self.itself.upgrade();
        itself.ok_or_else(|| Error::Internal("the store is closed".into()))
    }

    /// Ends a lease. Whether there was one.
    async fn end_once(&self, lease: &LeaseId) -> Result<bool> {
        if self.end_plainly(lease).await? {
            return Ok(true);
        }
        let Some(mut step) = Step::of_lease(self, lease).await? else {
            return Ok(false);
        };
        let release = Ask::Release {
            lease: lease.clone(),
        };
        let decision = step.decide(&release).await?;
        step.write(&decision.changes, Newcomer::None)?;
        if step.hands_over() {
            step.flush_later();
        }
        step.commit().await?;
        Ok(decision.outcome == Outcome::Done)
    }

    /// The plain cases: nobody waits, or the first in line is the only one to be granted anything. Whether it was one.
    async fn end_plainly(&self, lease: &LeaseId) -> Result<bool> {
        const RELEASE: &str = "SELECT tenure.release($1, $2) IS NOT NULL";
        let values = values![lease.as_str(), OFFER_MS.cast_signed()];
        let row = self.lend().await?.row(&Asked::new(RELEASE, values)).await?;
        row.map_or(Ok(false), |row| column(&row, 0))
    }

    /// Whether the record says that a lease ended by its release.
    async fn was_released(&self, lease: &LeaseId) -> Result<bool> {
        const ENDED: &str =
            "SELECT 1 FROM tenure.audit WHERE lock_id = $1 AND ends AND action = $2";
        let asked = Asked::new(ENDED, values![lease.as_str(), Action::Release.as_str()]);
        Ok(self.lend().await?.row(&asked).await?.is_some())
    }
}

/// Ends a lease, asking again where the outcome is unknown.
async fn end_surely(store: Arc<Inner>, lease: LeaseId, mut patience: Patience) -> Result<()> {
    let mut asked_before = store.debts.is_unanswered(&lease);
    loop {
        let ended = match store.end_once(&lease).await {
            Ok(false) if asked_before => store.was_released(&lease).await,
            ended => ended,
        };
        let error = match ended {
            Ok(ended) => {
                store.debts.answered(&lease);
                return match ended {
                    true => Ok(()),
                    false => Err(store.gone(&lease).await),
                };
            }
            Err(error) => error,
        };
        store.debts.unanswered(&lease);
        asked_before = true;
        patience.pause(error).await?;
    }
}

/// Takes back what a request got that nobody wants any more, if that is still owed.
///
/// A step moves the line on before it decides: whoever is about to leave it may be granted in that very step, and
/// is then no waiter any more. What it got is taken back by the next step.
pub(super) async fn give_up(store: &Inner, place: &Place, debt: &Debt) -> Result<()> {
    while !give_up_once(store, place, debt).await? {}
    Ok(())
}

/// Whether there is nothing more to take back.
async fn give_up_once(store: &Inner, place: &Place, debt: &Debt) -> Result<bool> {
    let id = place.lease();
    let Some(mut step) = Step::on(store, place.resource(), Line::FrontAnd(id)).await? else {
        return Ok(true);
    };
    let asked = match place {
        Place::Lease(_) => lease_taken_back(&step, id),
        Place::Upgrade(request, _) => upgrade_taken_back(&step, id, &request.asker.session),
    };
    let Some(ask) = asked.filter(|_| store.debts.is_owed(debt)) else {
        step.roll_back().await?;
        return Ok(true);
    };
    let decision = step.decide(&ask).await?;
    step.write(&decision.changes, Newcomer::None)?;
    step.commit().await?;
    Ok(decision.outcome == Outcome::Done)
}

/// Leaves the line, or ends what was granted instead.
fn lease_taken_back(step: &Step<'_>, id: &LeaseId) -> Option<Ask> {
    let lease = id.clone();
    if step.loaded.waiter(id).is_some() {
        return Some(Ask::Withdraw { lease });
    }
    let held = step.loaded.lease(id);
    held.map(|_| Ask::Release { lease })
}

/// Leaves the line, or undoes an upgrade that was granted instead. What another session waits for or was granted is none
/// of this one's: it may have asked after this waiter, stopped for too long, had lost its place.
fn upgrade_taken_back(step: &Step<'_>, id: &LeaseId, session: &SessionId) -> Option<Ask> {
    let lease = id.clone();
    if let Some(waiter) = step.loaded.waiter(id) {
        return (waiter.session == *session).then_some(Ask::Withdraw { lease });
    }
    let held = step.loaded.lease(id)?;
    let ours = held.upgraded_by.as_ref() == Some(session);
    ours.then_some(Ask::Downgrade { lease })
}
