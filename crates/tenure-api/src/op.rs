//! Named kinds of work, and the locks each needs.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tenure_core::{Error, Mode, Result};

use crate::operation::operation;

/// Lists the kinds of work that are known.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ls {}
operation!("op.ls", Ls, Kinds<Known>);

/// Shows which locks a kind of work needs, in the order in which they are taken, and why.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Show {
    /// The name of the kind of work, such as `map.calibrate`.
    pub operation: String,
    /// The values of its keys, such as `{"project": "atlas"}`. Left out, the names of the locks
    /// show the keys instead of values.
    #[serde(default)]
    pub with: Scope,
}
operation!("op.show", Show, Kinds<Needing>);

/// The values that a caller gives to the keys of a kind of work, all as text, numbers included.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Scope {
    values: BTreeMap<String, String>,
}

impl Scope {
    /// Collects `KEY=VALUE` pairs.
    ///
    /// # Errors
    ///
    /// `BadInput` for a key that is given twice.
    pub fn new(pairs: impl IntoIterator<Item = (String, String)>) -> Result<Self> {
        let mut values = BTreeMap::new();
        for (key, value) in pairs {
            if values.insert(key.clone(), value).is_some() {
                return Err(Error::BadInput(format!("{key} is given twice")));
            }
        }
        Ok(Self { values })
    }

    /// Returns true if the caller brings nothing.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Returns the value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.values.get(key).map(String::as_str)
    }

    /// Returns the keys.
    pub fn keys(&self) -> impl Iterator<Item = &String> {
        self.values.keys()
    }
}

/// Kinds of work, sorted by name.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Kinds<T> {
    /// The kinds of work.
    pub operations: Vec<T>,
    /// Always null: the list is complete.
    pub next: Option<String>,
}

/// A kind of work, as the list shows it.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Known {
    /// The name of the kind of work.
    pub operation: String,
    /// A sentence that says what is done.
    pub about: String,
    /// The keys for which a caller must give values.
    pub needs: Vec<String>,
    /// The key of the number on which the locks depend, or null if they depend on none.
    pub count: Option<String>,
    /// The policy that defines it: the name of one that is built in, or `tenure.toml`.
    pub from: String,
    /// True if only a person may do it, and no automated owner.
    pub needs_approval: bool,
}

/// A kind of work, with the locks that it needs.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Needing {
    /// The name of the kind of work.
    pub operation: String,
    /// A sentence that says what is done.
    pub about: String,
    /// The locks, in the order in which they are taken.
    pub locks: Vec<NeededLock>,
}

/// A lock that a kind of work needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NeededLock {
    /// The resource to lock. Its name shows the keys if the request gave no values.
    pub resource: String,
    /// The mode in which the resource is locked.
    pub mode: Mode,
    /// The reason for the lock, in words for people.
    pub why: String,
}
