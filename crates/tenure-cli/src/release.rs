//! `tenure release`: ends leases, named by their id or by their resource.

use std::process::ExitCode;

use tenure::{Error, Keeper, Lease, LeaseId, Mode, Owner, Resource, Result};

use crate::cli::{self, Global, Slot, parse_resource};
use crate::context::{Context, WAIT_DEFAULT, owner, owner_given};
use crate::report::Failure;
use crate::runtime;
use crate::several::Several;

/// Releases every lease that can be.
pub fn release(global: &Global, options: cli::Release) -> Result<ExitCode, Failure> {
    let context = Context::new(global)?;
    let by = owner_given(options.by.owner)?;
    runtime::block_on(async {
        let keeper = context.keeper(WAIT_DEFAULT).await?;
        let mut several = Several::default();
        for name in &options.leases {
            several.note(
                name,
                release_one(&context, &keeper, name, by.as_ref()).await,
            );
        }
        several.report(global.json, |lease| {
            format!("released {}: {}", lease.lease, lease.resource)
        })
    })
}

/// Releases the lease of an id, looked up in the store and among the slots, or else the only lease of a
/// resource.
async fn release_one(
    context: &Context,
    keeper: &Keeper,
    name: &str,
    by: Option<&Owner>,
) -> Result<Lease> {
    let lease = LeaseId::parse(name).ok();
    if let Some(lease) = &lease {
        match keeper.release(lease, by).await {
            Err(Error::NotFound(_)) => {}
            answer => return answer,
        }
    }
    // The slots are opened only for a lease that is not in the store.
    let slots = context.slots_if_made().await?;
    if let (Some(lease), Some(slots)) = (&lease, &slots) {
        match slots.release(lease, by).await {
            Err(Error::NotFound(_)) => {}
            answer => return answer,
        }
    }
    let resource = parse_resource(name.as_bytes()).map_err(Error::BadInput)?;
    let keeper = match slots.as_ref().filter(|_| resource.kind() == Slot::KIND) {
        Some(slots) => slots,
        None => keeper,
    };
    let owner = owner(by.cloned())?;
    let lease = only_lease_of(keeper, &resource, &owner).await?;
    keeper.release(&lease, Some(&owner)).await
}

/// Returns the only lease of a resource that an owner has.
async fn only_lease_of(keeper: &Keeper, resource: &Resource, owner: &Owner) -> Result<LeaseId> {
    let mut held = keeper.holders(resource).await?;
    held.retain(|lease| lease.owner == *owner);
    match &held[..] {
        [one] => Ok(one.lease.clone()),
        [] => Err(Error::NotFound(format!(
            "there is no lease of that id, and {owner} has none of {resource}, in {}",
            keeper.store().url()
        ))),
        several => {
            let ids: Vec<&str> = several.iter().map(|lease| lease.lease.as_str()).collect();
            Err(Error::conflict(
                keeper.store().context_of(resource, Mode::Write),
                format!("one lease of {owner}"),
                format!("held by it {} times: {}", ids.len(), ids.join(", ")),
            ))
        }
    }
}
