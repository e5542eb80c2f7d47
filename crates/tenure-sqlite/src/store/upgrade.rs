//! Upgradeable to write, and back.

use tenure_core::decide::{Ask, Millis, Outcome, Wait};
use tenure_core::request::Newcomer;
use tenure_core::{Error, LeaseId, Mode, Resource, Result, SessionId, Token, UpgradeRequest};

use super::inner::Inner;
use super::load::{Dead, Line, load_lease};
use super::moment::Moment;
use super::step::Step;
use super::wait::{InLine, Place};

enum Asked {
    Granted(Token),
    Queued,
    Busy,
    Unproved(Vec<SessionId>),
}

impl Inner {
    pub(super) async fn try_become_write(&self, lease: &LeaseId) -> Result<Option<Token>> {
        self.settle_upgrade(lease).await?;
        let resource = self.resource_of(lease).await?;
        let asked = self.ask_upgrade(lease, &resource, Newcomer::None, Wait::No);
        match asked.await? {
            Asked::Granted(token) => Ok(Some(token)),
            _ => Ok(None),
        }
    }

    pub(super) async fn become_write(&self, request: &UpgradeRequest) -> Result<Token> {
        self.settle_upgrade(&request.lease).await?;
        let resource = self.resource_of(&request.lease).await?;
        let until = request.until.unwrap_or(Millis::MAX);
        let line = InLine::new(self, Place::Upgrade(request, &resource), until)?;
        loop {
            let newcomer = Newcomer::Upgrade(request);
            let wait = Wait::Until(until);
            let asked = self.ask_upgrade(&request.lease, &resource, newcomer, wait);
            let asked = asked.await;
            if !matches!(asked, Ok(Asked::Queued)) {
                // Nothing waits, and a refused upgrade leaves the lease as it was.
                line.left();
            }
            match asked? {
                Asked::Granted(token) => return Ok(token),
                Asked::Queued => {}
                Asked::Busy | Asked::Unproved(_) => {
                    return Err(self.late(&resource, Mode::Write));
                }
            }
            if let Some(lease) = line.called().await? {
                line.left();
                return Ok(lease.token);
            }
        }
    }

    async fn ask_upgrade(
        &self,
        lease: &LeaseId,
        resource: &Resource,
        newcomer: Newcomer<'_>,
        wait: Wait,
    ) -> Result<Asked> {
        let mut dead = Dead::new();
        let mut proved = false;
        loop {
            let asked =
                self.write(|step| ask_once(step, lease, resource, newcomer, wait, &dead, proved));
            match asked.await? {
                Asked::Unproved(sessions) => {
                    dead = self.read(|sql| self.sessions.dead(sql, &sessions)).await?;
                    proved = true;
                }
                other => return Ok(other),
            }
        }
    }

    pub(super) async fn become_upgradeable(&self, lease: &LeaseId) -> Result<Mode> {
        let resource = self.resource_of(lease).await?;
        self.write(|step| {
            let downgrade = Ask::Downgrade {
                lease: lease.clone(),
            };
            let (loaded, decision) =
                step.decide(&resource, Line::Front, &downgrade, &Dead::new())?;
            if let Outcome::Refused(refusal) = decision.outcome {
                return Err(refusal.of_mode(lease, step.store.place(&resource, Mode::Upgradeable)));
            }
            step.write(&resource, &loaded, &decision.changes, Newcomer::None)?;
            Ok(Mode::Upgradeable)
        })
        .await
    }

    /// What a lease is of.
    pub(super) async fn resource_of(&self, lease: &LeaseId) -> Result<Resource> {
        let row = self
            .read(|sql| load_lease(sql, lease, &Moment::now()?))
            .await?;
        match row {
            Some(row) => Ok(row.lease.resource),
            None => Err(self.gone(lease).await),
        }
    }
}

fn ask_once(
    step: &mut Step<'_>,
    lease: &LeaseId,
    resource: &Resource,
    newcomer: Newcomer<'_>,
    wait: Wait,
    dead: &Dead,
    proved: bool,
) -> Result<Asked> {
    let ask = Ask::Upgrade {
        lease: lease.clone(),
        wait,
    };
    let (loaded, decision) = step.decide(resource, Line::Front, &ask, dead)?;
    let must_wait = matches!(decision.outcome, Outcome::Busy | Outcome::Queued);
    if must_wait && !proved {
        return Ok(Asked::Unproved(loaded.in_the_way()));
    }
    if let Outcome::Refused(refusal) = decision.outcome {
        return Err(refusal.of_mode(lease, step.store.place(resource, Mode::Write)));
    }
    step.write(resource, &loaded, &decision.changes, newcomer)?;
    match decision.outcome {
        Outcome::Granted => {
            let row = load_lease(step.sql, lease, &step.moment)?;
            let row = row.ok_or_else(|| step.store.over(lease))?;
            Ok(Asked::Granted(row.lease.token))
        }
        Outcome::Queued => Ok(Asked::Queued),
        Outcome::Busy => Ok(Asked::Busy),
        other => Err(Error::Internal(format!("upgrade ended with {other:?}"))),
    }
}
