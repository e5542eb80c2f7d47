//! Jobs: commands that are queued, the states they go through, and the reasons why they wait.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tenure_core::{Lease, Owner, Timestamp};

use crate::operation::operation;
use crate::text::{Span, Wanted};

/// Queues a command. A worker runs it when its turn comes.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SubmitJob {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The project it counts for: caps and turns are shared by project.
    #[serde(default)]
    pub project: Option<String>,
    /// The map of the project that it works on.
    #[serde(default)]
    pub map: Option<String>,
    /// Its class, such as `cpu` or `io`, which may have a cap of its own.
    #[serde(default = "class")]
    pub class: String,
    /// The locks that it runs under.
    #[serde(default)]
    pub locks: Vec<Wanted>,
    /// The operation of the policy that it is, which says what locks it needs.
    #[serde(default)]
    pub operation: Option<String>,
    /// The values of that operation, such as its project and its map.
    #[serde(default)]
    pub with: BTreeMap<String, String>,
    /// Lower numbers of a project come first.
    #[serde(default = "priority")]
    pub priority: u8,
    /// The time after which an attempt is ended.
    #[serde(default)]
    pub time_limit: Option<Span>,
    /// The memory that each of its processes may use, in bytes.
    #[serde(default)]
    pub memory_limit: Option<u64>,
    /// The CPU time that each of its processes may use.
    #[serde(default)]
    pub cpu_limit: Option<Span>,
    /// Whether two people have to approve it.
    #[serde(default)]
    pub dangerous: bool,
    /// Whether a person has to approve it.
    #[serde(default)]
    pub needs_approval: bool,
    /// Whether it ends in error, instead of beginning again, if its worker dies.
    #[serde(default)]
    pub never_restart: bool,
    /// The number of times it is tried again after it failed.
    #[serde(default)]
    pub retries: u32,
    /// Labels that a worker must have to take it.
    #[serde(default)]
    pub labels: BTreeSet<String>,
    /// A key: submitted again under the same one it is the same job.
    #[serde(default)]
    pub key: Option<String>,
    /// The directory it runs in.
    pub directory: PathBuf,
    /// Variables of its environment that differ from the worker's.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
}
operation!("job.submit", SubmitJob, Jobs);

fn class() -> String {
    "cpu".into()
}

fn priority() -> u8 {
    2
}

/// Lists jobs: what runs, what waits in the order of its turn, then what is over.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ListJobs {
    /// Only jobs in this state.
    pub state: Option<JobState>,
    /// Only jobs of this project.
    pub project: Option<String>,
    /// At most this many.
    pub limit: Option<usize>,
    /// Only what comes after this cursor, which an earlier list returned.
    pub after: Option<String>,
}
operation!("job.ls", ListJobs, Jobs);

/// Shows a job, with everything that keeps it from running.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShowJob {
    /// The job.
    pub job: String,
}
operation!("job.show", ShowJob, Jobs);

/// Approves a job that waits for it. Only people do so, and never their own jobs.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApproveJob {
    /// The job.
    pub job: String,
}
operation!("job.approve", ApproveJob, Jobs);

/// Cancels a job. One that runs is told to end, and ended after five seconds.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CancelJob {
    /// The job.
    pub job: String,
}
operation!("job.cancel", CancelJob, Jobs);

/// Waits until a job is over.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WaitForJob {
    /// The job.
    pub job: String,
    /// The longest wait.
    #[serde(default)]
    pub wait: Option<Span>,
}
operation!("job.wait", WaitForJob, Jobs);

/// Reads the end of what a job printed.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadJobLog {
    /// The job.
    pub job: String,
}
operation!("job.log", ReadJobLog, JobLog);

/// The end of what a job printed.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct JobLog {
    /// The job.
    pub job: String,
    /// The text, at most 64 KiB of it. What is no UTF-8 is replaced.
    pub text: String,
    /// The number of bytes that it printed before this.
    pub left_out: u64,
}

/// Says from inside of a job how far it is.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReportProgress {
    /// The job.
    pub job: String,
    /// The part of the total that is done.
    pub done: u64,
    /// The total that there is to do.
    pub total: u64,
    /// The step that it is at, in words.
    #[serde(default)]
    pub text: Option<String>,
}
operation!("job.progress", ReportProgress, Jobs);

/// Keeps jobs from starting. Those that run go on.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PauseJobs {
    /// Only jobs of this project.
    pub project: Option<String>,
}
operation!("job.pause", PauseJobs, Paused);

/// Lets jobs start again.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ResumeJobs {
    /// Only jobs of this project.
    pub project: Option<String>,
}
operation!("job.resume", ResumeJobs, Paused);

/// Whether jobs may start.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Paused {
    /// The project, or null for all of them.
    pub project: Option<String>,
    /// Whether it is paused.
    pub paused: bool,
}

/// Shows how many jobs may run at once, and changes it. Only people change it.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SetCaps {
    /// At most so many at all. 0 takes the cap away.
    #[serde(alias = "max_global_jobs", alias = "maxGlobalJobs")]
    pub global: Option<u32>,
    /// At most so many of one project. 0 takes the cap away.
    #[serde(alias = "max_jobs_per_project", alias = "maxJobsPerProject")]
    pub per_project: Option<u32>,
    /// At most so many of one project that work on a map. 0 takes the cap away.
    #[serde(
        alias = "max_concurrent_map_jobs_per_project",
        alias = "maxConcurrentMapJobsPerProject"
    )]
    pub map_per_project: Option<u32>,
    /// At most so many of a class. 0 takes the cap away.
    pub classes: BTreeMap<String, u32>,
}
operation!("job.caps", SetCaps, Caps);

/// The caps on jobs that run at once. Null means that there is no bound.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Caps {
    /// At most so many at all.
    pub global: Option<u32>,
    /// At most so many of one project.
    pub per_project: Option<u32>,
    /// At most so many of one project that work on a map.
    pub map_per_project: Option<u32>,
    /// At most so many of a class.
    #[serde(default)]
    pub classes: BTreeMap<String, u32>,
}

/// Jobs.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Jobs {
    /// The jobs.
    pub jobs: Vec<ShownJob>,
    /// The cursor of the next page, or null.
    pub next: Option<String>,
}

impl Jobs {
    /// Returns a list of one.
    pub fn one(job: ShownJob) -> Self {
        let (jobs, next) = (vec![job], None);
        Self { jobs, next }
    }
}

/// A job, as it is shown.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ShownJob {
    /// Its id.
    pub job: String,
    /// The project it counts for.
    pub project: String,
    /// The map it works on.
    pub map: Option<String>,
    /// Its class.
    pub class: String,
    /// Its state.
    pub state: JobState,
    /// The first reason why it does not run yet.
    pub reason: Option<Reason>,
    /// That reason, or how it ended, in a sentence.
    pub detail: Option<String>,
    /// Every reason why it does not run yet.
    pub reasons: Vec<WaitReason>,
    /// The owner that submitted it.
    pub owner: Owner,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Lower numbers of a project come first.
    pub priority: u8,
    /// When it was submitted.
    pub submitted_at: Timestamp,
    /// When its last attempt started.
    pub started_at: Option<Timestamp>,
    /// When it was over.
    pub ended_at: Option<Timestamp>,
    /// The status of its last attempt.
    pub exit_code: Option<i32>,
    /// The worker of its last attempt.
    pub worker: Option<String>,
    /// The number of attempts so far.
    pub attempt: u32,
    /// How far it is, if it says so.
    pub progress: Option<Progress>,
    /// Who approved it.
    pub approvals: Vec<Approval>,
}

/// How far a job is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Progress {
    /// The part of the total that is done.
    pub done: u64,
    /// The total that there is to do.
    pub total: u64,
    /// The step that it is at, in words.
    pub text: Option<String>,
}

/// One person's approval of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Approval {
    /// The owner that approved it.
    pub owner: Owner,
    /// The user id of its process.
    pub uid: u32,
    /// The terminal it was given at, if there was one.
    pub terminal: Option<String>,
    /// When it was given.
    pub at: Timestamp,
}

/// A reason why a job does not run yet, in detail.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct WaitReason {
    /// The reason.
    pub reason: Reason,
    /// A sentence that says more of it.
    pub detail: String,
    /// The leases in the way, where it is a lock.
    pub holders: Vec<Lease>,
}

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
