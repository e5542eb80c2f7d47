//! The leases that are held around a call: those of an outer `run` count as held.
//!
//! A surface is told of them. A lease in a store that is open counts only if the store still has
//! it: a daemon that outlived its `run` was told of the lock, too, but no longer has it. Leases of
//! other stores count only for the order of locks. Slots do not count for it at all: they are
//! always taken before locks, whatever order is set.

use tenure::{Error, Keeper, Lease, LockSet, OuterLease, Resource, Result};
use tenure_api::text::Slot;

use crate::SLOT_KIND;
use crate::store_identity::is_same_store;

mod passed_on;

pub use passed_on::{Outer, Outers};

/// The longest text about outer `run`s, in bytes. A longer one cannot be passed on together with
/// the leases that one `run` acquires itself.
const OUTER_BYTES_MAX: usize = 60 * 1024;

/// The leases that outer `run`s hold.
#[derive(Debug, Default)]
pub struct Ancestors {
    /// Leases in the store of this command, proved to be held.
    here: Vec<Outer>,
    /// Slots, proved to be held if their store is open.
    slots: Vec<Outer>,
    /// Leases in other stores, unchecked.
    elsewhere: Vec<Outer>,
}

/// The locks to acquire, and the leases that need not be acquired.
#[derive(Debug)]
pub struct Plan {
    /// The locks to acquire.
    pub missing: LockSet,
    /// The leases of outer `run`s that are strong enough.
    pub reused: Vec<Lease>,
}

impl Plan {
    /// Returns the plan to acquire everything.
    pub fn take_all(wanted: LockSet) -> Self {
        Self {
            missing: wanted,
            reused: Vec::new(),
        }
    }
}

impl Outers {
    /// Returns true if any of the leases is not of a slot.
    pub fn has_locks(&self) -> bool {
        self.leases.iter().any(|outer| !is_slot(outer))
    }
}

fn is_slot(outer: &Outer) -> bool {
    outer.lease.resource.kind() == SLOT_KIND
}

impl Ancestors {
    /// Returns the leases of outer `run`s that are still held, as far as the open stores can tell:
    /// the store of this command, and the store of the slots.
    pub async fn proved(
        outers: Outers,
        keeper: Option<&Keeper>,
        slots: Option<&Keeper>,
    ) -> Result<Self> {
        let mut ancestors = Self::default();
        for outer in outers.leases {
            let is_in = |keeper: &&Keeper| is_same_store(&outer.store, keeper.url());
            let (known_by, list) = match keeper.filter(is_in) {
                Some(keeper) => (Some(keeper), &mut ancestors.here),
                None if is_slot(&outer) => (slots.filter(is_in), &mut ancestors.slots),
                None => (None, &mut ancestors.elsewhere),
            };
            match known_by {
                Some(keeper) => list.extend(still_held(&outer, keeper).await?),
                None => list.push(outer),
            }
        }
        ancestors.check_size()?;
        Ok(ancestors)
    }

    /// Refuses, before any lock is acquired, leases that could not be passed on to the command.
    fn check_size(&self) -> Result<()> {
        let leases: Vec<Outer> = self.all().cloned().collect();
        let number = leases.len();
        if (Outers { leases }).shortest().len() <= OUTER_BYTES_MAX {
            return Ok(());
        }
        Err(Error::configuration(
            format!("the outer runs hold {number} locks, too many to pass on"),
            "nest fewer runs, or take fewer locks with shorter names",
        ))
    }

    /// Returns all leases and slots, to be passed on to the next `run` further in.
    pub fn all(&self) -> impl Iterator<Item = &Outer> {
        self.locks().chain(&self.slots)
    }

    fn locks(&self) -> impl Iterator<Item = &Outer> {
        self.here.iter().chain(&self.elsewhere)
    }

    /// Returns the leases that count as held for a session that acquires locks.
    pub fn held(&self) -> Vec<OuterLease> {
        self.locks().map(held).collect()
    }

    /// Returns the slots that count as held for a session that acquires a slot: slots are ordered
    /// among themselves.
    pub fn held_slots(&self) -> Vec<OuterLease> {
        self.slots.iter().map(held).collect()
    }

    /// Returns a lease inside of which no slot, or no pool, may be taken, if there is one. A slot
    /// may be taken inside of pools alone. Of locks around a pool, the order of the store decides.
    pub fn bars(&self, kind: &str) -> Option<&Lease> {
        let is_pool = |outer: &&Outer| outer.lease.resource.kind() == Slot::POOL;
        let outer = match kind {
            Slot::POOL => self.slots.first(),
            _ => self.locks().find(|outer| !is_pool(outer)),
        };
        outer.map(|outer| &outer.lease)
    }

    /// Returns the slot or the pool, if an outer `run` has it already.
    pub fn slot(&self, resource: &Resource, keeper: &Keeper) -> Option<&Outer> {
        let url = keeper.url();
        let same = |outer: &&Outer| outer.lease.resource == *resource && outer.store == url;
        self.slots.iter().chain(&self.here).find(same)
    }

    /// Returns the plan to acquire only the locks that are not held yet. A lock that is held in a
    /// weaker mode than is wanted is an error.
    pub fn reuse(&self, wanted: &LockSet, keeper: &Keeper) -> Result<Plan> {
        let mut missing = Vec::new();
        let mut reused = Vec::new();
        for (resource, mode) in wanted.iter() {
            let held = self.here.iter().map(|outer| &outer.lease);
            let held = held
                .filter(|lease| lease.resource == *resource)
                .max_by_key(|lease| lease.mode);
            match held {
                None => missing.push((resource.clone(), *mode)),
                Some(lease) if lease.mode >= *mode => reused.push(lease.clone()),
                Some(lease) => {
                    return Err(Error::TooWeak {
                        context: keeper.context_of(resource, *mode),
                        held: lease.mode,
                    });
                }
            }
        }
        Ok(Plan {
            missing: LockSet::new(&keeper.settings().ranking, missing),
            reused,
        })
    }
}

/// Returns the lease of an outer `run`, if it is still held. Its mode is taken from the store: the
/// mode that was passed on may have changed since.
async fn still_held(outer: &Outer, keeper: &Keeper) -> Result<Option<Outer>> {
    let holders = keeper.holders(&outer.lease.resource).await?;
    let mut holders = holders.into_iter();
    let held = holders.find(|held| held.lease == outer.lease.lease);
    let store = keeper.url().to_owned();
    Ok(held.map(|lease| Outer { lease, store }))
}

fn held(outer: &Outer) -> OuterLease {
    let lease = &outer.lease;
    let (resource, id) = (lease.resource.clone(), lease.lease.clone());
    OuterLease::new(&outer.store, resource, lease.mode, id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::waiting::tests::lease;
    use tenure::{Mode, Options, Owner, Ranking, Resource, SessionOptions};

    fn outer(lease: Lease, store: &str) -> Outer {
        Outer {
            lease,
            store: store.into(),
        }
    }

    fn set(items: &[(&str, Mode)]) -> LockSet {
        let items = items
            .iter()
            .map(|(text, mode)| (Resource::parse(text).unwrap(), *mode));
        LockSet::new(&Ranking::default(), items)
    }

    #[tokio::test]
    async fn only_leases_that_are_still_held_count() {
        let keeper = Keeper::open("memory:").await.unwrap();
        let store = keeper.url().to_owned();
        let owner = Owner::parse("ana").unwrap();
        let session = keeper.session(SessionOptions::new(owner));
        let resource = Resource::parse("held").unwrap();
        let guard = session
            .acquire(&resource, Mode::Read, &Options::default())
            .await
            .unwrap();
        let leases = vec![
            outer(guard.lease(), &store),
            outer(lease("gone"), &store),
            outer(lease("other"), "file:/other"),
            outer(lease("slot:build"), "sqlite:/slots.db"),
        ];
        let ancestors = Ancestors::proved(Outers { leases }, Some(&keeper), None);
        let ancestors = ancestors.await.unwrap();
        let held: Vec<_> = ancestors
            .held()
            .into_iter()
            .map(|held| held.resource.to_string())
            .collect();
        assert_eq!(held, ["name:held", "name:other"], "slots are no locks");
        assert_eq!(ancestors.all().count(), 3, "but are passed on");

        let plan = ancestors
            .reuse(&set(&[("held", Mode::Read), ("new", Mode::Write)]), &keeper)
            .unwrap();
        assert_eq!(plan.reused, [guard.lease()]);
        assert_eq!(plan.missing, set(&[("new", Mode::Write)]));
        let error = ancestors
            .reuse(&set(&[("held", Mode::Write)]), &keeper)
            .unwrap_err();
        assert_eq!(error.class(), tenure::Class::Conflict);
        let plan = ancestors
            .reuse(&set(&[("other", Mode::Write)]), &keeper)
            .unwrap();
        assert!(
            plan.reused.is_empty(),
            "the same name in another store is another lock"
        );
    }

    #[tokio::test]
    async fn a_slot_counts_while_it_is_held_and_only_for_slots() {
        let slots = Keeper::open("memory:").await.unwrap();
        let store = slots.url().to_owned();
        let owner = Owner::parse("ana").unwrap();
        let session = slots.session(SessionOptions::new(owner));
        let build = Resource::parse("slot:build").unwrap();
        let options = Options::default();
        let guard = session.acquire(&build, Mode::Write, &options).await;
        let guard = guard.unwrap();
        let leases = vec![
            outer(guard.lease(), &store),
            outer(lease("slot:gone"), &store),
        ];
        let ancestors = Ancestors::proved(Outers { leases }, None, Some(&slots));
        let ancestors = ancestors.await.unwrap();
        assert!(ancestors.bars(SLOT_KIND).is_none() && ancestors.held().is_empty());
        assert_eq!(ancestors.held_slots().len(), 1);
        assert!(ancestors.slot(&build, &slots).is_some());
        let gone = Resource::parse("slot:gone").unwrap();
        assert!(ancestors.slot(&gone, &slots).is_none());
    }
}
