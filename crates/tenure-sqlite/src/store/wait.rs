//! Waiting in line.
//!
//! # The protocol
//!
//! Once it is in line, a request that closes a circle is refused (`circles`).
//!
//! A waiter sleeps until one of three things happens, and then looks:
//!
//! - It is woken: the process that granted it something wrote to its pipe, after the commit.
//! - The process it watches ends. The first in line watches a holder, every other waiter the
//!   one before it. A process id proves nothing and is only a reason to look; the lock on the
//!   session's file is the proof.
//! - Its timer ends: when the next offer, break or lease runs out, and otherwise after half a
//!   second times its place, half a minute at most. The timer covers lost wake-ups: a granter
//!   killed between commit and wake-up, a holder that dies while the waiter before this one is
//!   stopped, a command that outlives its `run`. The timer is set again whenever the process
//!   before it ends, so it is long only while the waiter is far from the front.
//!
//! A look costs the same however long the line is: the waiter knows its place, and reads its own
//! row, the one before it and the first. While the line does not move, waiters cost only their
//! timers.
//!
//! A look only reads. A step follows if there is something to do: to accept an offer, or to move
//! the line on past sessions that were proved dead. An offer is accepted in a step of its own
//! before the caller gets it: it may have passed to another waiter while this one was stopped,
//! and then this one asks again.
//!
//! A waiter that stops waiting leaves the line and gives back what it was granted in that instant.
//! If even that fails, the grant is an offer that is never accepted, and passes on.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use tenure_core::decide::{Ask, Change, Decision, Millis, Outcome, Wait, decide, next_look};
use tenure_core::internal::loaded::LineExtent;
use tenure_core::request::Awaited;
use tenure_core::{Error, Lease, LeaseId, Mode, Resource, Result};

use super::acquire::{StepOutcome, ask_in_step};
use super::inner::Inner;
use super::load::{DeadSessions, Loaded, ahead_of, load, load_lease, mark_dead, waiter, waiter_at};
use super::moment::Moment;
use super::row::LeaseRow;
use super::step::Step;
use crate::connection::{Durability, Sql};
use crate::wake::{Death, Wake};

/// The longest sleep of the first in line; waiters behind it sleep longer.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// The number of waiters ahead from which the sleep grows no longer: half a minute.
const AHEAD_MAX: u32 = 59;

/// A request in line. Dropped before it is disarmed, it leaves neither lock nor waiter.
struct QueuedRequest<'a> {
    store: &'a Inner,
    awaited: &'a Awaited,
    wake: Wake,
    /// The time when the request gives up, on BOOTTIME, which cannot be set.
    until: Millis,
    disarmed: AtomicBool,
    /// The number of its place as of the last look, or zero before the first.
    number: AtomicI64,
}

/// The outcome of a wait.
enum Waited {
    Granted(Box<Lease>),
    /// The request is no longer in line, and must be made again.
    PlaceLost,
    /// The deadline has passed.
    Late,
}

/// The result of a look.
enum Look {
    /// The request was granted.
    Granted(Box<LeaseRow>),
    /// The request is no longer in line, and was granted nothing.
    Gone,
    /// The request waits, and there is nothing to do.
    Waits(Sleep),
    /// The request waits, and the line can move on because these sessions are dead.
    Due(DeadSessions),
}

/// The time to sleep, and the process to watch meanwhile.
struct Sleep {
    most: Duration,
    watch: Option<u32>,
}

impl<'a> QueuedRequest<'a> {
    /// Begins to listen. To be called before the request is queued, so that no wake-up is missed.
    fn new(store: &'a Inner, awaited: &'a Awaited, until: Millis) -> Result<Self> {
        let session = &awaited.asker().session;
        store.sessions.file(session)?;
        Ok(Self {
            wake: Wake::listen(&store.wake_directory, session)?,
            store,
            awaited,
            until,
            disarmed: AtomicBool::new(false),
            number: AtomicI64::new(0),
        })
    }

    /// Makes the drop do nothing: there is nothing left to give back.
    fn disarm(&self) {
        self.disarmed.store(true, Ordering::Relaxed);
    }

    /// Waits for the grant.
    async fn wait_for_grant(&self) -> Result<Waited> {
        let mut ended = None;
        loop {
            let sleep = match self.look().await? {
                Look::Granted(row) => match self.accept(*row).await? {
                    Some(lease) => return Ok(Waited::Granted(Box::new(lease))),
                    None => continue,
                },
                Look::Gone => return self.lost_place().await,
                Look::Due(dead) => {
                    let moved = self.store.write(Durability::Crash, |step| {
                        step.actor = Some(self.awaited.asker().actor().clone());
                        grant_next(step, self.awaited.resource(), &dead)
                    });
                    if moved.await? {
                        continue;
                    }
                    // Another process moved the line in between, with other proofs.
                    Sleep {
                        most: LOOK_EVERY,
                        watch: None,
                    }
                }
                Look::Waits(sleep) => sleep,
            };
            // A process that ended although its session goes on is not watched again.
            let watch = sleep.watch.filter(|pid| Some(*pid) != ended);
            let death = watch.map(Death::watch);
            tokio::select! {
                notified = self.wake.notified() => {
                    notified?;
                    // A wake-up nearly always means a grant, so it is accepted without a look.
                    if let Some(lease) = self.accept_at_once().await? {
                        return Ok(Waited::Granted(Box::new(lease)));
                    }
                }
                () = died(death.as_ref()) => ended = watch,
                () = tokio::time::sleep(sleep.most) => self.store.look_at_database()?,
            }
        }
    }

    /// Returns the outcome for a request that is no longer in line.
    async fn lost_place(&self) -> Result<Waited> {
        // A person may have broken the offer while this process was stopped, and the line has
        // moved on since. Asking again would undo that.
        if let Some(reason) = self.store.break_reason(self.awaited.lease()).await? {
            return Err(Error::lost(
                self.store
                    .context(self.awaited.resource(), self.awaited.mode()),
                reason,
            ));
        }
        Ok(if self.is_late()? {
            Waited::Late
        } else {
            Waited::PlaceLost
        })
    }

    /// Returns true if the deadline has passed.
    fn is_late(&self) -> Result<bool> {
        Ok(self.until <= Moment::now()?.boot)
    }

    async fn look(&self) -> Result<Look> {
        self.store.read(|sql| self.look_in(sql)).await
    }

    fn look_in(&self, sql: &Sql<'_>) -> Result<Look> {
        let moment = Moment::now()?;
        let id = self.awaited.lease();
        if let Some(row) = self.granted_row(sql, &moment)? {
            return Ok(Look::Granted(Box::new(row)));
        }
        let sessions = &self.store.sessions;
        let resource = self.awaited.resource();
        let number = self.number(sql)?;
        let around = LineExtent::Around(id, number);
        let mut loaded = load(sql, sessions, resource, around, 1, &moment)?;
        let Some(index) = index_in_line(&loaded, id) else {
            return Ok(Look::Gone);
        };
        let before = index.checked_sub(1).map(|before| &loaded.waiters[before]);
        let holders = loaded.leases.iter().filter(|row| row.lease.lease != *id);
        let keeping = holders.clone().filter(|row| row.ends_with_session());
        let suspects = keeping.map(|row| &row.lease.session);
        let suspects = suspects.chain(before.map(|waiter| &waiter.session));
        let dead = sessions.dead(sql, suspects)?;
        let watch = match before {
            Some(waiter) => Some(waiter.process),
            None => holders.clone().map(|row| row.lease.pid).next(),
        };
        mark_dead(&mut loaded, &dead);
        let state = loaded.state();
        if !decide(&state, &Ask::Look, moment.boot).changes.is_empty() {
            return Ok(Look::Due(dead));
        }
        let ahead = match index {
            0 => 0,
            _ => ahead_of(sql, resource, number, AHEAD_MAX)?,
        };
        let mut most = LOOK_EVERY * (ahead + 1);
        // Only the first in line looks exactly on time: one look is enough.
        if index == 0
            && let Some(at) = next_look(&state, moment.boot)
        {
            // One millisecond more, so that the time is over at the look.
            let left = at.saturating_sub(moment.boot).saturating_add(1);
            most = most.min(Duration::from_millis(left));
        }
        Ok(Look::Waits(Sleep { most, watch }))
    }

    /// Returns the number of its place in line. It is remembered, because finding it reads the
    /// whole line.
    fn number(&self, sql: &Sql<'_>) -> Result<i64> {
        let (id, resource) = (self.awaited.lease(), self.awaited.resource());
        let known = self.number.load(Ordering::Relaxed);
        if waiter_at(sql, id, known)?.is_some() {
            return Ok(known);
        }
        let found = waiter(sql, resource, id)?.map_or(0, |row| row.place);
        self.number.store(found, Ordering::Relaxed);
        Ok(found)
    }

    /// Returns the lease row of the request if it was granted.
    fn granted_row(&self, sql: &Sql<'_>, moment: &Moment) -> Result<Option<LeaseRow>> {
        let id = self.awaited.lease();
        let row = load_lease(sql, id, moment)?;
        match self.awaited {
            Awaited::Lease(_) => Ok(row),
            Awaited::Upgrade(..) => {
                let row = row.ok_or_else(|| Error::not_held(id))?;
                Ok(Some(row).filter(|row| row.lease.mode == Mode::Write))
            }
        }
    }

    /// Accepts a new lease if it was granted.
    async fn accept_at_once(&self) -> Result<Option<Lease>> {
        match self.awaited {
            Awaited::Upgrade(..) => Ok(None),
            Awaited::Lease(request) => {
                let id = &request.lease;
                let accepted = self.store.write(Durability::Crash, |step| accept(step, id));
                accepted.await
            }
        }
    }

    /// Accepts a grant. Returns `None` if the offer has passed on already.
    async fn accept(&self, row: LeaseRow) -> Result<Option<Lease>> {
        match self.awaited {
            Awaited::Upgrade(..) => Ok(Some(row.lease)),
            Awaited::Lease(_) => self.accept_at_once().await,
        }
    }
}

impl Drop for QueuedRequest<'_> {
    fn drop(&mut self) {
        if self.disarmed.load(Ordering::Relaxed) {
            return;
        }
        self.store.withdraw(self.awaited);
    }
}

/// Resolves when the watched process has ended; never if there is none.
async fn died(death: Option<&Death>) {
    match death {
        Some(death) => death.died().await,
        None => std::future::pending().await,
    }
}

/// Returns the place in line, from 0. A waiting upgrade is before all others.
fn index_in_line(loaded: &Loaded, id: &LeaseId) -> Option<usize> {
    let waiters = &loaded.waiters;
    waiters.iter().position(|row| row.waiter.lease == *id)
}

fn accept(step: &mut Step<'_>, id: &LeaseId) -> Result<Option<Lease>> {
    let ask = Ask::Accept(id.clone());
    let Some(row) = load_lease(step.sql, id, &step.moment)? else {
        return Ok(None);
    };
    // The lease's own row decides, unless the offer has run out: then the line moves on, and
    // that decision needs the rows of the whole resource.
    let mut loaded = Loaded::alone(&row);
    let mut decision = step.decide_alone(&loaded, &ask);
    let resource = &row.lease.resource;
    if removes_lease(&decision) {
        (loaded, decision) =
            step.decide(resource, LineExtent::Front, &ask, &DeadSessions::new())?;
    }
    step.write(resource, &loaded, &decision.changes, None)?;
    match decision.outcome {
        Outcome::Done => {
            let mut lease = row.lease.clone();
            lease.state = tenure_core::LeaseState::Held;
            lease.heartbeat_at = step.moment.wall;
            step.granted(&lease);
            Ok(Some(lease))
        }
        Outcome::Refused(tenure_core::decide::Refusal::Revoked) => {
            // The offer was broken before it was accepted. There is nothing to stop, and leaving
            // the line ends the lease.
            Err(step.store.broken(&row))
        }
        _ => Ok(None),
    }
}

fn removes_lease(decision: &Decision) -> bool {
    let removes = |change: &Change| matches!(change, Change::Remove { .. });
    decision.changes.iter().any(removes)
}

impl Inner {
    /// Makes the step of a request, proves which sessions in its way are dead, and waits in line,
    /// until it is granted, busy or late.
    pub(super) async fn until_answered(
        &self,
        awaited: &Awaited,
        floor: Durability,
    ) -> Result<Option<Lease>> {
        let mut proved = None;
        let mut queued: Option<QueuedRequest<'_>> = None;
        loop {
            let ask = |step: &mut Step<'_>| ask_in_step(step, awaited, proved.as_ref());
            let outcome = self.write(floor, ask).await;
            if let (Awaited::Upgrade(..), Err(_), Some(queued)) = (awaited, &outcome, &queued) {
                // No upgrade waits, and a refused one leaves the lease as it was.
                queued.disarm();
            }
            let granted = match (outcome?, &queued) {
                (StepOutcome::Granted(lease), _) => Some(*lease),
                (StepOutcome::Busy, _) | (StepOutcome::Queued, None) => None,
                (StepOutcome::Unproved(sessions), _) => {
                    proved = Some(self.read(|sql| self.sessions.dead(sql, &sessions)).await?);
                    if let (Wait::Until(until), None) = (awaited.wait(), &queued) {
                        queued = Some(QueuedRequest::new(self, awaited, until)?);
                    }
                    continue;
                }
                (StepOutcome::Queued, Some(queued)) => {
                    self.refuse_circle(awaited).await?;
                    match queued.wait_for_grant().await? {
                        Waited::Granted(lease) => Some(*lease),
                        Waited::Late => None,
                        Waited::PlaceLost => {
                            proved = None;
                            continue;
                        }
                    }
                }
            };
            if let Some(queued) = &queued {
                queued.disarm();
            }
            return Ok(granted);
        }
    }

    /// Moves a line on past dead sessions if the database is free at this moment. Returns true if
    /// anything changed.
    pub(super) fn grant_next_now(&self, resource: &Resource, dead: &DeadSessions) -> Result<bool> {
        self.write_once(Durability::Crash, |step| grant_next(step, resource, dead))
    }
}

/// Moves a line on past dead sessions. Returns true if anything changed.
fn grant_next(step: &mut Step<'_>, resource: &Resource, dead: &DeadSessions) -> Result<bool> {
    let decision = step.decide_and_write(resource, LineExtent::Front, &Ask::Look, dead)?;
    Ok(!decision.changes.is_empty())
}
