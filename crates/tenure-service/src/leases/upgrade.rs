//! Makes a lease exclusive, and shared again.

use tenure::{LockSet, Mode, Result};
use tenure_api::leases::{Downgrade, Leases, Upgrade};

use crate::waiting::{Wait, wait};
use crate::{Caller, Handle, Service, WAIT_DEFAULT};

impl Handle<Upgrade> for Service {
    async fn handle(&self, request: Upgrade, caller: &Caller) -> Result<Leases> {
        let asked = request.wait.map(|wait| wait.0);
        let limit = self.limit(caller, asked, WAIT_DEFAULT, None)?;
        let keeper = self.locks_within(caller, limit, None).await?;
        // The lease is looked up first, so that a wait can name its resource. A store without
        // leases reports itself that it cannot upgrade one.
        let before = if keeper.keeps_leases() {
            Some(keeper.find(&request.lease).await?)
        } else {
            None
        };
        let set = before.map(|before| (before.resource, Mode::Write));
        let set = LockSet::new(&keeper.settings().ranking, set);
        let session = keeper.session(caller.session());
        let about = Wait {
            session: &session,
            set: &set,
            limit: limit.whole(),
            slots: None,
            own: Some(&request.lease),
        };
        let by = caller.named_owner();
        let asking = keeper.upgrade(&session, &request.lease, Some(limit.left()), by);
        let upgraded = wait(asking, about, caller).await;
        upgraded
            .map(Leases::one)
            .map_err(|error| limit.whole_in(error))
    }
}

impl Handle<Downgrade> for Service {
    async fn handle(&self, request: Downgrade, caller: &Caller) -> Result<Leases> {
        let keeper = self.locks(caller).await?;
        let downgraded = keeper.downgrade(&request.lease, caller.named_owner());
        downgraded.await.map(Leases::one)
    }
}
