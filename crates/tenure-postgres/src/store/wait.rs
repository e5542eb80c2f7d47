//! Waiting in line.
//!
//! # The protocol
//!
//! Once it is in line, a request that closes a circle is refused (`circles`).
//!
//! A waiter has a place in line. It registered with the `listener` before it took that place. It
//! sleeps until one of these happens, and then looks:
//!
//! - It is notified, by the transaction that granted it something or took it out of the line.
//! - It became the first of its process for the resource, or the listener lost its connection for a
//!   moment.
//! - Its timer ends. Only the first of its process for the resource has one: it ends when the next
//!   offer, break or lease runs out, and a moment later for each process before this one; at the
//!   latest after a second for each process up to this one, 15 seconds at most, with jitter. The
//!   timer heals what a notification cannot: a holder whose lease expired, an earlier waiter whose
//!   process is gone, a notification that was lost with its connection.
//!
//! A waiter that is notified first takes up the offer it may have, in one statement
//! (`tenure.take_up` in the schema). If there is no offer it looks.
//!
//! A look is a step. It takes up a grant; else it moves the line on, if that is possible; else it
//! writes nothing. An offer is taken up before the caller relies on it: it may have been passed on
//! while the waiter was stopped, and then the waiter asks again.
//!
//! If the waiter crashes, its process is not seen for 15 seconds, and the next step on the line
//! passes over it; its offer passes on after 5. If the process that grants crashes, its transaction
//! is complete or absent, and the notification with it. If the connection is lost the waiter stays,
//! and asks again until its own deadline.
//!
//! A request that stops waiting leaves the line and gives back a lease that it is granted in that
//! instant (`cleanup`).

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tenure_core::decide::{Ask, Outcome, Refusal, Wait};
use tenure_core::internal::loaded::LineExtent;
use tenure_core::leases::grace;
use tenure_core::request::Awaited;
use tenure_core::{Error, Lease, LeaseId, Mode, Result};
use tenure_os::random;
use tokio::time::{sleep, timeout};

use super::acquire::StepOutcome;
use super::change::new_lease;
use super::cleanup::{self, CleanupTicket};
use super::inner::Inner;
use super::listener::{PRESENT_FOR, Registration};
use super::look_timer::LookTimer;
use super::moment::Moment;
use super::release::clean_up_request;
use super::retry::{Retry, end_of, time_left};
use super::row::{LeaseRow, millis, token};
use super::sql::{Statement, values};
use super::step::Step;
use crate::fault::unreachable;

/// A request that is in line, or about to be. If it is dropped before it is granted, it leaves
/// neither lock nor waiter.
pub(super) struct QueuedRequest {
    store: Arc<Inner>,
    awaited: Arc<Awaited>,
    registration: Option<Registration>,
    stage: Stage,
    /// True if an earlier try, or an earlier request under the same id, may have left something in
    /// the store.
    doubtful: bool,
    /// True once the request has had a place in line.
    queued: bool,
    /// The reason why the database could not be reached at the last failure.
    trouble: Option<String>,
}

/// The clean-up that a drop has to do.
enum Stage {
    /// Nothing: nothing was asked yet, or the caller has its answer.
    Clear,
    /// Nothing: a step is under way, and takes back its grant or place when it ends.
    InStep,
    /// Give back the place in line, or the grant, that it may have.
    Asked,
}

/// The reason why a waiter woke up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WakeReason {
    /// The waiter was notified.
    Notified,
    /// The waiter's timer ended.
    TimerEnded,
}

/// The outcome of asking and waiting.
enum Waited {
    Granted(Box<Lease>),
    /// The request cannot be granted without waiting, and has no place in line.
    Busy,
    /// The time of the request is over. It may have a place in line.
    Late,
    /// The request lost its place in line, and asks again.
    PlaceLost,
}

/// The result of a look.
pub(super) enum Look {
    /// The lease was granted, and is taken up.
    Granted(Box<Lease>),
    /// The waiter is no longer in line, and was granted nothing.
    Gone,
    /// The waiter stays in line, and there is nothing to do.
    Waits(LookTimer),
    /// The line has moved on.
    Moved,
}

impl QueuedRequest {
    pub(super) fn new(store: &Inner, awaited: Awaited) -> Result<Self> {
        let store = store.arc()?;
        let doubtful = store
            .pending_cleanup
            .cancel(awaited.lease(), &awaited.asker().session);
        Ok(Self {
            store,
            awaited: Arc::new(awaited),
            registration: None,
            stage: Stage::Clear,
            doubtful,
            queued: false,
            trouble: None,
        })
    }

    /// Makes sure that a drop gives nothing back.
    pub(super) fn disarm(&mut self) {
        self.stage = Stage::Clear;
    }

    /// Makes a step, which runs to its end even if this future is dropped.
    pub(super) async fn run_to_end<T, F>(
        &mut self,
        work: impl FnOnce(Arc<Inner>, Arc<Awaited>) -> F,
    ) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let (store, awaited) = (Arc::clone(&self.store), self.awaited.clone());
        let ticket = self.add_cleanup();
        self.stage = Stage::InStep;
        let undo = {
            let (store, awaited, ticket) = (Arc::clone(&store), awaited.clone(), ticket.clone());
            move |_| clean_up(store, awaited, ticket)
        };
        let done = cleanup::run_to_end(&self.store, work(store, awaited), undo).await;
        self.store.pending_cleanup.done(&ticket);
        self.stage = Stage::Asked;
        self.doubtful |= done.as_ref().is_err_and(is_doubtful);
        if let Err(Error::Unreachable { problem, .. }) = &done {
            self.trouble = Some(problem.clone());
        }
        done
    }

    /// Makes a step that asks, which runs to its end, too. A refusal leaves everything as it was.
    pub(super) async fn ask<T, F>(
        &mut self,
        work: impl FnOnce(Arc<Inner>, Arc<Awaited>) -> F,
    ) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let asked = self.run_to_end(work).await;
        if asked.as_ref().is_err_and(|error| !is_doubtful(error)) && !self.doubtful {
            self.disarm();
        }
        asked
    }

    /// Registers with the listener, before there is a place in line. A request that does not wait
    /// needs no registration. Returns false if the time was over before it was done.
    async fn register(&mut self) -> Result<bool> {
        if self.registration.is_some() || self.awaited.wait() == Wait::No {
            return Ok(true);
        }
        let left = Duration::from_millis(time_left(end_of(self.awaited.wait())));
        let registering = self
            .store
            .listener
            .register(self.awaited.lease(), self.awaited.resource());
        let Ok(registered) = timeout(left, registering).await else {
            if !self.doubtful {
                // Nothing has failed: the server answers, and the resource was busy a moment ago.
                return Ok(false);
            }
            let trouble = self.trouble.as_deref().unwrap_or("it does not answer");
            return Err(unreachable(self.store.address(), trouble));
        };
        self.registration = Some(registered?);
        Ok(true)
    }

    /// Asks, waits in line if the request may wait, and asks again after a fault or a lost place,
    /// until there is an answer. Returns `None` if it was not granted.
    pub(super) async fn until_answered(&mut self, retry: &mut Retry) -> Result<Option<Lease>> {
        loop {
            match self.ask_and_wait().await {
                Ok(Waited::Granted(lease)) => {
                    self.disarm();
                    return Ok(Some(*lease));
                }
                Ok(Waited::Busy) => {
                    self.disarm();
                    return Ok(None);
                }
                Ok(Waited::Late) => return Ok(None),
                Ok(Waited::PlaceLost) => {}
                // The request was in line: a process that was stopped until its time was over is
                // late, not cut off.
                Err(error) if retry.is_late(&error) => return Ok(None),
                Err(error) => retry.pause(error).await?,
            }
        }
    }

    /// Asks in a step, and waits in line if the request may wait.
    async fn ask_and_wait(&mut self) -> Result<Waited> {
        if self.queued && matches!(*self.awaited, Awaited::Lease(_)) {
            self.check_not_broken().await?;
        }
        if !self.register().await? {
            return Ok(Waited::Late);
        }
        let doubtful = self.doubtful;
        let outcome = self
            .ask(move |store, awaited| async move { store.ask_in_step(&awaited, doubtful).await });
        match outcome.await? {
            StepOutcome::Granted(lease) => Ok(Waited::Granted(lease)),
            StepOutcome::Queued(look_timer) => {
                self.store.refuse_circle(&self.awaited).await?;
                self.wait_for_grant(look_timer).await
            }
            StepOutcome::Busy => Ok(Waited::Busy),
            StepOutcome::Again => Ok(Waited::PlaceLost),
        }
    }

    /// Waits in line until the grant, or the end of the time.
    async fn wait_for_grant(&mut self, mut look_timer: LookTimer) -> Result<Waited> {
        self.queued = true;
        loop {
            let reason = self.sleep(look_timer).await;
            if time_left(end_of(self.awaited.wait())) == 0 {
                return Ok(Waited::Late);
            }
            if reason == WakeReason::Notified
                && let Some(lease) = self.run_to_end(take_up).await?
            {
                return Ok(Waited::Granted(Box::new(lease)));
            }
            let found = loop {
                match self.run_to_end(look).await? {
                    Look::Moved => {}
                    found => break found,
                }
            };
            match found {
                Look::Granted(lease) => return Ok(Waited::Granted(lease)),
                Look::Waits(longer) => look_timer = longer,
                Look::Gone | Look::Moved => return Ok(Waited::PlaceLost),
            }
        }
    }

    /// Fails if a person has broken the lease. It may have been on offer while this process was
    /// stopped or cut off, and the line has moved on since: asking again would undo the break.
    async fn check_not_broken(&self) -> Result<()> {
        match self.store.break_reason(self.awaited.lease()).await? {
            Some(reason) => Err(Error::lost(
                self.store
                    .context(self.awaited.resource(), self.awaited.mode()),
                reason,
            )),
            None => Ok(()),
        }
    }

    /// Sleeps until there is a reason to look, or no time is left.
    async fn sleep(&self, look_timer: LookTimer) -> WakeReason {
        let Some(registration) = &self.registration else {
            return WakeReason::TimerEnded;
        };
        let left = Duration::from_millis(time_left(end_of(self.awaited.wait())));
        let timer = if registration.is_first() {
            look_timer.duration(random::fraction()).min(left)
        } else {
            left
        };
        tokio::select! {
            () = registration.notified() => WakeReason::Notified,
            () = sleep(timer) => WakeReason::TimerEnded,
        }
    }

    fn add_cleanup(&self) -> CleanupTicket {
        let session = &self.awaited.asker().session;
        self.store
            .pending_cleanup
            .add(self.awaited.lease(), session)
    }
}

impl Drop for QueuedRequest {
    fn drop(&mut self) {
        if matches!(self.stage, Stage::Asked) {
            let clean_up = clean_up(
                Arc::clone(&self.store),
                self.awaited.clone(),
                self.add_cleanup(),
            );
            self.store.run_in_background(clean_up);
        }
    }
}

/// Leaves the line, or gives back the grant. Tries for as long as there may be something to give
/// back.
async fn clean_up(store: Arc<Inner>, awaited: Arc<Awaited>, ticket: CleanupTicket) {
    let ends = Instant::now() + store.ttl.max(PRESENT_FOR);
    let mut retry = Retry::in_background(None);
    while store.pending_cleanup.is_pending(&ticket) && Instant::now() < ends {
        let cleaned = clean_up_request(&store, &awaited, &ticket).await;
        let Err(error) = cleaned else { break };
        if retry.pause(error).await.is_err() {
            break;
        }
    }
    store.pending_cleanup.done(&ticket);
}

/// Takes up the offer of a new lease in one statement and one round trip. Changes nothing if there
/// is no offer.
async fn take_up(store: Arc<Inner>, awaited: Arc<Awaited>) -> Result<Option<Lease>> {
    const TAKE_UP: &str =
        "SELECT token, acquired_at, now FROM tenure.take_up($1, $2) WHERE token IS NOT NULL";
    let Awaited::Lease(request) = &*awaited else {
        return Ok(None);
    };
    let values = values![request.lease.as_str(), request.resource.as_str()];
    let sql = store.lend_until(end_of(awaited.wait())).await?;
    let row = sql.row(&Statement::new(TAKE_UP, values)).await?;
    let Some(row) = row else { return Ok(None) };
    let moment = Moment::read(&row, 2)?;
    let expires = moment.now().saturating_add(millis(store.ttl));
    let mut lease = new_lease(request, token(&row, 0)?, &moment, expires);
    lease.acquired_at = Moment::read(&row, 1)?.wall();
    Ok(Some(lease))
}

/// Looks once at the place in line.
async fn look(store: Arc<Inner>, awaited: Arc<Awaited>) -> Result<Look> {
    let id = awaited.lease();
    let extent = LineExtent::FrontAnd(id);
    let step = Step::on(&store, end_of(awaited.wait()), awaited.resource(), extent).await?;
    let Some(mut step) = step else {
        return Ok(Look::Gone);
    };
    match (&*awaited, step.loaded.lease(id)) {
        (Awaited::Lease(_), Some(_)) => return accept(step, id).await,
        (Awaited::Lease(_), None) => {}
        (Awaited::Upgrade(..), None) => {
            step.roll_back().await?;
            return Err(store.gone(id).await);
        }
        (Awaited::Upgrade(request, _), Some(row)) => {
            let ours = row.upgraded_by.as_ref() == Some(&request.asker.session);
            if row.lease.mode == Mode::Write && ours {
                let lease = Box::new(row.lease.clone());
                step.roll_back().await?;
                return Ok(Look::Granted(lease));
            }
        }
    }
    let session = &awaited.asker().session;
    let waits = step.loaded.waiter(id);
    if waits.is_none_or(|waiter| waiter.session != *session) {
        step.roll_back().await?;
        return Ok(Look::Gone);
    }
    step.actor = Some(awaited.asker().actor().clone());
    let decision = step.decide(&Ask::Look).await?;
    if decision.changes.is_empty() {
        let look_timer = LookTimer::of(&step, id);
        step.roll_back().await?;
        return Ok(Look::Waits(look_timer));
    }
    step.write(&decision.changes, None)?;
    step.commit().await?;
    Ok(Look::Moved)
}

/// Takes up a lease that was granted: its time begins. Returns `Gone` if it has passed on already.
pub(super) async fn accept(mut step: Step<'_>, id: &LeaseId) -> Result<Look> {
    let ttl = step.loaded.lease(id).map(LeaseRow::ttl).unwrap_or_default();
    let ask = Ask::bind(id, ttl, grace(ttl, None));
    let decision = step.decide(&ask).await?;
    step.write(&decision.changes, None)?;
    let row = step.loaded.lease(id).cloned();
    let store = step.store;
    if decision.outcome == Outcome::Refused(Refusal::Revoked) {
        // The lease was broken before it was taken up. There is nothing to stop, so it ends at
        // once: this process may be gone before a drop could end it.
        let lease = id.clone();
        let ended = step.decide(&Ask::Release(lease)).await?;
        step.write(&ended.changes, None)?;
    }
    step.commit().await?;
    match (decision.outcome, row) {
        (Outcome::Done, Some(row)) => Ok(Look::Granted(Box::new(row.lease))),
        (Outcome::Refused(Refusal::Revoked), Some(row)) => Err(store.broken(row)),
        _ => Ok(Look::Gone),
    }
}

/// Returns true if the error leaves open whether the request was carried out.
fn is_doubtful(error: &Error) -> bool {
    error.is_passing() || matches!(error, Error::Exhausted { .. } | Error::Internal(_))
}
