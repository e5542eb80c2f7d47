//! A slot: one of N places for this user on this machine, taken before every lock. A pool: one of N
//! places for all who use the store, taken before the slot.
//!
//! A request for a slot is refused at once if the caller holds a lock: the lock would be held for
//! as long as all places are taken, perhaps by commands that wait for that very lock. A request for
//! a pool is refused inside of a slot for the same reason, and inside of a lock by the order of
//! the store, in which it stands like any lock.

use tenure::{Error, Keeper, LockSet, Mode, Resource, Result};
use tenure_api::text::Slot;

use super::taken::{self, Taken, TakenRequest};
use crate::around::Ancestors;
use crate::{Caller, Service};

/// A slot or a pool with its number of places.
pub(super) struct SlotRequest {
    pub(super) resource: Resource,
    pub(super) capacity: u32,
}

impl Service {
    /// Returns the slot or pool with its number of places: that asked for, else that in the
    /// settings. An automated owner may not ask for another number than the settings have.
    pub(super) fn slot_request(&self, slot: &Slot, caller: &Caller) -> Result<SlotRequest> {
        let (kind, name) = (slot.resource.kind(), slot.resource.id());
        let (owner, config) = (caller.owner(), &self.located().config);
        let settings = if kind == Slot::POOL {
            &config.pool
        } else {
            &config.slot
        };
        let set = settings.get(name).copied();
        let capacity = match (slot.capacity, set) {
            (Some(asked), Some(set)) if asked != set && self.is_automated(caller) => {
                return Err(Error::not_allowed(
                    format!(
                        "{owner} may not choose {asked} places of {kind} {name}: tenure.toml sets {set}"
                    ),
                    "leave the number out",
                ));
            }
            (Some(asked), _) => asked,
            (None, Some(set)) => set,
            (None, None) => {
                return Err(Error::BadInput(format!(
                    "{kind} {name} has no number of places: write {name}:N, or set it in \
                     tenure.toml under [{kind}]"
                )));
            }
        };
        Ok(SlotRequest {
            resource: slot.resource.clone(),
            capacity,
        })
    }
}

/// Takes a place in the slot or pool. Inside a run that has one in it already, that one counts.
pub(super) async fn acquire(
    slot: &SlotRequest,
    keeper: &Keeper,
    ancestors: &Ancestors,
    request: &TakenRequest<'_>,
) -> Result<Taken> {
    if let Some(outer) = ancestors.slot(&slot.resource, keeper) {
        return Ok(Taken::under(vec![outer.clone()]));
    }
    if let Some(outer) = ancestors.bars(slot.resource.kind()) {
        return Err(Error::Order {
            asked: slot.resource.clone(),
            held: outer.resource.clone(),
        });
    }
    let around = if slot.resource.kind() == Slot::POOL {
        ancestors.held()
    } else {
        ancestors.held_slots()
    };
    let session = request.session().with_ancestors(around);
    let session = keeper.session(session);
    let wanted = [(slot.resource.clone(), Mode::Write)];
    let set = LockSet::new(&keeper.settings().ranking, wanted);
    let options = request.options.clone().with_capacity(slot.capacity);
    taken::acquire(session, &set, &options, request).await
}
