//! The operations on locks.

mod acquire;
mod ls;
mod release;
mod upgrade;

use tenure::audit::{AuditPage, AuditQuery};
use tenure::leases::Recovery;
use tenure::{Error, Result};
use tenure_api::leases::{Audit, Break, Check, Checked, Find, Leases, Recover, Renew, Stale};
use tenure_work::publish;

use crate::store_identity::is_there;
use crate::{Caller, Handle, SLOT_KIND, Service};

impl Handle<Find> for Service {
    async fn handle(&self, request: Find, caller: &Caller) -> Result<Leases> {
        let keeper = self.keeper_of(&request.lease, caller).await?;
        keeper.find(&request.lease).await.map(Leases::one)
    }
}

impl Handle<Check> for Service {
    async fn handle(&self, request: Check, caller: &Caller) -> Result<Checked> {
        let Check { resource, token } = request;
        // Without a store no token is known, and a check does not make a store.
        if !is_there(&self.located().url) {
            let problem = format!("there is no store at {}", self.shown_store());
            return Err(Error::NotFound(problem));
        }
        let keeper = self.locks(caller).await?;
        keeper.check(&resource, token).await?;
        let good = true;
        Ok(Checked {
            resource,
            token,
            good,
        })
    }
}

impl Handle<Renew> for Service {
    async fn handle(&self, request: Renew, caller: &Caller) -> Result<Leases> {
        let keeper = self.locks(caller).await?;
        let ttl = request.ttl.map(|ttl| ttl.0);
        let renewed = keeper.renew(&request.lease, ttl, caller.named_owner());
        renewed.await.map(Leases::one)
    }
}

impl Handle<Break> for Service {
    async fn handle(&self, request: Break, caller: &Caller) -> Result<Leases> {
        let keeper = self.keeper_of(&request.lease, caller).await?;
        let broken = keeper.break_lease(&request.lease, caller.owner(), &request.reason);
        broken.await.map(Leases::one)
    }
}

impl Handle<Recover> for Service {
    async fn handle(&self, request: Recover, caller: &Caller) -> Result<Stale> {
        self.check_caller(caller)?;
        let recovery = if request.dry_run {
            Recovery::DryRun
        } else {
            Recovery::Real
        };
        let (keeper, actor) = (self.locks(caller).await?, caller.owner());
        let leases = keeper.recover(actor, recovery).await?;
        let (manifests, directories) = publish::recover(&keeper, actor, recovery).await?;
        Ok(Stale {
            leases,
            next: None,
            manifests,
            directories,
        })
    }
}

impl Handle<Audit> for Service {
    async fn handle(&self, request: Audit, caller: &Caller) -> Result<AuditPage> {
        let resource = request.resource.as_ref();
        let of_slots = resource.is_some_and(|resource| resource.kind() == SLOT_KIND);
        let mut query = AuditQuery::default();
        query.resource = request.resource;
        query.since = request.since;
        query.limit = request.limit;
        query.after = request.after;
        let keeper = self.locks_or_slots(of_slots, caller).await?;
        keeper.audit(&query).await
    }
}
