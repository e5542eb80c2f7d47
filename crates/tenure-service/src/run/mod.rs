//! Takes the slot and then the locks that a command runs under, within one limit, all or none.
//!
//! This is no operation: the locks cannot leave this process, which runs the command itself.
//!
//! | file | what it holds |
//! |---|---|
//! | here | the steps, from the request to what the command is told |
//! | `slot` | the number of places of a slot, and a place in it |
//! | `taken` | the leases of one store: acquired, or held around the call already |
//! | `at_least` | the holds that keep others out after the end of a run, and the search for them |
//! | `held` | what the command runs under: when that is lost, and how it is released |
//!
//! # Invariants
//!
//! - A slot is taken before all locks, and given back after them.
//! - A run that is refused, cancelled or out of time holds nothing.

mod at_least;
mod held;
mod slot;
mod taken;

use std::time::Duration;

use serde_json::Value;
use tenure::{AUTOMATED_WAIT_DEFAULT, Error, Keeper, Lease, LockSet, Mode, Options, Result};
use tenure::{Resource, SessionId};
use tenure_api::op::Scope;
use tenure_api::text::{Slot, Wanted};

use crate::around::{Ancestors, Outer, Outers};
use crate::{Caller, Limit, Service};
use slot::SlotRequest;
use taken::{Taken, TakenRequest};

pub use held::RunLocks;

/// The default wait of a run.
const WAIT_DEFAULT: Duration = Duration::from_secs(600);

/// A request for the slot and the locks that a command is to run under.
#[derive(Debug)]
pub struct Run {
    /// The locks to take.
    pub resources: Vec<Wanted>,
    /// The mode of the locks that name none.
    pub mode: Mode,
    /// The slot in which a place is taken, if any.
    pub slot: Option<Slot>,
    /// The kind of work whose locks are taken, too, and the values of its keys.
    pub operation: Option<(String, Scope)>,
    /// The longest wait, if the caller asks for one.
    pub wait: Option<Duration>,
    /// The time for which others are kept out, however soon the command ends.
    pub at_least: Option<Duration>,
    /// True if locks that are held around the call suffice.
    pub reuse: bool,
    /// True if the command dies with this process, and does not inherit the locks.
    pub close: bool,
    /// The reason for the locks, for people who list them.
    pub purpose: Option<String>,
    /// A value that is kept with the leases.
    pub metadata: Option<Value>,
    /// The line of the command as listings show it.
    pub command: String,
}

/// The locks that a command runs under, and the facts about them that it is told.
pub struct UnderLocks {
    /// The locks, which are held until they are released.
    pub held: RunLocks,
    /// The address of the store that the command uses by default.
    pub store: String,
    /// The leases that it runs under: the slot, then the locks in the order in which they are
    /// taken.
    pub leases: Vec<Lease>,
    /// The session that holds them. `None` if all of them were held around the call.
    pub session: Option<SessionId>,
    /// Everything that is held around the command.
    pub passed_on: Outers,
}

/// The reason why a command has nothing to run under.
#[derive(Debug)]
pub enum NotHeld {
    /// The request was refused, or a store could not be opened.
    Refused(Error),
    /// The slot has no number of places, or the caller may not choose it.
    Places {
        /// The reason of the refusal.
        error: Error,
        /// The slot that was asked for.
        slot: Resource,
    },
    /// No place in the slot could be taken.
    Slot {
        /// The reason why there is no place.
        error: Error,
        /// The slot that was asked for.
        slot: Resource,
        /// The number of its places.
        capacity: u32,
    },
    /// The locks could not be taken.
    Locks(Error),
}

impl From<Error> for NotHeld {
    fn from(error: Error) -> Self {
        NotHeld::Refused(error)
    }
}

/// The stores that are needed, open.
struct Stores {
    /// The store of the locks; `None` if only a slot is taken.
    locks: Option<Keeper>,
    /// The store of the slots.
    slots: Option<Keeper>,
}

impl Service {
    /// Takes the slot and the locks that a command is to run under.
    pub async fn hold_for_run(&self, mut run: Run, caller: &Caller) -> Result<UnderLocks, NotHeld> {
        self.add_operation(&mut run, caller)?;
        let default = if self.is_automated(caller) {
            AUTOMATED_WAIT_DEFAULT
        } else {
            WAIT_DEFAULT
        };
        let limit = self.limit(caller, run.wait, default, run.at_least)?;
        let slot = match &run.slot {
            Some(slot) => {
                let chosen = self.slot_request(slot, caller);
                let slot = slot.resource.clone();
                Some(chosen.map_err(|error| NotHeld::Places { error, slot })?)
            }
            None => None,
        };
        let stores = self.open_for_run(&run, limit, caller).await?;
        let (locks, slots) = (stores.locks.as_ref(), stores.slots.as_ref());
        let ancestors = Ancestors::proved(caller.around().clone(), locks, slots).await?;
        let wanted = run.resources.iter();
        let wanted = wanted.map(|it| (it.resource.clone(), it.mode.unwrap_or(run.mode)));
        let wanted = LockSet::new(&self.located().config.ranking(), wanted);
        if run.at_least.is_some() && wanted.is_empty() {
            let problem = "there is no lock to keep others out of: name a resource";
            return Err(Error::BadInput(problem.into()).into());
        }
        let taking = take(
            limit,
            &run,
            &stores,
            (slot.as_ref(), &wanted),
            &ancestors,
            caller,
        );
        let (slot, locks) = taking.await?;
        let store = self.address_for_others(stores.locks.as_ref()).to_owned();
        Ok(under(
            store,
            (slot, locks),
            &wanted,
            &ancestors,
            run.close,
            caller,
        ))
    }

    /// Adds the locks of the operation to those that are named.
    fn add_operation(&self, run: &mut Run, caller: &Caller) -> Result<()> {
        let Some((name, scope)) = &run.operation else {
            return Ok(());
        };
        let policy = self.policy()?;
        let locks = self.locks_of(&policy, name, scope)?;
        let needs_person = policy.find(name)?.operation.needs_approval;
        let owner = caller.owner();
        if needs_person && self.is_automated(caller) {
            return Err(Error::not_allowed(
                format!("{owner} may not do {name}: it needs the approval of a person"),
                "ask a person to run it",
            ));
        }
        let wanted = locks.into_iter().map(|lock| Wanted {
            resource: lock.resource,
            mode: Some(lock.mode),
        });
        run.resources.extend(wanted);
        run.purpose = run.purpose.take().or_else(|| Some(name.clone()));
        Ok(())
    }

    async fn open_for_run(&self, run: &Run, limit: Limit, caller: &Caller) -> Result<Stores> {
        let mut stores = Stores {
            locks: None,
            slots: None,
        };
        if !run.resources.is_empty() || caller.around().has_locks() {
            let first = run.resources.first().map(|wanted| &wanted.resource);
            stores.locks = Some(self.locks_within(caller, limit, first).await?);
        }
        if run.slot.is_some() {
            stores.slots = Some(self.slots(caller).await?);
        }
        Ok(stores)
    }
}

/// Takes the slot and then the locks. If the caller cancelled meanwhile, all grants are given back:
/// it must not be told of a grant for which it no longer waits.
async fn take(
    limit: Limit,
    run: &Run,
    stores: &Stores,
    (asked_slot, wanted): (Option<&SlotRequest>, &LockSet),
    ancestors: &Ancestors,
    caller: &Caller,
) -> Result<(Taken, Taken), NotHeld> {
    let mut options = Options::default().with_wait(limit.left());
    options.purpose = run.purpose.clone();
    options.metadata = run.metadata.clone();
    let mut request = TakenRequest {
        command: &run.command,
        limit,
        at_least: run.at_least,
        options,
        caller,
    };
    let mut slot = Taken::default();
    if let (Some(asked), Some(keeper)) = (asked_slot, &stores.slots) {
        let taken = slot::acquire(asked, keeper, ancestors, &request).await;
        slot = taken.map_err(|error| NotHeld::Slot {
            error: limit.whole_in(error),
            slot: asked.resource.clone(),
            capacity: asked.capacity,
        })?;
        request.options.wait = Some(limit.left());
    }
    let locks = match stores.locks.as_ref().filter(|_| !wanted.is_empty()) {
        Some(keeper) => taken::locks(keeper, wanted, run.reuse, ancestors, &request).await,
        None => Ok(Taken::default()),
    };
    let locks = match locks {
        Ok(locks) if caller.cancel().is_cancelled() => {
            let first = wanted.iter().next().map(|(resource, _)| resource);
            let first = first.or(asked_slot.map(|slot| &slot.resource)).cloned();
            locks.give_back(caller.observer()).await;
            Err(first.map_or_else(nothing_asked, Error::interrupted))
        }
        locks => locks,
    };
    match locks {
        Ok(locks) => Ok((slot, locks)),
        Err(error) => {
            slot.give_back(caller.observer()).await;
            Err(NotHeld::Locks(limit.whole_in(error)))
        }
    }
}

fn nothing_asked() -> Error {
    Error::Internal("a wait for nothing was cancelled".into())
}

fn under(
    store: String,
    (slot, locks): (Taken, Taken),
    wanted: &LockSet,
    ancestors: &Ancestors,
    close: bool,
    caller: &Caller,
) -> UnderLocks {
    let (own_slot, own_locks) = (slot.own(), locks.own());
    let known: Vec<&Outer> = own_locks.iter().chain(&locks.under).collect();
    let of = |resource: &Resource| {
        let mut leases = known.iter().map(|outer| &outer.lease);
        leases.find(|lease| lease.resource == *resource)
    };
    let in_order = own_slot.iter().chain(&slot.under).map(|outer| &outer.lease);
    let in_order = in_order.chain(wanted.iter().filter_map(|(resource, _)| of(resource)));
    let leases = in_order.cloned().collect();
    let own = own_slot.iter().chain(&own_locks);
    let passed_on = own.chain(ancestors.all()).cloned().collect();
    let sessions = [&locks.session, &slot.session].into_iter().flatten();
    let session = sessions.map(|session| session.id().clone()).next();
    // In the order they were acquired.
    let mut guards = slot.guards;
    guards.extend(locks.guards);
    UnderLocks {
        held: RunLocks {
            guards,
            kept: locks.kept,
            sessions: [slot.session, locks.session],
            close,
            observer: caller.observer().clone(),
        },
        store,
        leases,
        session,
        passed_on: Outers { leases: passed_on },
    }
}
