//! Advisory locks of PostgreSQL, as a listing shows them.

use std::fmt;
use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::{Mode, Timestamp};

/// The first number of a pair: the kind of thing that the second one numbers. Programs that share a
/// database agree on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Namespace(i32);

impl Namespace {
    /// The number is the id of an agent.
    pub const AGENT: Namespace = Namespace(1);
    /// The number is the id of a channel.
    pub const CHANNEL: Namespace = Namespace(2);

    /// Returns a namespace of the application's own.
    pub const fn new(number: i32) -> Namespace {
        Namespace(number)
    }

    /// Returns the number.
    pub const fn get(self) -> i32 {
        self.0
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A holder or a waiter of an advisory lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LockEntry {
    /// The process at the server.
    pub pid: i32,
    /// The name of the program. Tenure's begin with `tenure`.
    pub application_name: Option<String>,
    /// The state of the connection: `active`, `idle` and so on.
    pub state: Option<String>,
    /// The time when its last statement began.
    pub query_start: Option<Timestamp>,
    /// The namespace; null for a key of 64 bits.
    pub namespace: Option<Namespace>,
    /// The number in the namespace.
    pub entity_id: i64,
    /// The mode: read is shared, write is exclusive.
    pub mode: Mode,
    /// True for a holder, false for a waiter.
    pub granted: bool,
    /// The time it has been held, in seconds; null for programs that are not Tenure, and for
    /// waiters.
    #[serde(rename = "duration", serialize_with = "in_seconds")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub held_for: Option<Duration>,
}

fn in_seconds<S: Serializer>(held: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    held.map(|held| held.as_secs_f64()).serialize(serializer)
}
