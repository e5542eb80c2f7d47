//! The end of a lease, and of a wait.

use rusqlite::params;
use tenure_core::decide::{Ask, End, Outcome};
use tenure_core::request::Newcomer;
use tenure_core::{LeaseId, Resource, Result, SessionId};

use super::inner::Inner;
use super::load::{Dead, Line, load_lease};
use super::owed::Owed;
use super::row::{LeaseRow, number};
use super::step::Step;

impl Inner {
    pub(super) async fn end(&self, lease: &LeaseId) -> Result<()> {
        let ended = self.write(|step| end_once(step, lease));
        let ended = match ended.await {
            // What was held here in a database that is no more is over.
            Err(_) if self.sessions.keeping(lease).is_some() && self.is_cut_off() => {
                self.sessions.no_longer_holds(lease);
                return Err(self.over_with_database(lease));
            }
            ended => ended?,
        };
        self.sessions.no_longer_holds(lease);
        match ended {
            true => Ok(()),
            false => Err(self.gone(lease).await),
        }
    }

    /// Ends a lease from a drop. What cannot be done now is owed; the end of the session ends
    /// the lease in any case.
    ///
    /// Nobody relies on it from here on, whether its row is gone or not. If the database was
    /// replaced this is what lets the session begin anew in the next one: as long as it
    /// counted as held there, it would keep everybody out, and itself.
    pub(super) fn let_go(&self, lease: &LeaseId) {
        if self.is_forked() {
            return;
        }
        let ended = self.write_briefly(|step| end_once(step, lease));
        self.sessions.no_longer_holds(lease);
        if ended.is_err() {
            self.owe(Owed::Lease(lease.clone()));
        }
    }

    /// Leaves the line from a drop, and gives back what was granted in that instant. If that
    /// fails, the grant is an offer that passes on by itself.
    pub(super) fn withdraw(&self, lease: &LeaseId, resource: &Resource) {
        let left = self.write_briefly(|step| give_up(step, lease, resource));
        if left.is_err() {
            self.owe(Owed::Place(lease.clone(), resource.clone()));
        }
    }

    /// Leaves the line from a drop; an upgrade granted to this waiter in that instant is undone.
    pub(super) fn withdraw_upgrade(
        &self,
        lease: &LeaseId,
        resource: &Resource,
        session: &SessionId,
    ) {
        let left = self.write_briefly(|step| give_up_upgrade(step, lease, resource, session));
        if left.is_err() {
            let (lease, resource) = (lease.clone(), resource.clone());
            self.owe(Owed::Upgrade(lease, resource, session.clone()));
        }
    }
}

/// Ends a lease in a step. Whether there was one.
pub(super) fn end_once(step: &mut Step<'_>, lease: &LeaseId) -> Result<bool> {
    match load_lease(step.sql, lease, &step.moment)? {
        Some(row) => end_row(step, &row),
        None => Ok(false),
    }
}

fn end_row(step: &mut Step<'_>, row: &LeaseRow) -> Result<bool> {
    const AWAITED: &str = "SELECT EXISTS (SELECT 1 FROM waiters WHERE resource = ?1)";
    let (resource, lease) = (&row.lease.resource, &row.lease.lease);
    let awaited = step
        .sql
        .one(AWAITED, params![resource.as_str()], |row| number(row, 0))?;
    // The empty case: nobody waits, so nobody is granted anything.
    if awaited == Some(false) {
        step.end(row, End::Released)?;
        return Ok(true);
    }
    let release = Ask::Release {
        lease: lease.clone(),
    };
    let (loaded, decision) = step.decide(resource, Line::Front, &release, &Dead::new())?;
    step.write(resource, &loaded, &decision.changes, Newcomer::None)?;
    Ok(decision.outcome == Outcome::Done)
}

/// Leaves the line in a step, and ends what was granted instead. Whether there was either.
pub(super) fn give_up(step: &mut Step<'_>, lease: &LeaseId, resource: &Resource) -> Result<bool> {
    Ok(leave(step, lease, resource)? || end_once(step, lease)?)
}

/// Leaves the line in a step, and undoes an upgrade that was granted instead. Whether there was
/// either. What another session waits for or was granted is none of this one's: it may have asked
/// after this waiter, stopped for too long, had lost its place.
pub(super) fn give_up_upgrade(
    step: &mut Step<'_>,
    lease: &LeaseId,
    resource: &Resource,
    session: &SessionId,
) -> Result<bool> {
    let loaded = step.load(resource, Line::FrontAnd(lease))?;
    if let Some(waiter) = loaded.waiter(lease) {
        return Ok(waiter.session == *session && leave(step, lease, resource)?);
    }
    let held = loaded.lease(lease);
    if held.is_none_or(|held| held.upgraded_by.as_ref() != Some(session)) {
        return Ok(false);
    }
    let downgrade = Ask::Downgrade {
        lease: lease.clone(),
    };
    let (loaded, decision) = step.decide(resource, Line::Front, &downgrade, &Dead::new())?;
    step.write(resource, &loaded, &decision.changes, Newcomer::None)?;
    Ok(decision.outcome == Outcome::Done)
}

/// Leaves the line in a step. Whether it was in line.
fn leave(step: &mut Step<'_>, lease: &LeaseId, resource: &Resource) -> Result<bool> {
    let withdraw = Ask::Withdraw {
        lease: lease.clone(),
    };
    let line = Line::FrontAnd(lease);
    let (loaded, decision) = step.decide(resource, line, &withdraw, &Dead::new())?;
    step.write(resource, &loaded, &decision.changes, Newcomer::None)?;
    Ok(decision.outcome == Outcome::Done)
}
