//! `--slot NAME:N`: one of N places for this user on this machine, taken before every lock.
//!
//! A lock held while a slot is awaited would be held for as long as all places are taken, perhaps
//! by those that wait for the lock. So a slot asked for inside a lock is refused at once.

use tenure::{Error, Keeper, LockSet, Mode, Owner, Resource, Result, SessionOptions};
use tenure_run::Signals;

use super::not_started;
use super::taken::{self, RunRequest, Taken};
use crate::cli::Slot;
use crate::context::Context;
use crate::report::Failure;
use tenure_service::around::Ancestors;

/// A slot with its number of places.
pub struct SlotRequest {
    pub resource: Resource,
    pub capacity: u32,
}

/// Returns the slot with its number of places: the one asked for, else that of `tenure.toml`. An automated owner may not
/// ask for another number than people have set.
pub fn slot_request(slot: &Slot, context: &Context, owner: &Owner) -> Result<SlotRequest> {
    let config = &context.located.config;
    let name = slot.resource.id();
    let set = config.slot.get(name).copied();
    let capacity = match (slot.capacity, set) {
        (Some(asked), Some(set)) if asked != set && context.automated().covers(owner) => {
            return Err(Error::not_allowed(
                format!(
                    "{owner} may not choose {asked} places of slot {name}: tenure.toml sets {set}"
                ),
                format!("use: tenure run --slot {name} -- CMD"),
            ));
        }
        (Some(asked), _) => asked,
        (None, Some(set)) => set,
        (None, None) => {
            return Err(Error::BadInput(format!(
                "slot {name} has no number of places: write {name}:N, or set it in tenure.toml under [slot]"
            )));
        }
    };
    Ok(SlotRequest {
        resource: slot.resource.clone(),
        capacity,
    })
}

/// Takes the slot; inside a `run` that has it already, works under that one's.
pub async fn acquire(
    slot: &SlotRequest,
    keeper: &Keeper,
    ancestors: &Ancestors,
    request: &RunRequest,
    signals: &mut Signals,
) -> Result<Taken> {
    if let Some(outer) = ancestors.slot(&slot.resource, keeper) {
        return Ok(Taken::under(vec![outer.clone()]));
    }
    if let Some(lock) = ancestors.any_lock() {
        return Err(Error::Order {
            asked: slot.resource.clone(),
            held: lock.resource.clone(),
        });
    }
    let session = SessionOptions::new(request.owner.clone())
        .with_command(&request.command)
        .with_ancestors(ancestors.held_slots());
    let session = keeper.session(session);
    let set = LockSet::new(
        &keeper.settings().ranking,
        [(slot.resource.clone(), Mode::Write)],
    );
    let options = request.options.clone().with_capacity(slot.capacity);
    taken::acquire(session.await?, &set, &options, request.whole, signals).await
}

/// Returns the failure to acquire a slot, with a remedy of its own: a slot is not in the store that
/// `tenure ls` shows by itself, and never acquired in a set.
pub fn failure(error: Error, slot: &SlotRequest, busy_exit: u8) -> Failure {
    let (resource, capacity) = (&slot.resource, slot.capacity);
    let name = resource.id();
    let (code, remedy) = match &error {
        Error::Busy { .. } => {
            let remedy = format!("wait for it with --wait, or look with: tenure ls {resource}");
            (Some(busy_exit), Some(remedy))
        }
        Error::Timeout { .. } => {
            let remedy = format!("wait longer with --wait, or look with: tenure ls {resource}");
            (Some(busy_exit), Some(remedy))
        }
        Error::Order { held, .. } => {
            let together = match held.kind() {
                Slot::KIND => "",
                _ => ", or both in one run",
            };
            let remedy = format!(
                "take the slot first: tenure run --slot {name}:{capacity} … -- CMD around the \
                 run that holds {held}{together}"
            );
            (None, Some(remedy))
        }
        _ => return not_started(error, busy_exit),
    };
    Failure::Adjusted {
        error,
        code,
        remedy,
    }
}
