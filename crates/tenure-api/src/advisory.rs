//! Advisory locks of PostgreSQL: who holds them and who waits.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tenure_core::advisory::LockEntry;

use crate::operation::operation;

/// Lists who holds and who awaits advisory locks in the database.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ls {}
operation!("advisory.ls", Ls, Locks);

/// All advisory locks of a database.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Locks {
    /// Each holder and each waiter, by key.
    pub locks: Vec<Entry>,
    /// The number of holders and waiters.
    pub total: usize,
    /// Null: the list is never cut.
    pub next: Option<String>,
}

/// A holder or a waiter, with its number under both of its names.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Entry {
    /// The holder or the waiter.
    #[serde(flatten)]
    pub lock: LockEntry,
    /// The number in the namespace.
    pub id: i64,
}
