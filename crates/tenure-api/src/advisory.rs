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

/// The advisory locks of a database.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Locks {
    /// Each holder and each waiter, sorted by key.
    pub locks: Vec<Entry>,
    /// The number of holders and waiters.
    pub total: usize,
    /// Always null: the list is complete.
    pub next: Option<String>,
}

/// A holder or a waiter. The number of its lock has two names: `id` and `entity_id`.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Entry {
    /// The holder or the waiter.
    #[serde(flatten)]
    pub lock: LockEntry,
    /// The number of the lock in its namespace, as in `entity_id`.
    pub id: i64,
}
