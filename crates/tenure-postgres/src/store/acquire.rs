//! A new lease.
//!
//! # The steps
//!
//! 1. The empty case is one statement and one round trip: the lease is granted if the resource has
//!    no holder and no waiter, as its row says (`alone`), and the order of the request is the
//!    written one (`order`). `ON CONFLICT DO UPDATE … WHERE` looks at the newest version of the
//!    row, after it has locked it, so if two requests meet here one is granted and the other finds
//!    nothing.
//! 2. Else a request that waits registers with the `listener`, before it has a place in line: it
//!    misses no wake-up, and no other process takes it for dead.
//! 3. A step loads everything and decides. If the order is not the written one, it is first adopted
//!    or refused. The lease is granted, or the request takes its place in line.
//! 4. The request waits (`wait`).
//!
//! A connection that is lost during 1 or 3 leaves the outcome unknown. The request is made again,
//! by the id of the lease: the step finds the lease, or the waiter, and continues with it. A future
//! that is dropped takes back its lease or its place (`cleanup`). A crash leaves a lease that
//! expires, or a waiter that is passed over once its process is no longer seen.
//!
//! The empty case reads the clock after the row is locked, like every step: in the expressions of
//! the update, and in the select that reads from it.

use std::time::Duration;

use tenure_core::decide::{Ask, Outcome, Wait};
use tenure_core::internal::loaded::LineExtent;
use tenure_core::internal::written_order::StoreOrder;
use tenure_core::request::Awaited;
use tenure_core::{Error, Lease, Request, Result};
use tokio::time::sleep;

use super::change::new_lease;
use super::inner::Inner;
use super::look_timer::LookTimer;
use super::moment::Moment;
use super::order::written_order;
use super::retry::{Retry, end_of, time_left};
use super::row::{column, millis, token};
use super::sql::{Statement, values};
use super::step::Step;
use super::wait::{Look, QueuedRequest, accept};

/// The outcome of a step that asks for a lease.
pub(super) enum StepOutcome {
    Granted(Box<Lease>),
    Queued(LookTimer),
    Busy,
    /// The lease that was granted before has passed to the next in line: the caller asks again.
    Again,
}

/// The pause before a request asks again while this process itself keeps it waiting.
const CLEANUP_PAUSE: Duration = Duration::from_millis(20);

/// The behaviour of a request that meets a lease which this process is about to take back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OnPendingCleanup {
    /// The request waits for the clean-up, and asks again.
    Wait,
    /// The request reports what is in its way.
    Report,
}

impl Inner {
    pub(super) async fn acquire(&self, request: &Request) -> Result<Option<Lease>> {
        let mut retry = Retry::of(request.wait, self.retry_policy());
        let mut queued = QueuedRequest::new(self, Awaited::Lease(request.clone()))?;
        // This is repeated until it is answered: it creates the row of the resource, on which the
        // steps rely.
        loop {
            let empty = queued.ask(|store, awaited| async move {
                match &*awaited {
                    Awaited::Lease(request) => store.acquire_uncontended(request).await,
                    Awaited::Upgrade(..) => Ok(None),
                }
            });
            match empty.await {
                Ok(Some(lease)) => {
                    queued.disarm();
                    return Ok(Some(lease));
                }
                Ok(None) => break,
                Err(error) => retry.pause(error).await?,
            }
        }
        queued.until_answered(&mut retry).await
    }

    /// Grants the lease if the resource has no holder and no waiter, whatever the mode and the
    /// capacity. Returns `None` otherwise.
    pub(super) async fn acquire_uncontended(&self, request: &Request) -> Result<Option<Lease>> {
        const ACQUIRE: &str = concat!(
            "WITH r AS ( \
                INSERT INTO tenure.resources AS r (resource, token, alone) \
                SELECT $1::text, CASE WHEN $3 THEN \
                    (extract(epoch FROM pg_catalog.clock_timestamp()) * 1000000)::bigint ELSE 0 END, $2::text \
                WHERE $14::text IS NULL OR coalesce(",
            written_order!(),
            ", $15) = $14 \
                ON CONFLICT (resource) DO UPDATE SET alone = $2, token = CASE WHEN $3 THEN greatest(r.token + 1, \
                    (extract(epoch FROM pg_catalog.clock_timestamp()) * 1000000)::bigint) ELSE r.token END \
                WHERE r.alone = '' RETURNING r.resource, r.token \
            ), t AS MATERIALIZED ( \
                SELECT r.resource, r.token, \
                    pg_catalog.date_trunc('milliseconds', pg_catalog.clock_timestamp()) AS now FROM r \
            ), l AS ( \
                INSERT INTO tenure.dal_locks (lock_id, owner, lease_expires, heartbeat_ts, metadata, resource, \
                    mode, session, process, token, acquired_at, state, ttl_ms, pid, host, command, purpose, agent) \
                SELECT $2, $4, t.now + $5::bigint * interval '1 millisecond', t.now, $6, t.resource, $7, $8, $9, \
                    t.token, t.now, 'held', $5, $10, $11, $12, $13, $16 FROM t \
            ) \
            INSERT INTO tenure.audit (at, action, resource, lock_id, token, owner, actor) \
            SELECT t.now, 'acquire', t.resource, $2, t.token, $4, coalesce($16::text, $4) FROM t RETURNING token, at"
        );
        let asker = &request.asker;
        let ttl = millis(self.ttl);
        let values = values![
            request.resource.as_str(),
            request.lease.as_str(),
            request.mode.is_exclusive(),
            asker.owner.as_str(),
            ttl.cast_signed(),
            request.metadata.as_ref().map(ToString::to_string),
            request.mode.as_str(),
            asker.session.as_str(),
            &self.process,
            i64::from(asker.pid),
            asker.host.as_str(),
            asker.command.as_str(),
            request.purpose.as_deref(),
            self.order().map(StoreOrder::text),
            self.default_order.as_str(),
            asker.agent.as_ref().map(ToString::to_string),
        ];
        let sql = self.lend_until(end_of(request.wait)).await?;
        let row = sql.row(&Statement::new(ACQUIRE, values)).await?;
        let Some(row) = row else { return Ok(None) };
        let moment = Moment::from(column::<std::time::SystemTime>(&row, 1)?);
        let expires = moment.now().saturating_add(ttl);
        Ok(Some(new_lease(request, token(&row, 0)?, &moment, expires)))
    }

    /// Asks in a step. A request that would be turned away first waits for the clean-up of this
    /// process: at most for the request's own time, or for a moment if it does not wait.
    pub(super) async fn ask_in_step(
        &self,
        awaited: &Awaited,
        asked_before: bool,
    ) -> Result<StepOutcome> {
        let mut on_pending = OnPendingCleanup::Wait;
        loop {
            let outcome = match awaited {
                Awaited::Lease(request) => self.acquire_once(awaited, request, on_pending).await,
                Awaited::Upgrade(request, _) => {
                    let asked = asked_before.then_some(request);
                    self.upgrade_once(awaited, asked, on_pending).await
                }
            };
            if let Some(outcome) = outcome? {
                return Ok(outcome);
            }
            self.background_done().await;
            match awaited.wait() {
                Wait::No => on_pending = OnPendingCleanup::Report,
                Wait::Until(until) if time_left(until) == 0 => return Ok(StepOutcome::Busy),
                Wait::Until(_) => sleep(CLEANUP_PAUSE).await,
            }
        }
    }

    /// Returns `None` if the request would be turned away for a lease that this process is about to
    /// take back, or if its order was written down just now.
    async fn acquire_once(
        &self,
        awaited: &Awaited,
        request: &Request,
        on_pending: OnPendingCleanup,
    ) -> Result<Option<StepOutcome>> {
        let id = &request.lease;
        let extent = LineExtent::FrontAnd(id);
        let until = end_of(request.wait);
        let step = Step::on_with_order(self, until, &request.resource, extent).await?;
        let Some((mut step, written)) = step else {
            return self.acquire_without_row(request).await;
        };
        if let Some(order) = self.order()
            && !order.is_written(written.as_deref())
        {
            step.roll_back().await?;
            self.adopt_order(order).await?;
            return Ok(None);
        }
        if step.loaded.lease(id).is_some() {
            // An earlier try was granted, and its answer was lost.
            step.actor = Some(request.asker.actor().clone());
            return match accept(step, id).await? {
                Look::Granted(lease) => Ok(Some(StepOutcome::Granted(lease))),
                _ => Ok(Some(StepOutcome::Again)),
            };
        }
        if step.loaded.waiter(id).is_some() {
            let look_timer = LookTimer::of(&step, id);
            step.roll_back().await?;
            return Ok(Some(StepOutcome::Queued(look_timer)));
        }
        step.answer(awaited, on_pending).await
    }

    /// Acquires a resource that has no row yet. The empty case creates that row, and none is ever
    /// deleted: it is missing only because the order of the request was not the written one.
    async fn acquire_without_row(&self, request: &Request) -> Result<Option<StepOutcome>> {
        let Some(order) = self.order() else {
            return Err(Error::Internal(format!("{} has no row", request.resource)));
        };
        self.adopt_order(order).await?;
        let lease = self.acquire_uncontended(request).await?;
        Ok(lease.map(|lease| StepOutcome::Granted(Box::new(lease))))
    }
}

impl Step<'_> {
    /// Decides on a request, writes the changes, and commits. Returns `None` if the request would
    /// be turned away for a lease that this process is about to take back.
    pub(super) async fn answer(
        mut self,
        awaited: &Awaited,
        on_pending: OnPendingCleanup,
    ) -> Result<Option<StepOutcome>> {
        let (id, store) = (awaited.lease(), self.store);
        self.actor = Some(awaited.asker().actor().clone());
        let ask = Ask::of(awaited, self.until(awaited.wait()));
        let decision = self.decide(&ask).await?;
        let turned_away = match decision.outcome {
            Outcome::Busy => true,
            Outcome::Refused(_) => matches!(awaited, Awaited::Lease(_)),
            _ => false,
        };
        let mut others = self.loaded.ids().filter(|other| *other != id);
        if turned_away
            && on_pending == OnPendingCleanup::Wait
            && store.pending_cleanup.has_any(&mut others)
        {
            drop(others);
            self.roll_back().await?;
            return Ok(None);
        }
        drop(others);
        if let Outcome::Refused(refusal) = decision.outcome {
            let context = store.context(awaited.resource(), awaited.mode());
            let error = self.state.refused(awaited, context, refusal);
            self.roll_back().await?;
            return Err(error);
        }
        let granted = self.write(&decision.changes, Some(awaited))?;
        let upgraded = || self.loaded.lease(id).map(|row| row.lease.clone());
        let granted = granted.or_else(upgraded);
        let look_timer = LookTimer::of(&self, id);
        self.commit().await?;
        match (decision.outcome, granted) {
            (Outcome::Granted, Some(lease)) => Ok(Some(StepOutcome::Granted(Box::new(lease)))),
            (Outcome::Queued, _) => Ok(Some(StepOutcome::Queued(look_timer))),
            (Outcome::Busy, _) => Ok(Some(StepOutcome::Busy)),
            (other, _) => Err(Error::Internal(format!("a request ended with {other:?}"))),
        }
    }

    /// Returns the deadline of the caller on the clock of the database: now, and the time that is
    /// left.
    fn until(&self, wait: Wait) -> Wait {
        match wait {
            Wait::No => Wait::No,
            Wait::Until(until) => {
                let left = time_left(until);
                Wait::Until(self.moment.now().saturating_add(left))
            }
        }
    }
}
