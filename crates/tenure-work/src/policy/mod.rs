//! The policy: a table from the names of operations to the locks they need.
//!
//! A policy is compiled in and chosen by name in `tenure.toml`, which may add operations of its own
//! in the same form ([`tenure::config::Operation`]). An operation names its locks with keys, such
//! as `map:{project}/{map}=write`; the caller brings the values.
//!
//! # Invariants
//!
//! - Nothing is guessed. A key without a value, a value for an unknown key, an unknown operation,
//!   and a missing number are errors that name the missing or unknown thing, and no lock is taken.
//! - The locks that [`Policy::locks_of`] returns are the locks that `tenure run --op` takes, in the
//!   global order of locks, and that `tenure op show` shows.

mod resolve;

use std::collections::BTreeMap;
use std::path::Path;

use tenure::config::{Config, Operation};
use tenure::{Error, Result};

pub use resolve::{NeededLock, Needs, reason};
pub use tenure_api::op::Scope;

/// The policies that are compiled in.
const COMPILED_IN: [(&str, &str); 1] = [("maps", include_str!("../../policy/maps.toml"))];

/// The operations of a policy and of a configuration, by name.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    operations: BTreeMap<String, Known>,
}

/// An operation, and the place where it is defined.
#[derive(Debug, Clone)]
pub struct Known {
    /// The definition of the operation.
    pub operation: Operation,
    /// The name of the policy that defines it, or `tenure.toml`.
    pub from: String,
}

impl Policy {
    /// Returns the operations of the policy that a configuration names, and the configuration's
    /// own.
    ///
    /// # Errors
    ///
    /// `Configuration` for an unknown policy, and for an operation of the configuration that has
    /// the name of another.
    pub fn of(config: &Config) -> Result<Self> {
        let mut policy = Self::default();
        if let Some(name) = &config.policy {
            for (operation, definition) in compiled_in(name)? {
                policy.add(operation, definition, name)?;
            }
        }
        for (name, operation) in &config.operation {
            policy.add(name.clone(), operation.clone(), "tenure.toml")?;
        }
        Ok(policy)
    }

    fn add(&mut self, name: String, operation: Operation, from: &str) -> Result<()> {
        let known = Known {
            operation,
            from: from.to_owned(),
        };
        match self.operations.insert(name.clone(), known) {
            None => Ok(()),
            Some(before) => Err(Error::configuration(
                format!(
                    "tenure.toml defines operation {name}, which policy {} has already",
                    before.from
                ),
                "give it a name of its own",
            )),
        }
    }

    /// Returns all operations, by name.
    pub fn operations(&self) -> impl ExactSizeIterator<Item = (&str, &Known)> {
        self.operations
            .iter()
            .map(|(name, known)| (name.as_str(), known))
    }

    /// Returns the operation of a name.
    ///
    /// # Errors
    ///
    /// `BadInput` if no operation has that name.
    pub fn find(&self, name: &str) -> Result<&Known> {
        self.operations.get(name).ok_or_else(|| {
            let shown: String = name.chars().take(80).collect();
            Error::BadInput(match self.operations.is_empty() {
                true => format!(
                    "there is no operation {shown:?}, as none is defined here: tenure.toml says policy = \"maps\", \
                     or defines its own under [operation.NAME]"
                ),
                false => format!("there is no operation {shown:?} among those that are defined here"),
            })
        })
    }

    /// Returns the locks that an operation needs in one case.
    ///
    /// # Errors
    ///
    /// `BadInput` that names the missing or unknown keys.
    pub fn locks_of(&self, name: &str, scope: &Scope) -> Result<Vec<NeededLock>> {
        resolve::locks_of(name, &self.find(name)?.operation, scope)
    }
}

fn compiled_in(name: &str) -> Result<BTreeMap<String, Operation>> {
    let found = COMPILED_IN.iter().find(|(known, _)| *known == name);
    let (name, text) = found.ok_or_else(|| {
        let known: Vec<&str> = COMPILED_IN.iter().map(|(known, _)| *known).collect();
        Error::configuration(
            format!("there is no policy {name:?}"),
            format!(
                "known policies: {}; operations of your own stand under [operation.NAME]",
                known.join(", ")
            ),
        )
    })?;
    Config::parse_operations(text, Path::new(&format!("policy/{name}.toml")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenure::Class;

    pub(super) fn maps() -> Policy {
        policy("policy = 'maps'").unwrap()
    }

    fn policy(text: &str) -> Result<Policy> {
        Policy::of(&Config::parse(text, Path::new("tenure.toml"))?)
    }

    #[test]
    fn own_operations_stand_beside_those_of_the_policy() {
        let own =
            "policy = 'maps'\n[operation.'shop.price']\nabout = 'x'\nlocks = ['shop:{shop}']\n";
        let policy = policy(own).unwrap();
        assert_eq!(policy.find("shop.price").unwrap().from, "tenure.toml");
        assert_eq!(policy.find("map.calibrate").unwrap().from, "maps");
    }

    #[test]
    fn an_operation_of_the_policy_is_not_defined_again() {
        let again =
            "policy = 'maps'\n[operation.'map.calibrate']\nabout = 'x'\nlocks = ['shop:{shop}']\n";
        let error = policy(again).unwrap_err();
        assert_eq!(error.class(), Class::Configuration);
        assert!(error.to_string().contains("map.calibrate"), "{error}");
    }

    #[test]
    fn what_is_not_known_is_named() {
        let error = policy("policy = 'cities'").unwrap_err();
        assert_eq!(error.class(), Class::Configuration);
        let error = maps().find("map.calibrat").map(drop).unwrap_err();
        assert_eq!(error.class(), Class::BadInput);
        assert!(error.to_string().contains("\"map.calibrat\""), "{error}");
        let error = policy("")
            .unwrap()
            .find("map.calibrate")
            .map(drop)
            .unwrap_err();
        assert!(error.to_string().contains("policy = \"maps\""), "{error}");
    }
}
