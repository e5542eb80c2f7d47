//! Jobs: the states they go through, and the reasons why they wait.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The state of a job.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// It is being put together, and nobody works it.
    Draft,
    /// It waits for people to approve it.
    PendingApproval,
    /// It waits for its turn.
    Scheduled,
    /// A worker runs its command.
    Running,
    /// Its command ended with status 0.
    Completed,
    /// Its command failed, could not be run, or was given up.
    Error,
    /// It was cancelled.
    Cancelled,
}

impl JobState {
    /// All states, in the order in which a job goes through them.
    pub const ALL: [JobState; 7] = [
        JobState::Draft,
        JobState::PendingApproval,
        JobState::Scheduled,
        JobState::Running,
        JobState::Completed,
        JobState::Error,
        JobState::Cancelled,
    ];

    /// Returns the word for it, as in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            JobState::Draft => "draft",
            JobState::PendingApproval => "pending_approval",
            JobState::Scheduled => "scheduled",
            JobState::Running => "running",
            JobState::Completed => "completed",
            JobState::Error => "error",
            JobState::Cancelled => "cancelled",
        }
    }

    /// Returns true if nothing happens to a job any more.
    pub const fn is_final(self) -> bool {
        matches!(
            self,
            JobState::Completed | JobState::Error | JobState::Cancelled
        )
    }
}

/// A reason why a job does not run yet.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub enum Reason {
    /// As many jobs run as may at all.
    GlobalCap,
    /// As many jobs of its project run as may.
    ProjectCap,
    /// As many jobs of its project with a map run as may.
    MapCap,
    /// As many jobs of its class run as may.
    ClassCap,
    /// People have to approve it first.
    Approval,
    /// A lock that it needs is held.
    Lock,
    /// No worker runs where its directory, or its target, is.
    Node,
    /// No worker runs, or none that takes jobs with its labels.
    NoWorker,
    /// Its project is paused, or all are.
    Paused,
    /// It failed, and is tried again later.
    RetryAt,
    /// Other jobs are before it.
    Behind,
}
