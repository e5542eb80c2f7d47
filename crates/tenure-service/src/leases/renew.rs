//! Gives a lease new time.

use tenure::Result;
use tenure_api::leases::{Leases, Renew};

use crate::{Caller, Handle, Service};

impl Handle<Renew> for Service {
    async fn handle(&self, request: Renew, caller: &Caller) -> Result<Leases> {
        let keeper = self.locks(caller).await?;
        let ttl = request.ttl.map(|ttl| ttl.0);
        let renewed = keeper.renew(&request.lease, ttl, caller.named_owner());
        renewed.await.map(Leases::one)
    }
}
