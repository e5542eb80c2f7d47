//! What a shim is told of the command.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// One attempt to run a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// A name that no other attempt has. The status bears it.
    pub tag: String,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The directory in which it runs.
    pub directory: PathBuf,
    /// Variables of its environment that differ from those the spawner was started with. None
    /// removes one.
    pub environment: BTreeMap<String, Option<String>>,
    /// The most it may use.
    pub limits: Limits,
    /// What becomes of it when the worker dies.
    pub lifetime: Lifetime,
    /// When it must be dead unless this is moved, in milliseconds since boot.
    pub deadline_ms: Option<u64>,
    /// The file of its status, by its absolute path.
    pub status: PathBuf,
    /// The file of its output, by its absolute path. An older part is beside it, in `.old`.
    pub output: PathBuf,
}

/// The most that a command may use. What is not set is not bounded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// The time from its start to its end, in milliseconds. Time asleep counts.
    pub time_ms: Option<u64>,
    /// The memory of each process, in bytes.
    pub memory_bytes: Option<u64>,
    /// The CPU time of each process, in seconds.
    pub cpu_seconds: Option<u64>,
}

/// What becomes of a command when its worker dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lifetime {
    /// It goes on, as the kernel keeps its session for as long as it runs.
    OutlivesWorker,
    /// It is ended at once, as nobody renews what it runs under.
    EndsWithWorker,
}
