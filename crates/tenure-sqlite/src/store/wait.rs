//! Waiting in line.
//!
//! # The protocol
//!
//! A waiter sleeps until one of three things happens, and then looks:
//!
//! - It is woken: whoever granted it something wrote to its pipe, after the commit.
//! - The process it watches ends. The first in line watches a holder, every other the
//!   waiter before it. A process id proves nothing; it is only a reason to look, and the
//!   session's lock is the proof.
//! - Its timer ends: when the next offer, break or lease runs out, and else after half a second
//!   times its place, five seconds at most. This heals what a wake-up cannot: a
//!   granter killed between commit and wake-up, a holder that dies while the waiter before
//!   this one is stopped, a command that outlives its `run`.
//!
//! To look is to read without a transaction. Only if there is something to do is a step made:
//! to accept an offer, or to move the line on with what was found out. An offer is
//! accepted by a step of its own before anybody relies on it: it may have been passed on while
//! the waiter was stopped, and then the waiter asks again.
//!
//! Whoever stops waiting leaves the line and gives back what it was granted in that
//! instant. If even that fails, the grant is an offer that nobody accepts: it passes on.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tenure_core::decide::{Ask, Change, Decision, Millis, Outcome, decide, next_look};
use tenure_core::request::Newcomer;
use tenure_core::{
    Asker, Error, Lease, LeaseId, Mode, Owner, Request, Resource, Result, UpgradeRequest,
};

use super::inner::Inner;
use super::load::{Dead, Line, Loaded, ahead_of, load, load_lease};
use super::moment::Moment;
use super::row::LeaseRow;
use super::step::Step;
use crate::connection::Sql;
use crate::wake::{Death, Wake};

/// How long the first in line sleeps at most; those behind it longer.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How long anyone sleeps at most.
const LOOK_EVERY_MAX: Duration = Duration::from_secs(5);

/// What is waited for.
#[derive(Clone, Copy)]
pub(super) enum Place<'a> {
    /// A new lease.
    Lease(&'a Request),
    /// That a lease becomes write.
    Upgrade(&'a UpgradeRequest, &'a Resource),
}

impl Place<'_> {
    fn lease(&self) -> &LeaseId {
        match self {
            Place::Lease(request) => &request.lease,
            Place::Upgrade(request, _) => &request.lease,
        }
    }

    fn resource(&self) -> &Resource {
        match self {
            Place::Lease(request) => &request.resource,
            Place::Upgrade(_, resource) => resource,
        }
    }

    fn asker(&self) -> &Asker {
        match self {
            Place::Lease(request) => &request.asker,
            Place::Upgrade(request, _) => &request.asker,
        }
    }
}

/// A place in the line. Dropped before it was called, it leaves neither lock nor waiter.
pub(super) struct InLine<'a> {
    store: &'a Inner,
    place: Place<'a>,
    wake: Wake,
    /// When it gives up, on the clock that decides: nobody can set that one meanwhile.
    until: Millis,
    left: AtomicBool,
}

/// What a look found.
enum Seen {
    /// It was granted.
    Granted(Box<LeaseRow>),
    /// It is in line no more, and was granted nothing.
    Gone,
    /// It waits, and there is nothing to do.
    Waits(Sleep),
    /// It waits, and the line can move on now that these are known to be dead.
    Due(Dead),
}

/// How long to sleep, and whose end to watch meanwhile.
struct Sleep {
    most: Duration,
    watch: Option<u32>,
}

impl<'a> InLine<'a> {
    /// Listens before the place is taken, so that no wake-up is missed.
    pub(super) fn new(store: &'a Inner, place: Place<'a>, until: Millis) -> Result<Self> {
        let session = &place.asker().session;
        store.sessions.file(session)?;
        Ok(Self {
            wake: Wake::listen(store.wake_directory(), session)?,
            store,
            place,
            until,
            left: AtomicBool::new(false),
        })
    }

    /// Nothing is to be given back any more.
    pub(super) fn left(&self) {
        self.left.store(true, Ordering::Relaxed);
    }

    /// Waits for the grant. None if the place in line was lost: it is to be asked for again.
    pub(super) async fn called(&self) -> Result<Option<Lease>> {
        let mut ended = None;
        loop {
            let sleep = match self.look().await? {
                Seen::Granted(row) => match self.accept(*row).await? {
                    Some(lease) => return Ok(Some(lease)),
                    None => continue,
                },
                Seen::Gone if self.is_late()? => return Err(self.late()),
                Seen::Gone => return Ok(None),
                Seen::Due(dead) => {
                    let actor = &self.place.asker().owner;
                    let moved = self.store.move_on(self.place.resource(), &dead, actor);
                    if moved.await? {
                        continue;
                    }
                    // Someone else moved the line in between, and saw less or more.
                    Sleep {
                        most: LOOK_EVERY,
                        watch: None,
                    }
                }
                Seen::Waits(sleep) => sleep,
            };
            // A process that ended although its session goes on is not watched again.
            let watch = sleep.watch.filter(|pid| Some(*pid) != ended);
            let death = watch.map(Death::watch);
            tokio::select! {
                heard = self.wake.heard() => {
                    heard?;
                    // Woken means granted, nearly always: no look first.
                    if let Some(lease) = self.accept_at_once().await? {
                        return Ok(Some(lease));
                    }
                }
                () = died(death.as_ref()) => ended = watch,
                () = tokio::time::sleep(sleep.most) => self.store.look_at_database()?,
            }
        }
    }

    fn late(&self) -> Error {
        let mode = match self.place {
            Place::Lease(request) => request.mode,
            Place::Upgrade(..) => Mode::Write,
        };
        self.store.late(self.place.resource(), mode)
    }

    /// Whether the time to wait is over.
    fn is_late(&self) -> Result<bool> {
        Ok(self.until <= Moment::now()?.boot)
    }

    async fn look(&self) -> Result<Seen> {
        self.store.read(|sql| self.see(sql)).await
    }

    fn see(&self, sql: &Sql<'_>) -> Result<Seen> {
        let moment = Moment::now()?;
        let id = self.place.lease();
        if let Some(row) = self.granted(sql, &moment)? {
            return Ok(Seen::Granted(Box::new(row)));
        }
        let sessions = &self.store.sessions;
        let resource = self.place.resource();
        let mut loaded = load(sql, sessions, resource, Line::Around(id), &moment)?;
        let Some(index) = index_in_line(&loaded, id) else {
            // It left the line between the two reads, perhaps because it was granted.
            let granted = self.granted(sql, &moment)?;
            return Ok(granted.map_or(Seen::Gone, |row| Seen::Granted(Box::new(row))));
        };
        let before = index.checked_sub(1).map(|before| &loaded.waiters[before]);
        let holders = loaded.leases.iter().filter(|row| row.lease.lease != *id);
        let keeping = holders.clone().filter(|row| row.ends_with_session());
        let suspects = keeping.map(|row| &row.lease.session);
        let suspects = suspects.chain(before.map(|waiter| &waiter.session));
        let dead = sessions.dead(sql, suspects)?;
        let watch = match before {
            Some(waiter) => Some(waiter.pid),
            None => holders.clone().map(|row| row.lease.pid).next(),
        };
        loaded.bury(&dead);
        let state = loaded.state();
        if !decide(&state, &Ask::Look, moment.boot).changes.is_empty() {
            return Ok(Seen::Due(dead));
        }
        let ahead = match index {
            0 => 0,
            _ => ahead_of(sql, resource, id)?,
        };
        let mut most = LOOK_EVERY.saturating_mul(ahead + 1).min(LOOK_EVERY_MAX);
        // Only the first in line looks on the dot: it is enough that one does.
        if index == 0
            && let Some(at) = next_look(&state, moment.boot)
        {
            // One more, so that the time is over when the look is taken.
            let left = at.saturating_sub(moment.boot).saturating_add(1);
            most = most.min(Duration::from_millis(left));
        }
        Ok(Seen::Waits(Sleep { most, watch }))
    }

    /// The row of what is waited for, if it was granted.
    fn granted(&self, sql: &Sql<'_>, moment: &Moment) -> Result<Option<LeaseRow>> {
        let id = self.place.lease();
        let row = load_lease(sql, id, moment)?;
        match self.place {
            Place::Lease(_) => Ok(row),
            Place::Upgrade(..) => {
                let row = row.ok_or_else(|| self.store.over(id))?;
                Ok(Some(row).filter(|row| row.lease.mode == Mode::Write))
            }
        }
    }

    /// Takes up a new lease, if it was granted.
    async fn accept_at_once(&self) -> Result<Option<Lease>> {
        match self.place {
            Place::Upgrade(..) => Ok(None),
            Place::Lease(request) => {
                let id = &request.lease;
                self.store.write(|step| accept(step, id)).await
            }
        }
    }

    /// Takes up what was granted. None if it had passed on already.
    async fn accept(&self, row: LeaseRow) -> Result<Option<Lease>> {
        match self.place {
            Place::Upgrade(..) => {
                let id = &row.lease.lease;
                self.store.write(|step| claim_upgrade(step, id)).await
            }
            Place::Lease(_) => self.accept_at_once().await,
        }
    }
}

impl Drop for InLine<'_> {
    fn drop(&mut self) {
        if self.left.load(Ordering::Relaxed) {
            return;
        }
        match self.place {
            Place::Lease(request) => self.store.withdraw(&request.lease, &request.resource),
            Place::Upgrade(upgrade, resource) => {
                let session = &upgrade.asker.session;
                self.store
                    .withdraw_upgrade(&upgrade.lease, resource, session);
            }
        }
    }
}

/// Never ends if there is nobody to watch.
async fn died(death: Option<&Death>) {
    match death {
        Some(death) => death.died().await,
        None => std::future::pending().await,
    }
}

/// The place in line from 0; a waiting upgrade is before all others.
fn index_in_line(loaded: &Loaded, id: &LeaseId) -> Option<usize> {
    let waiters = &loaded.waiters;
    waiters.iter().position(|row| row.waiter.lease == *id)
}

fn accept(step: &mut Step<'_>, id: &LeaseId) -> Result<Option<Lease>> {
    let ask = Ask::Accept { lease: id.clone() };
    let Some(row) = load_lease(step.sql, id, &step.moment)? else {
        return Ok(None);
    };
    // Nobody else has a say in it, so its own row is enough, unless its time is over: then
    // the line has to move on, and that needs all of it.
    let mut loaded = Loaded::alone(&row);
    let mut decision = step.decide_alone(&loaded, &ask);
    let resource = &row.lease.resource;
    if lets_go(&decision) {
        (loaded, decision) = step.decide(resource, Line::Front, &ask, &Dead::new())?;
    }
    step.write(resource, &loaded, &decision.changes, Newcomer::None)?;
    match decision.outcome {
        Outcome::Done => {
            let mut lease = row.lease.clone();
            lease.state = tenure_core::LeaseState::Held;
            lease.heartbeat_at = step.moment.wall;
            step.granted(&lease)?;
            Ok(Some(lease))
        }
        Outcome::Refused(tenure_core::decide::Refusal::Revoked) => {
            // Broken before it was taken up. There is nothing to stop; leaving the line ends it.
            Err(step.store.over(id))
        }
        _ => Ok(None),
    }
}

/// Claims an upgrade that whoever left granted. None if it is not there any more.
fn claim_upgrade(step: &mut Step<'_>, id: &LeaseId) -> Result<Option<Lease>> {
    let row = load_lease(step.sql, id, &step.moment)?;
    let Some(row) = row.filter(|row| row.lease.mode == Mode::Write) else {
        return Ok(None);
    };
    step.upgraded(&row.lease)?;
    Ok(Some(row.lease))
}

fn lets_go(decision: &Decision) -> bool {
    let removes = |change: &Change| matches!(change, Change::Remove { .. });
    decision.changes.iter().any(removes)
}

impl Inner {
    /// Moves a line on, with what was found out about its sessions. Whether anything changed.
    pub(super) async fn move_on(
        &self,
        resource: &Resource,
        dead: &Dead,
        actor: &Owner,
    ) -> Result<bool> {
        self.write(|step| {
            step.actor = Some(actor.clone());
            move_on(step, resource, dead)
        })
        .await
    }

    /// The same, if the database is free at this moment.
    pub(super) fn move_on_now(&self, resource: &Resource, dead: &Dead) -> Result<bool> {
        self.write_once(&mut |step| move_on(step, resource, dead))
    }
}

fn move_on(step: &mut Step<'_>, resource: &Resource, dead: &Dead) -> Result<bool> {
    let (loaded, decision) = step.decide(resource, Line::Front, &Ask::Look, dead)?;
    step.write(resource, &loaded, &decision.changes, Newcomer::None)?;
    Ok(!decision.changes.is_empty())
}
