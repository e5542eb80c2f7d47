//! Takes the pool, the slot and then the locks that a command runs under, within one limit, all or
//! none.
//!
//! This is no operation: the locks cannot leave this process, which runs the command itself.
//!
//! | file | what it holds |
//! |---|---|
//! | here | the steps, from the request to what the command is told |
//! | `slot` | the number of places of a slot or a pool, and a place in it |
//! | `taken` | the leases of one store: acquired, or held around the call already |
//! | `at_least` | the holds that keep others out after the end of a run, and the search for them |
//! | `held` | what the command runs under: when that is lost, and how it is released |
//!
//! # Invariants
//!
//! - A pool is taken before the slot, and that before all locks. They are given back in reverse.
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

/// A request for the pool, the slot and the locks that a command is to run under.
#[derive(Debug)]
pub struct Run {
    /// The locks to take.
    pub resources: Vec<Wanted>,
    /// The mode of the locks that name none.
    pub mode: Mode,
    /// The pool in which a place is taken, if any.
    pub pool: Option<Slot>,
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
    /// The leases that it runs under: the pool, the slot, then the locks in the order in which they
    /// are taken.
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
    /// The slot or pool has no number of places, or the caller may not choose it.
    Places {
        /// The reason of the refusal.
        error: Error,
        /// The slot or pool that was asked for.
        slot: Resource,
    },
    /// No place in the slot or the pool could be taken.
    Slot {
        /// The reason why there is no place.
        error: Error,
        /// The slot or pool that was asked for.
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
    /// The store of the locks and pools; `None` if only a slot is taken.
    locks: Option<Keeper>,
    /// The store of the slots.
    slots: Option<Keeper>,
}

/// The places and the locks that are asked for.
struct Asked {
    pool: Option<SlotRequest>,
    slot: Option<SlotRequest>,
    locks: LockSet,
}

impl Asked {
    /// Returns the resources in the order in which they are taken.
    fn in_order(&self) -> impl Iterator<Item = &Resource> {
        let places = [&self.pool, &self.slot].into_iter().flatten();
        let locks = self.locks.iter().map(|(resource, _)| resource);
        places.map(|place| &place.resource).chain(locks)
    }
}

impl Service {
    /// Takes the pool, the slot and the locks that a command is to run under.
    pub async fn hold_for_run(&self, mut run: Run, caller: &Caller) -> Result<UnderLocks, NotHeld> {
        self.add_operation(&mut run, caller)?;
        let default = if self.is_automated(caller) {
            AUTOMATED_WAIT_DEFAULT
        } else {
            WAIT_DEFAULT
        };
        let limit = self.limit(caller, run.wait, default, run.at_least)?;
        let places = |asked: &Option<Slot>| {
            let chosen = asked.as_ref().map(|asked| {
                let slot = asked.resource.clone();
                let chosen = self.slot_request(asked, caller);
                chosen.map_err(|error| NotHeld::Places { error, slot })
            });
            chosen.transpose()
        };
        let (pool, slot) = (places(&run.pool)?, places(&run.slot)?);
        let stores = self.open_for_run(&run, limit, caller).await?;
        let (locks, slots) = (stores.locks.as_ref(), stores.slots.as_ref());
        let ancestors = Ancestors::proved(caller.around().clone(), locks, slots).await?;
        let wanted = run.resources.iter();
        let wanted = wanted.map(|it| (it.resource.clone(), it.mode.unwrap_or(run.mode)));
        let asked = Asked {
            pool,
            slot,
            locks: LockSet::new(&self.located().config.ranking(), wanted),
        };
        if run.at_least.is_some() && asked.locks.is_empty() {
            let problem = "there is no lock to keep others out of: name a resource";
            return Err(Error::BadInput(problem.into()).into());
        }
        let taken = take(limit, &run, &stores, &asked, &ancestors, caller).await?;
        let store = self.address_for_others(stores.locks.as_ref()).to_owned();
        Ok(under(store, taken, &asked, &ancestors, run.close, caller))
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
        let first = run.resources.first().map(|wanted| &wanted.resource);
        let first = run.pool.as_ref().map(|pool| &pool.resource).or(first);
        if first.is_some() || caller.around().has_locks() {
            stores.locks = Some(self.locks_within(caller, limit, first).await?);
        }
        if run.slot.is_some() {
            stores.slots = Some(self.slots(caller).await?);
        }
        Ok(stores)
    }
}

/// Takes the pool, the slot and then the locks. If the caller cancelled meanwhile, all grants are
/// given back: it must not be told of a grant for which it no longer waits.
async fn take(
    limit: Limit,
    run: &Run,
    stores: &Stores,
    asked: &Asked,
    ancestors: &Ancestors,
    caller: &Caller,
) -> Result<[Taken; 3], NotHeld> {
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
    let mut taken = <[Taken; 3]>::default();
    let taking = take_each(
        &mut taken,
        run.reuse,
        stores,
        asked,
        ancestors,
        &mut request,
    );
    let mut outcome = taking.await;
    if outcome.is_ok() && caller.cancel().is_cancelled() {
        let first = asked.in_order().next().cloned();
        let interrupted = first.map_or_else(nothing_asked, Error::interrupted);
        outcome = Err(NotHeld::Locks(interrupted));
    }
    if let Err(not_held) = outcome {
        for taken in taken.into_iter().rev() {
            taken.give_back(caller.observer()).await;
        }
        return Err(not_held);
    }
    Ok(taken)
}

/// Takes the one after the other. What was taken is in `taken`, if the next is refused, too.
async fn take_each(
    taken: &mut [Taken; 3],
    reuse: bool,
    stores: &Stores,
    asked: &Asked,
    ancestors: &Ancestors,
    request: &mut TakenRequest<'_>,
) -> Result<(), NotHeld> {
    let [pool, slot, locks] = taken;
    let limit = request.limit;
    for (asked, keeper, place) in [
        (&asked.pool, &stores.locks, &mut *pool),
        (&asked.slot, &stores.slots, slot),
    ] {
        if let (Some(asked), Some(keeper)) = (asked, keeper) {
            let acquired = slot::acquire(asked, keeper, ancestors, request).await;
            *place = acquired.map_err(|error| NotHeld::Slot {
                error: limit.whole_in(error),
                slot: asked.resource.clone(),
                capacity: asked.capacity,
            })?;
            request.options.wait = Some(limit.left());
        }
    }
    let session = pool.session.clone();
    match stores.locks.as_ref().filter(|_| !asked.locks.is_empty()) {
        Some(keeper) => {
            let taking = taken::locks(keeper, session, &asked.locks, reuse, ancestors, request);
            let acquired = taking.await;
            *locks = acquired.map_err(|error| NotHeld::Locks(limit.whole_in(error)))?;
        }
        None => locks.session = session,
    }
    Ok(())
}

fn nothing_asked() -> Error {
    Error::Internal("a wait for nothing was cancelled".into())
}

fn under(
    store: String,
    taken: [Taken; 3],
    asked: &Asked,
    ancestors: &Ancestors,
    close: bool,
    caller: &Caller,
) -> UnderLocks {
    let own: Vec<Outer> = taken.iter().flat_map(Taken::own).collect();
    let around = taken.iter().flat_map(|taken| &taken.under);
    let known: Vec<&Outer> = own.iter().chain(around).collect();
    let of = |resource: &Resource| {
        let mut leases = known.iter().map(|outer| &outer.lease);
        leases.find(|lease| lease.resource == *resource)
    };
    let leases = asked.in_order().filter_map(of).cloned().collect();
    let passed_on = own.iter().chain(ancestors.all()).cloned().collect();
    let (mut guards, mut sessions, mut kept) = (Vec::new(), Vec::new(), None);
    // In the order they were acquired.
    for taken in taken {
        guards.extend(taken.guards);
        sessions.extend(taken.session);
        kept = kept.or(taken.kept);
    }
    UnderLocks {
        store,
        leases,
        session: sessions.last().map(|session| session.id().clone()),
        held: RunLocks {
            guards,
            kept,
            sessions,
            close,
            observer: caller.observer().clone(),
        },
        passed_on: Outers { leases: passed_on },
    }
}
