//! Upgradeable to write, and back.

use tenure_core::decide::{Ask, Outcome};
use tenure_core::internal::loaded::LineExtent;
use tenure_core::request::Awaited;
use tenure_core::{LeaseId, Mode, Owner, Result, Token, UpgradeRequest};

use super::inner::Inner;
use super::load::{DeadSessions, load_lease};
use super::moment::Moment;
use super::row::{LeaseRow, durability_of};

impl Inner {
    pub(super) async fn upgrade(&self, request: &UpgradeRequest) -> Result<Option<Token>> {
        self.clean_up_upgrade(&request.lease).await?;
        let row = self.row_of(&request.lease).await?;
        let floor = durability_of(&row);
        let awaited = Awaited::Upgrade(request.clone(), row.lease.resource);
        let upgraded = self.until_answered(&awaited, floor).await?;
        Ok(upgraded.map(|lease| lease.token))
    }

    pub(super) async fn downgrade(&self, lease: &LeaseId, actor: Option<&Owner>) -> Result<Mode> {
        let row = self.row_of(lease).await?;
        let resource = &row.lease.resource;
        self.write(durability_of(&row), |step| {
            step.actor = actor.cloned();
            let downgrade = Ask::Downgrade(lease.clone());
            let nobody = DeadSessions::new();
            let decision =
                step.decide_and_write(resource, LineExtent::Front, &downgrade, &nobody)?;
            match decision.outcome {
                Outcome::Refused(refusal) => {
                    Err(refusal.of_mode(lease, self.context(resource, Mode::Upgradeable)))
                }
                _ => Ok(Mode::Upgradeable),
            }
        })
        .await
    }

    /// Returns a lease as it is, or the error that it is gone.
    pub(super) async fn row_of(&self, lease: &LeaseId) -> Result<LeaseRow> {
        let row = self.read(|sql| load_lease(sql, lease, &Moment::now()?));
        match row.await? {
            Some(row) => Ok(row),
            None => Err(self.gone(lease).await),
        }
    }
}
