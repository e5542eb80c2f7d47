//! Whether a store locks, and whose commands are trusted.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tenure_core::Examined;

use crate::operation::operation;

/// Examines the store and what is around it, and proves that it locks.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Doctor {}
operation!("doctor", Doctor, Diagnosis);

/// The outcome of all checks.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Diagnosis {
    /// The store, without a password; `null` if none could be chosen.
    pub store: Option<String>,
    /// The reason for the choice.
    pub why: Option<String>,
    /// The checks, in their order.
    pub checks: Vec<Examined>,
    /// The number of checks that found something wrong.
    pub problems: usize,
}

/// Trusts the commands that the nearest `tenure.toml` names, as it is now. It is for people.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Trust {}
operation!("trust", Trust, Trusted);

/// What is trusted.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Trusted {
    /// The file.
    pub trusted: PathBuf,
    /// Its commands, each with its arguments.
    pub commands: Vec<Vec<String>>,
}
