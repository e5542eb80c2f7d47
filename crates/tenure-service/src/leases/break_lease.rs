//! Takes a lease away from its holder. It is for people.

use tenure::Result;
use tenure_api::leases::{Break, Leases};

use crate::{Caller, Handle, Service};

impl Handle<Break> for Service {
    async fn handle(&self, request: Break, caller: &Caller) -> Result<Leases> {
        let keeper = self.keeper_of(&request.lease, caller).await?;
        let broken = keeper.break_lease(&request.lease, caller.owner(), &request.reason);
        broken.await.map(Leases::one)
    }
}
