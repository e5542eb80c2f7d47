//! The release of a lease, and the end of a wait.

use rusqlite::params;
use tenure_core::decide::{Ask, End, Outcome};
use tenure_core::internal::loaded::LineExtent;
use tenure_core::request::Awaited;
use tenure_core::{LeaseId, Owner, Resource, Result};

use super::cleanup::Cleanup;
use super::inner::Inner;
use super::load::{DeadSessions, load_lease};
use super::row::{LeaseRow, number};
use super::step::Step;
use crate::connection::Durability;

impl Inner {
    pub(super) async fn release(&self, lease: &LeaseId, actor: Option<&Owner>) -> Result<()> {
        // A lease that is released by its id has time of its own.
        let floor = actor.map_or(Durability::Crash, |_| Durability::PowerLoss);
        let ended = self.write(floor, |step| {
            step.actor = actor.cloned();
            release_in_step(step, lease)
        });
        let ended = match ended.await {
            // The lease was held in a database that is gone, so it is over.
            Err(_) if self.sessions.keeping(lease).is_some() && self.is_cut_off() => {
                self.sessions.no_longer_holds(lease);
                return Err(self.over_with_database(lease));
            }
            ended => ended?,
        };
        self.sessions.no_longer_holds(lease);
        if ended {
            return Ok(());
        }
        Err(self.gone(lease).await)
    }

    /// Releases a lease from a drop. If that fails now, a clean-up is added; the end of the session
    /// ends the lease in any case.
    ///
    /// The session no longer counts the lease as held, whether its row is gone or not. If the
    /// database was replaced, a session that counts a lease as held keeps every process out of the
    /// new database, itself included.
    pub(super) fn abandon(&self, lease: &LeaseId) {
        if self.is_forked() {
            return;
        }
        let ended = self.write_briefly(|step| release_in_step(step, lease));
        self.sessions.no_longer_holds(lease);
        if ended.is_err() {
            self.add_cleanup(Cleanup::Lease(lease.clone()));
        }
    }

    /// Leaves the line from a drop, and gives back what was granted in that instant. If that
    /// fails, the grant is an offer that passes on by itself.
    pub(super) fn withdraw(&self, awaited: &Awaited) {
        let left = self.write_briefly(|step| abandon_in_step(step, awaited));
        if left.is_err() {
            self.add_cleanup(Cleanup::Awaited(awaited.clone()));
        }
    }
}

/// Releases a lease in a step. Returns true if there was one.
pub(super) fn release_in_step(step: &mut Step<'_>, lease: &LeaseId) -> Result<bool> {
    match load_lease(step.sql, lease, &step.moment)? {
        Some(row) => release_row(step, &row),
        None => Ok(false),
    }
}

fn release_row(step: &mut Step<'_>, row: &LeaseRow) -> Result<bool> {
    const AWAITED: &str = "SELECT EXISTS (SELECT 1 FROM waiters WHERE resource = ?1)";
    let (resource, lease) = (&row.lease.resource, &row.lease.lease);
    let awaited = step
        .sql
        .one(AWAITED, params![resource.as_str()], |row| number(row, 0))?;
    // The empty case: no request waits, so there is nothing to grant.
    if awaited == Some(false) {
        step.remove_lease(row, End::Released)?;
        return Ok(true);
    }
    is_done(
        step,
        resource,
        LineExtent::Front,
        &Ask::Release(lease.clone()),
    )
}

/// Leaves the line in a step, or gives back what was granted instead: a new lease, or an upgrade.
/// Returns true if there was either. An upgrade of another session is left alone: that session may
/// have asked after this waiter was stopped for too long and lost its place.
pub(super) fn abandon_in_step(step: &mut Step<'_>, awaited: &Awaited) -> Result<bool> {
    let (lease, resource) = (awaited.lease(), awaited.resource());
    let Awaited::Upgrade(request, _) = awaited else {
        return Ok(withdraw_in_step(step, lease, resource)? || release_in_step(step, lease)?);
    };
    let session = &request.asker.session;
    let loaded = step.load(resource, LineExtent::FrontAnd(lease))?;
    if let Some(waiter) = loaded.waiter(lease) {
        return Ok(waiter.session == *session && withdraw_in_step(step, lease, resource)?);
    }
    let held = loaded.lease(lease);
    if held.is_none_or(|held| held.upgraded_by.as_ref() != Some(session)) {
        return Ok(false);
    }
    is_done(
        step,
        resource,
        LineExtent::Front,
        &Ask::Downgrade(lease.clone()),
    )
}

/// Leaves the line in a step. Returns true if the request was in line.
fn withdraw_in_step(step: &mut Step<'_>, lease: &LeaseId, resource: &Resource) -> Result<bool> {
    let withdraw = Ask::Withdraw(lease.clone());
    is_done(step, resource, LineExtent::FrontAnd(lease), &withdraw)
}

/// Carries a request out. Returns true if it had its effect.
fn is_done(
    step: &mut Step<'_>,
    resource: &Resource,
    line: LineExtent<'_>,
    ask: &Ask,
) -> Result<bool> {
    let decision = step.decide_and_write(resource, line, ask, &DeadSessions::new())?;
    Ok(decision.outcome == Outcome::Done)
}
