//! Looks a lease up.

use tenure::Result;
use tenure_api::leases::{Find, Leases};

use crate::{Caller, Handle, Service};

impl Handle<Find> for Service {
    async fn handle(&self, request: Find, caller: &Caller) -> Result<Leases> {
        let keeper = self.keeper_of(&request.lease, caller).await?;
        keeper.find(&request.lease).await.map(Leases::one)
    }
}
