//! Waiting in line.
//!
//! # The protocol
//!
//! A waiter has a place in line, and its process hears for it (`ear`) since before it had. It sleeps until one
//! of these happens, and then looks:
//!
//! - It is woken: the transaction that granted it something, or took it out of the line, notified its process.
//! - It has become the one that looks after the line for its process, or its process was deaf for a moment.
//! - Its timer ends. Only the first of its process for the resource has one: when the next offer, break or lease
//!   runs out, a moment later for each process before it; and else after a second for each of them, 15 seconds at most,
//!   never quite together with others. This heals what a wake-up cannot: a holder whose lease ran out, a waiter
//!   before this one whose process is gone, a notification that was lost with its connection.
//!
//! Who was woken first takes up what it may have on offer, in one statement (`tenure.take_up` in the schema). Where there
//! is no offer it looks.
//!
//! To look is a step. What was granted is taken up in it; else the line is moved on, if it can be; else nothing is
//! written. An offer is taken up before anybody relies on it: it may have been passed on while the waiter was
//! stopped, and then the waiter asks again.
//!
//! A crash of the waiter: its process is not seen for 15 seconds, and whoever moves the line passes over it; what it was
//! offered passes on after 5. A crash of the one that granted: its transaction is whole or not there, and
//! the notification with it. Where the connection is lost the waiter stays, and asks again until its own deadline.
//!
//! Whoever stops waiting leaves the line and gives back what it was granted in that instant (`owed`).

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tenure_core::decide::{Ask, Millis, Outcome, Refusal, Wait};
use tenure_core::leases::grace;
use tenure_core::request::Newcomer;
use tenure_core::{Asker, Error, Lease, LeaseId, Mode, Request, Resource, Result, UpgradeRequest};
use tokio::time::{sleep, timeout};

use super::acquire::Got;
use super::change::begin;
use super::ear::{Hearing, PRESENT_FOR};
use super::inner::Inner;
use super::load::Line;
use super::moment::Moment;
use super::owed::{self, Debt};
use super::patience::{Patience, time_left};
use super::release::give_up;
use super::rest::Rest;
use super::row::{millis, token};
use super::sql::{Asked, values};
use super::step::Step;
use crate::connect::spread;
use crate::fault::unreachable;

/// What is waited for.
#[derive(Clone)]
pub(super) enum Place {
    /// A new lease.
    Lease(Arc<Request>),
    /// That a lease becomes write.
    Upgrade(Arc<UpgradeRequest>, Resource),
}

impl Place {
    pub(super) fn lease(&self) -> &LeaseId {
        match self {
            Place::Lease(request) => &request.lease,
            Place::Upgrade(request, _) => &request.lease,
        }
    }

    pub(super) fn resource(&self) -> &Resource {
        match self {
            Place::Lease(request) => &request.resource,
            Place::Upgrade(_, resource) => resource,
        }
    }

    pub(super) fn asker(&self) -> &Asker {
        match self {
            Place::Lease(request) => &request.asker,
            Place::Upgrade(request, _) => &request.asker,
        }
    }

    pub(super) fn until(&self) -> Millis {
        let until = match self {
            Place::Lease(request) => request.until,
            Place::Upgrade(request, _) => request.until,
        };
        until.unwrap_or(Millis::MAX)
    }

    fn mode(&self) -> Mode {
        match self {
            Place::Lease(request) => request.mode,
            Place::Upgrade(..) => Mode::Write,
        }
    }
}

/// A request on its way: in line, or about to be. Dropped before it was granted, it leaves neither lock nor waiter.
pub(super) struct InLine {
    store: Arc<Inner>,
    place: Place,
    hearing: Option<Hearing>,
    stage: Stage,
    /// Something of an earlier request under the same id may be there, or of this one, for all that is known.
    pub(super) doubtful: bool,
    /// Why the database could not be reached, the last time it could not.
    trouble: Option<String>,
}

/// What a drop has to do.
enum Stage {
    /// Nothing: nothing was asked yet, or all is said and done.
    Clear,
    /// A step is under way, which takes back what it got when it ends.
    InStep,
    /// It may have a place in line, or a grant.
    Asked,
}

/// Why a waiter woke up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Woken {
    /// Somebody rang for it.
    ByName,
    /// Its timer ended.
    ByTime,
}

/// What a look found.
pub(super) enum Seen {
    /// It was granted, and is taken up.
    Granted(Box<Lease>),
    /// It is in line no more, and was granted nothing.
    Gone,
    /// It waits, and there is nothing to do.
    Waits(Rest),
    /// The line has moved on.
    Moved,
}

impl InLine {
    pub(super) fn new(store: &Inner, place: Place) -> Result<Self> {
        let store = store.itself.upgrade();
        let store = store.ok_or_else(|| Error::Internal("the store is closed".into()))?;
        let doubtful = store.debts.strike(place.lease(), &place.asker().session);
        Ok(Self {
            store,
            place,
            hearing: None,
            stage: Stage::Clear,
            doubtful,
            trouble: None,
        })
    }

    /// Nothing is to be given back any more.
    pub(super) fn left(&mut self) {
        self.stage = Stage::Clear;
    }

    /// Makes a step, which comes to its end even if this is dropped.
    pub(super) async fn carry<T, F>(
        &mut self,
        work: impl FnOnce(Arc<Inner>, Place) -> F,
    ) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let (store, place) = (Arc::clone(&self.store), self.place.clone());
        let debt = self.owe();
        self.stage = Stage::InStep;
        let undo = {
            let (store, place, debt) = (Arc::clone(&store), place.clone(), debt.clone());
            move |_| pay(store, place, debt)
        };
        let done = owed::carry(&self.store, work(store, place), undo).await;
        self.store.debts.paid(&debt);
        self.stage = Stage::Asked;
        self.doubtful |= done.as_ref().is_err_and(is_doubtful);
        if let Err(Error::Unreachable { problem, .. }) = &done {
            self.trouble = Some(problem.clone());
        }
        done
    }

    /// The same for a step that asks: refused, it left everything as it was.
    pub(super) async fn ask<T, F>(&mut self, work: impl FnOnce(Arc<Inner>, Place) -> F) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let asked = self.carry(work).await;
        if asked.as_ref().is_err_and(|error| !is_doubtful(error)) && !self.doubtful {
            self.left();
        }
        asked
    }

    /// Listens, before there is a place in line to be woken at.
    pub(super) async fn hear(&mut self) -> Result<()> {
        if self.hearing.is_none() {
            let left = Duration::from_millis(time_left(self.place.until()));
            let join = self
                .store
                .ear
                .join(self.place.lease(), self.place.resource());
            let joined = timeout(left, join).await;
            // Where nothing failed so far somebody was in the way a moment ago, and the server answers.
            let late = || match (self.doubtful, &self.trouble) {
                (true, Some(trouble)) => unreachable(self.store.address(), trouble),
                (true, None) => unreachable(self.store.address(), "it does not answer"),
                (false, _) => self.late(),
            };
            self.hearing = Some(joined.unwrap_or_else(|_| Err(late()))?);
        }
        Ok(())
    }

    /// Takes a place in line and waits for a new lease. None if the place was lost: it is to be asked for again.
    pub(super) async fn wait_for_lease(&mut self) -> Result<Option<Lease>> {
        self.hear().await?;
        let got = self.ask(|store, place| async move {
            let wait = Wait::Until(place.until());
            match &place {
                Place::Lease(request) => store.ask_for(request, wait).await,
                Place::Upgrade(..) => Err(Error::Internal("an upgrade is no new lease".into())),
            }
        });
        match got.await? {
            Got::Granted(lease) => Ok(Some(*lease)),
            Got::Queued(rest) => self.called(rest).await,
            Got::Busy => Err(self.late()),
            Got::Again => Ok(None),
        }
    }

    /// Waits for the grant. None if the place in line was lost: it is to be asked for again.
    pub(super) async fn called(&mut self, mut rest: Rest) -> Result<Option<Lease>> {
        loop {
            let woken = self.sleep(rest).await;
            if time_left(self.place.until()) == 0 {
                return Err(self.late());
            }
            if woken == Woken::ByName
                && let Some(lease) = self.carry(take_up).await?
            {
                return Ok(Some(lease));
            }
            let seen = loop {
                match self.carry(look).await? {
                    Seen::Moved => {}
                    seen => break seen,
                }
            };
            match seen {
                Seen::Granted(lease) => return Ok(Some(*lease)),
                Seen::Waits(longer) => rest = longer,
                Seen::Gone | Seen::Moved => return Ok(None),
            }
        }
    }

    /// Sleeps until there is reason to look, or no time left.
    async fn sleep(&self, rest: Rest) -> Woken {
        let Some(hearing) = &self.hearing else {
            return Woken::ByTime;
        };
        let left = Duration::from_millis(time_left(self.place.until()));
        let timer = match hearing.is_first() {
            true => rest.timer(spread()).min(left),
            false => left,
        };
        tokio::select! {
            () = hearing.woken() => Woken::ByName,
            () = sleep(timer) => Woken::ByTime,
        }
    }

    pub(super) fn late(&self) -> Error {
        self.store.late(self.place.resource(), self.place.mode())
    }

    fn owe(&self) -> Debt {
        let session = &self.place.asker().session;
        self.store.debts.owe(self.place.lease(), session)
    }
}

impl Drop for InLine {
    fn drop(&mut self) {
        if matches!(self.stage, Stage::Asked) {
            let pay = pay(Arc::clone(&self.store), self.place.clone(), self.owe());
            self.store.leave_behind(pay);
        }
    }
}

/// Leaves the line, or gives back what was granted, as soon as that is possible and for as long as there may be
/// something to give back.
async fn pay(store: Arc<Inner>, place: Place, debt: Debt) {
    let ends = Instant::now() + store.ttl().max(PRESENT_FOR);
    let mut patience = Patience::until(None);
    while store.debts.is_owed(&debt) && Instant::now() < ends {
        let given = give_up(&store, &place, &debt).await;
        let Err(error) = given else { break };
        if patience.pause(error).await.is_err() {
            break;
        }
    }
    store.debts.paid(&debt);
}

/// Takes up the offer of a new lease, where there is one: one statement and one round trip. Else all is left as it was.
async fn take_up(store: Arc<Inner>, place: Place) -> Result<Option<Lease>> {
    const TAKE_UP: &str =
        "SELECT token, acquired_at, now FROM tenure.take_up($1, $2) WHERE token IS NOT NULL";
    let Place::Lease(request) = &place else {
        return Ok(None);
    };
    let values = values![request.lease.as_str(), request.resource.as_str()];
    let sql = store.lend_until(place.until()).await?;
    let row = sql.row(&Asked::new(TAKE_UP, values)).await?;
    let Some(row) = row else { return Ok(None) };
    let moment = Moment::read(&row, 2)?;
    let expires = moment.now().saturating_add(millis(store.ttl()));
    let lease = begin(request, token(&row, 0)?, &moment, expires);
    Ok(Some(Lease {
        acquired_at: Moment::read(&row, 1)?.wall(),
        ..lease
    }))
}

/// One look.
async fn look(store: Arc<Inner>, place: Place) -> Result<Seen> {
    let id = place.lease();
    let line = Line::FrontAnd(id);
    let step = Step::on_until(place.until(), &store, place.resource(), line).await?;
    let Some(mut step) = step else {
        return Ok(Seen::Gone);
    };
    match (&place, step.loaded.lease(id)) {
        (Place::Lease(_), Some(_)) => return accept(step, id).await,
        (Place::Lease(_), None) => {}
        (Place::Upgrade(..), None) => {
            step.roll_back().await?;
            return Err(store.gone(id).await);
        }
        (Place::Upgrade(request, _), Some(row)) => {
            let ours = row.upgraded_by.as_ref() == Some(&request.asker.session);
            if row.lease.mode == Mode::Write && ours {
                let lease = Box::new(row.lease.clone());
                step.roll_back().await?;
                return Ok(Seen::Granted(lease));
            }
        }
    }
    let session = &place.asker().session;
    let waits = step.loaded.waiter(id);
    if waits.is_none_or(|waiter| waiter.session != *session) {
        step.roll_back().await?;
        return Ok(Seen::Gone);
    }
    step.actor = Some(place.asker().owner.clone());
    let decision = step.decide(&Ask::Look).await?;
    if decision.changes.is_empty() {
        let rest = Rest::of(&step, id);
        step.roll_back().await?;
        return Ok(Seen::Waits(rest));
    }
    step.write(&decision.changes, Newcomer::None)?;
    step.commit().await?;
    Ok(Seen::Moved)
}

/// Takes up a lease that was granted: its time begins. Gone if it had passed on already.
pub(super) async fn accept(mut step: Step<'_>, id: &LeaseId) -> Result<Seen> {
    let ttl = step.loaded.lease(id).map(|row| row.ttl).unwrap_or_default();
    let ask = Ask::Bind {
        lease: id.clone(),
        ttl: millis(ttl),
        grace: millis(grace(ttl)),
    };
    let decision = step.decide(&ask).await?;
    step.write(&decision.changes, Newcomer::None)?;
    let lease = step.loaded.lease(id).map(|row| row.lease.clone());
    let store = step.store;
    step.commit().await?;
    match (decision.outcome, lease) {
        (Outcome::Done, Some(lease)) => Ok(Seen::Granted(Box::new(lease))),
        // Broken before it was taken up. There is nothing to stop; leaving the line ends it.
        (Outcome::Refused(Refusal::Revoked), _) => Err(store.over(id)),
        _ => Ok(Seen::Gone),
    }
}

/// Whether it leaves open what was done.
fn is_doubtful(error: &Error) -> bool {
    error.is_passing() || matches!(error, Error::Exhausted { .. } | Error::Internal(_))
}
