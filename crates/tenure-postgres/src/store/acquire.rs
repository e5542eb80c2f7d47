//! A new lease.
//!
//! # The steps
//!
//! 1. The empty case, one statement and one round trip: where nobody holds the resource and nobody waits, which the row of
//!    the resource says (`alone`), the lease is granted. `ON CONFLICT DO UPDATE … WHERE` looks at the newest
//!    version of the row, after it has locked it, so of two that meet here one is granted and the other finds nothing.
//! 2. Else who has time to wait is heard for (`ear`), before it has a place: no wake-up is missed, and nobody
//!    takes it for dead.
//! 3. A step: all is loaded and decided. It is granted, or takes its place in line.
//! 4. It waits (`wait`).
//!
//! A connection that is lost during 1 or 3 leaves the outcome unknown. It is asked again, by the id of the lease: the
//! step finds the lease, or the waiter, and goes on with it. A future that is dropped takes back what it got (`owed`).
//! A crash leaves a lease that runs out, or a waiter that is passed over when its process is not seen any more.
//!
//! The clock of the empty case is read after the row was locked, like everywhere: in the expressions of the update, and in
//! the select that reads from it.

use std::sync::Arc;

use tenure_core::decide::{Ask, Millis, Outcome, Refusal, Wait};
use tenure_core::request::Newcomer;
use tenure_core::{Error, Lease, Request, Result};

use super::change::begin;
use super::inner::Inner;
use super::load::{Line, Loaded};
use super::moment::Moment;
use super::patience::{Patience, time_left};
use super::rest::Rest;
use super::row::{column, millis, token};
use super::sql::{Asked, values};
use super::step::Step;
use super::wait::{InLine, Place, Seen, accept};

/// What a step came to.
pub(super) enum Got {
    Granted(Box<Lease>),
    Queued(Rest),
    Busy,
    /// What was granted before has passed on: it is to be asked for again.
    Again,
}

/// What is told to whoever meets something that this process is about to take back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meeting {
    /// That it is to wait for that, and to ask again.
    Wait,
    /// What is.
    Tell,
}

impl Inner {
    pub(super) async fn try_take(&self, request: &Request) -> Result<Option<Lease>> {
        let mut patience = Patience::briefly();
        let request = Arc::new(request.clone());
        let mut line = InLine::new(self, Place::Lease(Arc::clone(&request)))?;
        loop {
            let request = Arc::clone(&request);
            let asked = line.ask(|store, _| async move {
                match store.take_empty(&request).await? {
                    Some(lease) => Ok(Got::Granted(Box::new(lease))),
                    None => store.ask_for(&request, Wait::No).await,
                }
            });
            match asked.await {
                Ok(Got::Granted(lease)) => {
                    line.left();
                    return Ok(Some(*lease));
                }
                Ok(Got::Busy | Got::Queued(_)) => {
                    line.left();
                    return Ok(None);
                }
                Ok(Got::Again) => {}
                Err(error) => patience.pause(error).await?,
            }
        }
    }

    pub(super) async fn take(&self, request: &Request) -> Result<Lease> {
        let request = Arc::new(request.clone());
        let mut patience = Patience::until(request.until);
        let mut line = InLine::new(self, Place::Lease(Arc::clone(&request)))?;
        let empty = line.ask(|store, _| async move { store.take_empty(&request).await });
        match empty.await {
            Ok(Some(lease)) => {
                line.left();
                return Ok(lease);
            }
            Ok(None) => {}
            Err(error) => patience.pause(error).await?,
        }
        loop {
            match line.wait_for_lease().await {
                Ok(Some(lease)) => {
                    line.left();
                    return Ok(lease);
                }
                // The place in line was lost: it is asked for again.
                Ok(None) => {}
                Err(error) => patience.pause(error).await?,
            }
        }
    }

    /// The empty case: whatever the mode and the capacity, the first is granted. None if it is not empty.
    pub(super) async fn take_empty(&self, request: &Request) -> Result<Option<Lease>> {
        const TAKE: &str = "WITH r AS ( \
                INSERT INTO tenure.resources AS r (resource, token, alone) \
                VALUES ($1, CASE WHEN $3 THEN \
                    (extract(epoch FROM pg_catalog.clock_timestamp()) * 1000000)::bigint ELSE 0 END, $2) \
                ON CONFLICT (resource) DO UPDATE SET alone = $2, token = CASE WHEN $3 THEN greatest(r.token + 1, \
                    (extract(epoch FROM pg_catalog.clock_timestamp()) * 1000000)::bigint) ELSE r.token END \
                WHERE r.alone = '' RETURNING r.resource, r.token \
            ), t AS MATERIALIZED ( \
                SELECT r.resource, r.token, \
                    pg_catalog.date_trunc('milliseconds', pg_catalog.clock_timestamp()) AS now FROM r \
            ), l AS ( \
                INSERT INTO tenure.dal_locks (lock_id, owner, lease_expires, heartbeat_ts, metadata, resource, \
                    mode, session, process, token, acquired_at, state, ttl_ms, pid, host, command, purpose) \
                SELECT $2, $4, t.now + $5::bigint * interval '1 millisecond', t.now, $6, t.resource, $7, $8, $9, \
                    t.token, t.now, 'held', $5, $10, $11, $12, $13 FROM t \
            ) \
            INSERT INTO tenure.audit (at, action, resource, lock_id, token, owner, actor) \
            SELECT t.now, 'acquire', t.resource, $2, t.token, $4, $4 FROM t RETURNING token, at";
        let asker = &request.asker;
        let ttl = millis(self.ttl());
        let values = values![
            request.resource.as_str(),
            request.lease.as_str(),
            request.mode.is_exclusive(),
            asker.owner.as_str(),
            ttl.cast_signed(),
            request.metadata.as_ref().map(ToString::to_string),
            request.mode.as_str(),
            asker.session.as_str(),
            self.process(),
            i64::from(asker.pid),
            asker.host.as_str(),
            asker.command.as_str(),
            request.purpose.as_deref(),
        ];
        let sql = self.lend_until(until(request)).await?;
        let row = sql.row(&Asked::new(TAKE, values)).await?;
        let Some(row) = row else { return Ok(None) };
        let moment = Moment::from(column::<std::time::SystemTime>(&row, 1)?);
        let expires = moment.now().saturating_add(ttl);
        Ok(Some(begin(request, token(&row, 0)?, &moment, expires)))
    }

    /// Asks in a step. What this process itself is about to take back is in nobody's way.
    pub(super) async fn ask_for(&self, request: &Request, wait: Wait) -> Result<Got> {
        if let Some(got) = self.ask_once(request, wait, Meeting::Wait).await? {
            return Ok(got);
        }
        self.settled().await;
        let got = self.ask_once(request, wait, Meeting::Tell).await?;
        got.ok_or_else(|| Error::Internal("asked for the last time, and not told".into()))
    }

    /// None if it would be turned away for something that this process is about to take back.
    async fn ask_once(
        &self,
        request: &Request,
        wait: Wait,
        meeting: Meeting,
    ) -> Result<Option<Got>> {
        let id = &request.lease;
        let line = Line::FrontAnd(id);
        let step = Step::on_until(until(request), self, &request.resource, line).await?;
        let Some(mut step) = step else {
            // Whoever tried the empty case has made its row, and none is ever deleted.
            return Err(Error::Internal(format!("{} has no row", request.resource)));
        };
        step.actor = Some(request.asker.owner.clone());
        let ask = Ask::Acquire {
            lease: id.clone(),
            session: request.asker.session.clone(),
            mode: request.mode,
            capacity: request.capacity,
            wait: step.until(wait),
        };
        if step.loaded.lease(id).is_some() {
            // Asked before, and the answer was lost: it is granted, or was since.
            return match accept(step, id).await? {
                Seen::Granted(lease) => Ok(Some(Got::Granted(lease))),
                _ => Ok(Some(Got::Again)),
            };
        }
        if step.loaded.waiter(id).is_some() {
            let rest = Rest::of(&step, id);
            step.roll_back().await?;
            return Ok(Some(Got::Queued(rest)));
        }
        let decision = step.decide(&ask).await?;
        let turned_away = matches!(decision.outcome, Outcome::Refused(_) | Outcome::Busy);
        if turned_away && meeting == Meeting::Wait && self.debts.has_any(step.loaded.ids()) {
            step.roll_back().await?;
            return Ok(None);
        }
        if let Outcome::Refused(refusal) = decision.outcome {
            let error = refused(self, request, &step.loaded, refusal);
            step.roll_back().await?;
            return Err(error);
        }
        let granted = step.write(&decision.changes, Newcomer::Lease(request))?;
        let rest = Rest::of(&step, id);
        step.commit().await?;
        match (decision.outcome, granted) {
            (Outcome::Granted, Some(lease)) => Ok(Some(Got::Granted(Box::new(lease)))),
            (Outcome::Queued, _) => Ok(Some(Got::Queued(rest))),
            (Outcome::Busy, _) => Ok(Some(Got::Busy)),
            (other, _) => Err(Error::Internal(format!("acquire ended with {other:?}"))),
        }
    }
}

impl Step<'_> {
    /// A deadline of the caller, on the clock of the database: what is left of it counts from now.
    pub(super) fn until(&self, wait: Wait) -> Wait {
        match wait {
            Wait::No => Wait::No,
            Wait::Until(until) => {
                let left = time_left(until);
                Wait::Until(self.moment.now().saturating_add(left))
            }
        }
    }
}

/// When the time of who asks is over.
fn until(request: &Request) -> Millis {
    request.until.unwrap_or(Millis::MAX)
}

fn refused(store: &Inner, request: &Request, loaded: &Loaded, refusal: Refusal) -> Error {
    let session = &request.asker.session;
    let held = loaded.leases.iter();
    let held = held.map(|row| (&row.lease.session, &row.lease.lease));
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
