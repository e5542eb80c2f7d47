//! A job, as its record keeps it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tenure::{Owner, Timestamp};
use tenure_api::jobs::{Approval, JobState};

use tenure_run::shim::Limits;

use super::caps::Place;

/// The priority of a job that names none. Lower ones come first.
pub const PRIORITY_DEFAULT: u8 = 2;
/// The highest number of a priority.
pub const PRIORITY_MAX: u8 = 31;
/// The most retries of a job that fails.
pub const RETRIES_MAX: u32 = 100;
/// A job whose worker died is begun again at most so many times.
pub const LOST_MAX: u32 = 5;

/// What a job is asked to be. It does not change after the job was submitted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Where it counts: project, map and class.
    #[serde(flatten)]
    pub place: Place,
    /// The locks it needs, with their modes, in the order of locks.
    #[serde(default)]
    pub locks: Vec<String>,
    /// The operation of the policy that it is, with its values.
    #[serde(default)]
    pub operation: Option<(String, BTreeMap<String, String>)>,
    /// Lower priorities of a project come first.
    pub priority: u8,
    /// The most it may use.
    #[serde(default)]
    pub limits: Limits,
    /// The key under which it was submitted, if it was.
    #[serde(default)]
    pub key: Option<String>,
    /// The owner that submitted it.
    pub creator: Owner,
    /// Labels that a worker must have to take it.
    #[serde(default)]
    pub labels: BTreeSet<String>,
    /// The directory in which it runs.
    pub directory: PathBuf,
    /// Variables of its environment that differ from the worker's.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// It is tried again this many times after it failed.
    #[serde(default)]
    pub retries: u32,
    /// Whether it is begun again after its worker died.
    #[serde(default = "restart")]
    pub restart: bool,
    /// The number of people who have to approve it.
    #[serde(default)]
    pub approvals_needed: usize,
}

fn restart() -> bool {
    true
}

/// A job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// Its id.
    pub id: String,
    /// What it is asked to be.
    #[serde(flatten)]
    pub spec: Spec,
    /// Its state.
    pub state: JobState,
    /// The approvals it has.
    #[serde(default)]
    pub approvals: Vec<Approval>,
    /// When it was submitted.
    pub submitted_at: Timestamp,
    /// When its last attempt was started.
    #[serde(default)]
    pub started_at: Option<Timestamp>,
    /// When it ended.
    #[serde(default)]
    pub ended_at: Option<Timestamp>,
    /// The number of attempts that were started.
    #[serde(default)]
    pub attempt: u32,
    /// The attempts that failed.
    #[serde(default)]
    pub failed: u32,
    /// The attempts whose worker died.
    #[serde(default)]
    pub lost: u32,
    /// The worker of its last attempt.
    #[serde(default)]
    pub worker: Option<String>,
    /// The time before which it is not tried again.
    #[serde(default)]
    pub retry_at: Option<Timestamp>,
    /// The owner that cancelled it.
    #[serde(default)]
    pub cancelled_by: Option<Owner>,
    /// The exit status of its last attempt.
    #[serde(default)]
    pub exit_code: Option<i32>,
    /// Why its last attempt ended as it did, where the status does not say it.
    #[serde(default)]
    pub detail: Option<String>,
}

impl Job {
    /// Makes a job that nobody has submitted yet.
    pub fn draft(id: String, spec: Spec, now: Timestamp) -> Self {
        Self {
            id,
            spec,
            state: JobState::Draft,
            approvals: Vec::new(),
            submitted_at: now,
            started_at: None,
            ended_at: None,
            attempt: 0,
            failed: 0,
            lost: 0,
            worker: None,
            retry_at: None,
            cancelled_by: None,
            exit_code: None,
            detail: None,
        }
    }

    /// Returns its time limit.
    pub fn time_limit(&self) -> Option<Duration> {
        self.spec.limits.time_ms.map(Duration::from_millis)
    }
}
