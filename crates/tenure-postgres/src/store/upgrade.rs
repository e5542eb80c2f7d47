//! Upgradeable to write, and back.
//!
//! An upgrade is a step on the resource of the lease, and waits like a new lease (`wait`). What differs: it is granted
//! outright, as its holder has the lease already; and the row remembers which session asked, so that whoever
//! gives up undoes its own upgrade and no other. An answer that is lost is asked for again: a lease that is write by then,
//! for this session, was upgraded by this very call.

use std::sync::Arc;

use tenure_core::decide::{Ask, Outcome, Refusal, Wait};
use tenure_core::request::Newcomer;
use tenure_core::{Error, LeaseId, Mode, Resource, Result, SessionId, Token, UpgradeRequest};

use super::acquire::Meeting;
use super::inner::Inner;
use super::load::load_lease;
use super::owed::carry;
use super::patience::Patience;
use super::rest::Rest;
use super::step::Step;
use super::wait::{InLine, Place};

enum Got {
    Granted(Token),
    Queued(Rest),
    Busy,
}

impl Inner {
    pub(super) async fn try_become_write(&self, lease: &LeaseId) -> Result<Option<Token>> {
        let (store, lease) = (self.arc()?, lease.clone());
        let undo = {
            let (store, lease) = (Arc::clone(&store), lease.clone());
            move |unwanted| async move {
                if let Ok(Got::Granted(_)) = unwanted {
                    // Where this fails the lease is write until it ends: stronger than its holder thinks.
                    drop(store.become_upgradeable(&lease).await);
                }
            }
        };
        let work = async move {
            let mut patience = Patience::briefly();
            let mut doubtful = false;
            loop {
                match ask(&store, &lease, Newcomer::None, Wait::No, doubtful).await {
                    Err(error) => patience.pause(error).await?,
                    got => return got,
                }
                doubtful = true;
            }
        };
        match carry(self, work, undo).await? {
            Got::Granted(token) => Ok(Some(token)),
            Got::Queued(_) | Got::Busy => Ok(None),
        }
    }

    pub(super) async fn become_write(&self, request: &UpgradeRequest) -> Result<Token> {
        let resource = self.resource_of(&request.lease).await?;
        let mut patience = Patience::until(request.until);
        let place = Place::Upgrade(Arc::new(request.clone()), resource);
        let mut line = InLine::new(self, place)?;
        loop {
            match line.wait_for_upgrade().await {
                Ok(Some(token)) => {
                    line.left();
                    return Ok(token);
                }
                // The place in line was lost: it is asked for again.
                Ok(None) => {}
                Err(error) => patience.pause(error).await?,
            }
        }
    }

    pub(super) async fn become_upgradeable(&self, lease: &LeaseId) -> Result<Mode> {
        let asked_before = std::sync::atomic::AtomicBool::new(false);
        self.retrying(|| async {
            let again = asked_before.swap(true, std::sync::atomic::Ordering::Relaxed);
            self.downgrade_once(lease, again).await
        })
        .await
    }

    async fn downgrade_once(&self, lease: &LeaseId, asked_before: bool) -> Result<Mode> {
        let Some(mut step) = Step::of_lease(self, lease).await? else {
            return Err(self.gone(lease).await);
        };
        let downgrade = Ask::Downgrade {
            lease: lease.clone(),
        };
        let decision = step.decide(&downgrade).await?;
        if let Outcome::Refused(refusal) = decision.outcome {
            let mode = step.loaded.lease(lease).map(|row| row.lease.mode);
            let error = refused(&step, lease, Mode::Upgradeable, refusal);
            step.roll_back().await?;
            return match mode {
                Some(Mode::Upgradeable) if asked_before => Ok(Mode::Upgradeable),
                _ => Err(error),
            };
        }
        step.write(&decision.changes, Newcomer::None)?;
        step.commit().await?;
        Ok(Mode::Upgradeable)
    }

    /// What a lease is of.
    pub(super) async fn resource_of(&self, lease: &LeaseId) -> Result<Resource> {
        let find = || async {
            let sql = self.lend().await?;
            load_lease(&sql, lease).await
        };
        match self.retrying(find).await? {
            Some((row, _)) => Ok(row.lease.resource),
            None => Err(self.gone(lease).await),
        }
    }
}

impl InLine {
    /// Takes a place before the line and waits for the upgrade. None if the place was lost.
    async fn wait_for_upgrade(&mut self) -> Result<Option<Token>> {
        self.hear().await?;
        let doubtful = self.doubtful;
        let got = self.ask(move |store, place| async move {
            let wait = Wait::Until(place.until());
            match &place {
                Place::Upgrade(request, _) => {
                    let newcomer = Newcomer::Upgrade(request);
                    ask(&store, &request.lease, newcomer, wait, doubtful).await
                }
                Place::Lease(_) => Err(Error::Internal("a new lease is no upgrade".into())),
            }
        });
        match got.await? {
            Got::Granted(token) => Ok(Some(token)),
            Got::Queued(rest) => Ok(self.called(rest).await?.map(|lease| lease.token)),
            Got::Busy => Err(self.late()),
        }
    }
}

/// Asks in a step. What this process itself is about to take back is in nobody's way.
async fn ask(
    store: &Inner,
    lease: &LeaseId,
    newcomer: Newcomer<'_>,
    wait: Wait,
    asked_before: bool,
) -> Result<Got> {
    let got = ask_once(store, lease, newcomer, wait, asked_before, Meeting::Wait);
    if let Some(got) = got.await? {
        return Ok(got);
    }
    store.settled().await;
    let got = ask_once(store, lease, newcomer, wait, asked_before, Meeting::Tell);
    let got = got.await?;
    got.ok_or_else(|| Error::Internal("asked for the last time, and not told".into()))
}

/// None if it would be turned away for something that this process is about to take back.
async fn ask_once(
    store: &Inner,
    lease: &LeaseId,
    newcomer: Newcomer<'_>,
    wait: Wait,
    asked_before: bool,
    meeting: Meeting,
) -> Result<Option<Got>> {
    let Some(mut step) = Step::of_lease(store, lease).await? else {
        return Err(store.gone(lease).await);
    };
    let session = match newcomer {
        Newcomer::Upgrade(request) => Some(&request.asker.session),
        _ => None,
    };
    if let Some(found) = asked_before.then(|| found(&step, lease, session)).flatten() {
        step.roll_back().await?;
        return Ok(Some(found));
    }
    let ask = Ask::Upgrade {
        lease: lease.clone(),
        wait: step.until(wait),
    };
    let decision = step.decide(&ask).await?;
    let busy = decision.outcome == Outcome::Busy && meeting == Meeting::Wait;
    if busy
        && store
            .debts
            .has_any(step.loaded.ids().filter(|id| *id != lease))
    {
        step.roll_back().await?;
        return Ok(None);
    }
    if let Outcome::Refused(refusal) = decision.outcome {
        let error = refused(&step, lease, Mode::Write, refusal);
        step.roll_back().await?;
        return Err(error);
    }
    step.write(&decision.changes, newcomer)?;
    let token = step.loaded.lease(lease).map(|row| row.lease.token);
    let rest = Rest::of(&step, lease);
    step.commit().await?;
    match (decision.outcome, token) {
        (Outcome::Granted, Some(token)) => Ok(Some(Got::Granted(token))),
        (Outcome::Queued, _) => Ok(Some(Got::Queued(rest))),
        (Outcome::Busy, _) => Ok(Some(Got::Busy)),
        (other, _) => Err(Error::Internal(format!("upgrade ended with {other:?}"))),
    }
}

/// What is there of an upgrade that was asked for before, and the answer lost.
fn found(step: &Step<'_>, lease: &LeaseId, session: Option<&SessionId>) -> Option<Got> {
    let held = step.loaded.lease(lease)?;
    if held.lease.mode == Mode::Write
        && held.holder.upgraded
        && held.upgraded_by.as_ref() == session
    {
        return Some(Got::Granted(held.lease.token));
    }
    let waiter = step.loaded.waiter(lease)?;
    (Some(&waiter.session) == session).then(|| Got::Queued(Rest::of(step, lease)))
}

fn refused(step: &Step<'_>, lease: &LeaseId, mode: Mode, refusal: Refusal) -> Error {
    match step.resource() {
        Ok(resource) => refusal.of_mode(lease, step.store.place(resource, mode)),
        Err(error) => error,
    }
}
