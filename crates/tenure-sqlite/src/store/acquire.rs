//! A new lease.
//!
//! # The steps
//!
//! 1. The session's file is made and locked.
//! 2. A step: where nobody holds the resource and nobody waits, the lease is granted without
//!    more ado. Else the whole of it is loaded and decided.
//! 3. If it would have to wait, those in the way are proved outside the transaction; if one is
//!    dead the step is made again with that knowledge.
//! 4. It is queued, and waits (`wait`).
//! 5. After the commit the database is looked at again: a grant in a file that is no longer
//!    at its path is worth nothing, and nobody hears of it (`inner`).

use rusqlite::params;
use tenure_core::decide::{Ask, Millis, Outcome, Refusal, Wait};
use tenure_core::request::Newcomer;
use tenure_core::{Error, Lease, Request, Result, SessionId, Token};

use super::inner::Inner;
use super::load::{Dead, Line};
use super::row::number;
use super::step::Step;
use super::wait::{InLine, Place};

/// What a step came to.
pub(super) enum Asked {
    Granted(Box<Lease>),
    Queued,
    Busy,
    /// It would have to wait, and nobody has looked yet whether these are alive.
    Unproved(Vec<SessionId>),
}

impl Inner {
    pub(super) async fn try_take(&self, request: &Request) -> Result<Option<Lease>> {
        match self.ask_for(request, Wait::No).await? {
            Asked::Granted(lease) => Ok(Some(*lease)),
            _ => Ok(None),
        }
    }

    pub(super) async fn take(&self, request: &Request) -> Result<Lease> {
        let until = request.until.unwrap_or(Millis::MAX);
        let line = InLine::new(self, Place::Lease(request), until)?;
        loop {
            match self.ask_for(request, Wait::Until(until)).await? {
                Asked::Granted(lease) => {
                    line.left();
                    return Ok(*lease);
                }
                Asked::Queued => {}
                Asked::Busy | Asked::Unproved(_) => {
                    return Err(self.late(&request.resource, request.mode));
                }
            }
            if let Some(lease) = line.called().await? {
                line.left();
                return Ok(lease);
            }
        }
    }

    async fn ask_for(&self, request: &Request, wait: Wait) -> Result<Asked> {
        self.debts.strike(&request.lease);
        // Before the step: nobody has to wait while it is made.
        self.sessions.file(&request.asker.session)?;
        let mut dead = Dead::new();
        let mut proved = false;
        loop {
            let asked = self
                .write(|step| ask_once(step, request, wait, &dead, proved))
                .await?;
            match asked {
                Asked::Unproved(sessions) => {
                    let found = self.read(|sql| self.sessions.dead(sql, &sessions)).await?;
                    dead.extend(found);
                    proved = true;
                }
                other => return Ok(other),
            }
        }
    }
}

fn ask_once(
    step: &mut Step<'_>,
    request: &Request,
    wait: Wait,
    dead: &Dead,
    proved: bool,
) -> Result<Asked> {
    const TAKEN: &str = "SELECT EXISTS (SELECT 1 FROM dal_locks WHERE resource = ?1) \
        OR EXISTS (SELECT 1 FROM waiters WHERE resource = ?1), \
        (SELECT token FROM resources WHERE resource = ?1)";
    let resource = &request.resource;
    let taken = step.sql.one(TAKEN, params![resource.as_str()], |row| {
        let current: Option<i64> = number(row, 1)?;
        Ok((number::<bool>(row, 0)?, current.unwrap_or_default()))
    })?;
    // The empty case: whatever the mode and the capacity, the first is granted.
    if let Some((false, current)) = taken {
        let current = Token::new(current.cast_unsigned()).unwrap_or(Token::NONE);
        return Ok(Asked::Granted(Box::new(step.grant(request, current)?)));
    }
    step.actor = Some(request.asker.owner.clone());
    let ask = Ask::Acquire {
        lease: request.lease.clone(),
        session: request.asker.session.clone(),
        mode: request.mode,
        capacity: request.capacity,
        wait,
    };
    let line = Line::FrontAnd(&request.lease);
    let (loaded, decision) = step.decide(resource, line, &ask, dead)?;
    let must_wait = matches!(decision.outcome, Outcome::Busy | Outcome::Queued);
    if must_wait && !proved {
        return Ok(Asked::Unproved(loaded.in_the_way()));
    }
    if let Outcome::Refused(refusal) = decision.outcome {
        let id = &request.lease;
        if loaded.waiter(id).is_some() || loaded.lease(id).is_some() {
            // Asked before, in a database that moved away and took its log along, or came back:
            // it has its place in line, or an offer, and only its session's file is another.
            step.record(&request.asker)?;
            return Ok(Asked::Queued);
        }
        return Err(refused(step.store, request, &loaded, refusal));
    }
    let newcomer = Newcomer::Lease(request);
    let granted = step.write(resource, &loaded, &decision.changes, newcomer)?;
    match (decision.outcome, granted) {
        (Outcome::Granted, Some(lease)) => Ok(Asked::Granted(Box::new(lease))),
        (Outcome::Queued, _) => Ok(Asked::Queued),
        (Outcome::Busy, _) => Ok(Asked::Busy),
        (other, _) => Err(Error::Internal(format!("acquire ended with {other:?}"))),
    }
}

fn refused(
    store: &Inner,
    request: &Request,
    loaded: &super::load::Loaded,
    refusal: Refusal,
) -> Error {
    let session = &request.asker.session;
    let held = loaded
        .leases
        .iter()
        .map(|row| (&row.lease.session, &row.lease.lease));
    let awaited = loaded.waiters.iter();
    let awaited = awaited.map(|row| (&row.waiter.session, &row.waiter.lease));
    match held.chain(awaited).find(|(of, _)| *of == session) {
        Some((_, lease)) => Error::Reentry {
            place: store.place(&request.resource, request.mode),
            lease: lease.clone(),
        },
        None => Error::Internal(format!("acquire was refused: {refusal:?}")),
    }
}
