//! Ends stale leases, finishes or gives up publishes whose publishers are gone, and removes what
//! they left behind.

use tenure::Result;
use tenure::leases::Recovery;
use tenure_api::leases::{Recover, Stale};
use tenure_work::publish;

use crate::{Caller, Handle, Service};

impl Handle<Recover> for Service {
    async fn handle(&self, request: Recover, caller: &Caller) -> Result<Stale> {
        self.check_caller(caller)?;
        let recovery = match request.dry_run {
            true => Recovery::DryRun,
            false => Recovery::Real,
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
