//! Ends a lease, named by its id or by its resource.

use tenure::{Error, Keeper, LeaseId, Mode, Owner, Resource, Result};
use tenure_api::leases::{Leases, Release};

use crate::{Caller, Handle, SLOT_KIND, Service};

impl Handle<Release> for Service {
    async fn handle(&self, request: Release, caller: &Caller) -> Result<Leases> {
        let by = caller.named_owner();
        let keeper = self.locks(caller).await?;
        let lease = LeaseId::parse(&request.lease).ok();
        if let Some(lease) = &lease {
            match keeper.release(lease, by).await {
                Err(Error::NotFound(_)) => {}
                answer => return answer.map(Leases::one),
            }
        }
        // The slots are opened only for a lease that is not in the store.
        let slots = self.slots_if_made(caller).await?;
        if let (Some(lease), Some(slots)) = (&lease, &slots) {
            match slots.release(lease, by).await {
                Err(Error::NotFound(_)) => {}
                answer => return answer.map(Leases::one),
            }
        }
        let resource = Resource::parse(&request.lease);
        let resource = resource.map_err(|error| Error::BadInput(error.to_string()))?;
        let keeper = match slots.as_ref().filter(|_| resource.kind() == SLOT_KIND) {
            Some(slots) => slots,
            None => &keeper,
        };
        let lease = only_lease_of(keeper, &resource, caller.owner()).await?;
        let released = keeper.release(&lease, Some(caller.owner())).await;
        released.map(Leases::one)
    }
}

/// Returns the only lease of a resource that an owner has.
async fn only_lease_of(keeper: &Keeper, resource: &Resource, owner: &Owner) -> Result<LeaseId> {
    let mut held = keeper.holders(resource).await?;
    held.retain(|lease| lease.owner == *owner);
    match &held[..] {
        [one] => Ok(one.lease.clone()),
        [] => Err(Error::NotFound(format!(
            "there is no lease of that id, and {owner} has none of {resource}, in {}",
            keeper.url()
        ))),
        several => {
            let ids: Vec<&str> = several.iter().map(|lease| lease.lease.as_str()).collect();
            Err(Error::unexpected(
                keeper.context_of(resource, Mode::Write),
                format!("one lease of {owner}"),
                format!("held by it {} times: {}", ids.len(), ids.join(", ")),
            ))
        }
    }
}
