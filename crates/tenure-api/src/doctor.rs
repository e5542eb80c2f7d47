//! The check that a store locks, and trust in the commands of a `tenure.toml`.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tenure_core::Examined;

use crate::operation::operation;

/// Examines the store and its surroundings, and proves that it locks.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Doctor {}
operation!("doctor", Doctor, Diagnosis);

/// The outcome of all checks.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Diagnosis {
    /// The address of the store, without a password; null if none could be chosen.
    pub store: Option<String>,
    /// The reason why this store was chosen.
    pub why: Option<String>,
    /// The checks, in the order in which they were made.
    pub checks: Vec<Examined>,
    /// The number of checks that found something wrong.
    pub problems: usize,
}

/// Trusts the commands that the nearest `tenure.toml` names, as it is now. It is for people.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Trust {}
operation!("trust", Trust, Trusted);

/// A file, and the commands in it that are trusted from now on.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Trusted {
    /// The path of the `tenure.toml`.
    pub trusted: PathBuf,
    /// The commands that it names, each with its arguments.
    pub commands: Vec<Vec<String>>,
}
