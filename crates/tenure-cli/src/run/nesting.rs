//! `run` inside `run`: the leases of the outer ones count as held.
//!
//! They come in `TENURE_LEASES`. What is said there about the own store is checked against it: a
//! daemon that outlived its `run` still has the variable, but no longer the lock. Leases of
//! other stores count only for the order of locks.

use std::env;
use std::fs;

use tenure::{Error, Held, Keeper, Lease, LockSet, Place, Result};

mod passed_on;

pub use passed_on::{Outer, Outers};

/// More than this of outer `run`s cannot be passed on beside what one `run` takes itself.
const OUTER_BYTES_MAX: usize = 60 * 1024;

/// What the outer `run`s hold.
#[derive(Debug, Default)]
pub struct Ancestors {
    /// In the store of this `run`, proved to be held.
    here: Vec<Outer>,
    /// In other stores, as they say.
    elsewhere: Vec<Outer>,
}

/// What is left to be taken, and what is held already.
#[derive(Debug)]
pub struct Plan {
    /// To be taken.
    pub missing: LockSet,
    /// Held by an outer `run`, and good enough.
    pub reused: Vec<Lease>,
}

impl Plan {
    /// Takes everything itself.
    pub fn take_all(wanted: LockSet) -> Self {
        Self {
            missing: wanted,
            reused: Vec::new(),
        }
    }
}

impl Ancestors {
    /// Those of this process.
    pub async fn of_process(keeper: &Keeper) -> Result<Self> {
        let Some(text) = env::var_os("TENURE_LEASES").filter(|text| !text.is_empty()) else {
            return Ok(Self::default());
        };
        let outers = Outers::from_json(text.as_encoded_bytes());
        let outers = outers.map_err(|error| Error::Configuration {
            problem: format!("bad TENURE_LEASES: {error}"),
            remedy: "unset TENURE_LEASES; only tenure run sets it".into(),
        })?;
        let ancestors = Self::proved(outers, keeper).await?;
        ancestors.check_size()?;
        Ok(ancestors)
    }

    /// Refuses before any lock is taken what could not be passed on to the command after it.
    fn check_size(&self) -> Result<()> {
        let leases: Vec<Outer> = self.all().cloned().collect();
        let number = leases.len();
        if (Outers { leases }).shortest().len() <= OUTER_BYTES_MAX {
            return Ok(());
        }
        Err(Error::Configuration {
            problem: format!("the outer runs hold {number} locks, too many to pass on"),
            remedy: "nest fewer runs, or take fewer locks with shorter names".into(),
        })
    }

    async fn proved(outers: Outers, keeper: &Keeper) -> Result<Self> {
        let store = keeper.store().url();
        let mut ancestors = Self::default();
        for outer in outers.leases {
            if !same_store(&outer.store, store) {
                ancestors.elsewhere.push(outer);
                continue;
            }
            let holders = keeper.holders(&outer.lease.resource).await?;
            let held = holders
                .into_iter()
                .find(|held| held.lease == outer.lease.lease);
            // The store knows the mode of now, the variable that of then.
            ancestors.here.extend(held.map(|lease| Outer {
                lease,
                store: store.to_owned(),
            }));
        }
        Ok(ancestors)
    }

    /// All of them, for the next `run` further in.
    pub fn all(&self) -> impl Iterator<Item = &Outer> {
        self.here.iter().chain(&self.elsewhere)
    }

    /// What a session counts as held.
    pub fn held(&self) -> Vec<Held> {
        let held = |outer: &Outer| Held {
            store: outer.store.clone(),
            resource: outer.lease.resource.clone(),
            mode: outer.lease.mode,
            lease: outer.lease.lease.clone(),
        };
        self.all().map(held).collect()
    }

    /// Takes only what is missing, and runs under what is held. It must be held at least
    /// as strongly as it is wanted.
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
                        place: Box::new(Place {
                            resource: resource.clone(),
                            mode: *mode,
                            store: keeper.store().url().to_owned(),
                            location: keeper.store().place_of(resource),
                        }),
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

/// Whether two addresses name the same store, spelled differently perhaps.
fn same_store(a: &str, b: &str) -> bool {
    let directory = |url: &str| fs::canonicalize(url.strip_prefix("file:")?).ok();
    a == b || directory(a).is_some_and(|a| directory(b) == Some(a))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::people::tests::lease;
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
        let store = keeper.store().url().to_owned();
        let owner = Owner::parse("ana").unwrap();
        let session = keeper.session(SessionOptions::new(owner)).await.unwrap();
        let resource = Resource::parse("held").unwrap();
        let guard = session
            .acquire(&resource, Mode::Read, &Options::default())
            .await
            .unwrap();
        let leases = vec![
            outer(guard.lease(), &store),
            outer(lease("gone"), &store),
            outer(lease("other"), "file:/other"),
        ];
        let ancestors = Ancestors::proved(Outers { leases }, &keeper).await.unwrap();
        let held: Vec<_> = ancestors
            .held()
            .into_iter()
            .map(|held| held.resource.to_string())
            .collect();
        assert_eq!(held, ["name:held", "name:other"]);

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

    #[test]
    fn one_directory_is_one_store_however_it_is_spelled() {
        assert!(same_store("memory:", "memory:"));
        assert!(same_store("file:/usr", "file:/usr/bin/.."));
        assert!(!same_store("file:/usr", "file:/etc"));
        assert!(!same_store("file:/no-such-a", "file:/no-such-b"));
    }
}
