//! Why a job does not run yet: all reasons at once, computed when they are asked for.

use std::collections::BTreeSet;

use tenure::{Lease, Timestamp};
use tenure_api::jobs::{Caps, JobState, Reason, WaitReason};

use super::caps::{Refusal, Running};
use super::decide::is_due;
use super::job::Job;
use super::turns::Turn;

/// The most jobs that a detail names.
const NAMED_MAX: usize = 5;

/// A worker that is alive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worker {
    /// Its name.
    pub name: String,
    /// The labels it has.
    pub labels: BTreeSet<String>,
    /// How many jobs it runs at once.
    pub jobs: usize,
    /// Whether it is on this machine: only then can its directories be looked at.
    pub is_here: bool,
}

/// What is around a job that waits.
#[derive(Debug)]
pub struct View<'a> {
    /// The time.
    pub now: Timestamp,
    /// The caps.
    pub caps: &'a Caps,
    /// The jobs that run.
    pub running: &'a Running,
    /// All projects together.
    pub all: Turn,
    /// The project of the job.
    pub project: Turn,
    /// The workers that are alive.
    pub workers: &'a [Worker],
    /// The locks of the job that are held, each with its holders.
    pub held: &'a [(String, Vec<Lease>)],
    /// Whether the directory of the job is there, on this machine.
    pub is_directory_here: bool,
    /// The number of jobs of its project that come before it.
    pub ahead: usize,
}

/// Returns every reason, the most lasting first. A job that runs or is over has none, and one
/// without any starts next.
pub fn reasons(job: &Job, view: &View<'_>) -> Vec<WaitReason> {
    if !matches!(job.state, JobState::PendingApproval | JobState::Scheduled) {
        return Vec::new();
    }
    let mut reasons = Vec::new();
    let mut add = |reason, detail, holders| {
        reasons.push(WaitReason {
            reason,
            detail,
            holders,
        });
    };
    if let Some(detail) = approval(job) {
        add(Reason::Approval, detail, Vec::new());
    }
    if let Some(detail) = pause(job, view) {
        add(Reason::Paused, detail, Vec::new());
    }
    if let (false, Some(at)) = (is_due(job, view.now), job.retry_at) {
        let detail = format!("attempt {} failed; it is tried again at {at}", job.attempt);
        add(Reason::RetryAt, detail, Vec::new());
    }
    if let Some((reason, detail)) = without_worker(job, view) {
        add(reason, detail, Vec::new());
    }
    for refusal in view.running.refusals(view.caps, &job.spec.place) {
        add(refusal.reason, cap(job, &refusal), Vec::new());
    }
    for (resource, holders) in view.held {
        add(Reason::Lock, lock(resource, holders), holders.clone());
    }
    if let Some(detail) = behind(view) {
        add(Reason::Behind, detail, Vec::new());
    }
    reasons
}

fn approval(job: &Job) -> Option<String> {
    let missing = job.spec.approvals_needed - job.approvals.len().min(job.spec.approvals_needed);
    let people = if missing == 1 {
        "1 person has"
    } else {
        "2 people have"
    };
    (missing > 0).then(|| format!("{people} to approve it"))
}

fn pause(job: &Job, view: &View<'_>) -> Option<String> {
    if view.all.paused {
        return Some("all jobs are paused".into());
    }
    let project = &job.spec.place.project;
    view.project
        .paused
        .then(|| format!("project {project} is paused"))
}

/// Returns why no worker that is alive takes the job.
fn without_worker(job: &Job, view: &View<'_>) -> Option<(Reason, String)> {
    if view.workers.is_empty() {
        return Some((Reason::NoWorker, "no worker runs".into()));
    }
    let labels = &job.spec.labels;
    let mut able = view
        .workers
        .iter()
        .filter(|worker| labels.is_subset(&worker.labels))
        .peekable();
    if able.peek().is_none() {
        let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
        let detail = format!("no worker has the labels it needs: {}", labels.join(", "));
        return Some((Reason::NoWorker, detail));
    }
    let directory = &job.spec.directory;
    let is_missing = !view.is_directory_here && able.all(|worker| worker.is_here);
    is_missing.then(|| {
        let detail = format!("its directory {} is not there", directory.display());
        (Reason::Node, detail)
    })
}

fn cap(job: &Job, refusal: &Refusal) -> String {
    let place = &job.spec.place;
    let of = match refusal.reason {
        Reason::ProjectCap => format!("jobs of project {}", place.project),
        Reason::MapCap => format!("jobs of project {} with a map", place.project),
        Reason::ClassCap => format!("jobs of class {}", place.class),
        _ => "jobs".into(),
    };
    let running = refusal.running.len();
    let mut named: Vec<&str> = refusal
        .running
        .iter()
        .map(String::as_str)
        .take(NAMED_MAX)
        .collect();
    if running > NAMED_MAX {
        named.push("…");
    }
    let named = if named.is_empty() {
        String::new()
    } else {
        format!(": {}", named.join(", "))
    };
    format!("{running} of at most {} {of} run{named}", refusal.cap)
}

fn lock(resource: &str, holders: &[Lease]) -> String {
    let Some(holder) = holders.first() else {
        return format!("{resource} is held");
    };
    let purpose = holder
        .purpose
        .as_ref()
        .map(|purpose| format!(" ({purpose})"));
    let purpose = purpose.unwrap_or_default();
    format!(
        "{resource} is held by {}{purpose}, since {}",
        holder.owner, holder.acquired_at
    )
}

fn behind(view: &View<'_>) -> Option<String> {
    if view.ahead > 0 {
        let jobs = if view.ahead == 1 { "job" } else { "jobs" };
        return Some(format!(
            "{} {jobs} of its project come before it",
            view.ahead
        ));
    }
    let places: usize = view.workers.iter().map(|worker| worker.jobs).sum();
    let running = view.running.jobs().len();
    let is_full = places > 0 && running >= places;
    is_full
        .then(|| format!("all workers are busy: {running} jobs run, and they run {places} at once"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::caps::Place;
    use crate::jobs::job::Spec;

    fn job(state: JobState) -> Job {
        let spec = serde_json::json!({
            "command": ["make"], "project": "atlas", "map": "m3", "class": "cpu", "priority": 2,
            "creator": "ana@desk", "directory": "/gone", "labels": ["gpu"],
            "approvals_needed": if state == JobState::PendingApproval { 2 } else { 0 },
        });
        let spec: Spec = serde_json::from_value(spec).unwrap();
        let job = Job::draft("j9".into(), spec, Timestamp::from_millis(0));
        Job {
            state,
            attempt: 1,
            ..job
        }
    }

    fn worker(labels: &[&str]) -> Worker {
        Worker {
            name: "w1".into(),
            labels: labels.iter().map(|label| (*label).to_owned()).collect(),
            jobs: 1,
            is_here: true,
        }
    }

    fn busy() -> (Caps, Running) {
        let mut running = Running::default();
        let place = |map: Option<&str>| Place {
            project: "atlas".into(),
            map: map.map(str::to_owned),
            class: "cpu".into(),
        };
        running.add("j1", place(Some("m1")));
        running.add("j2", place(None));
        let caps = Caps {
            global: Some(2),
            per_project: Some(2),
            map_per_project: Some(1),
            classes: [("cpu".to_owned(), 1)].into(),
        };
        (caps, running)
    }

    /// A view in which nothing keeps the job.
    fn free<'a>(workers: &'a [Worker], (caps, running): &'a (Caps, Running)) -> View<'a> {
        View {
            now: Timestamp::from_millis(1000),
            caps,
            running,
            all: Turn::default(),
            project: Turn::default(),
            workers,
            held: &[],
            is_directory_here: true,
            ahead: 0,
        }
    }

    fn told(job: &Job, view: &View<'_>) -> Vec<(Reason, String)> {
        let reasons = reasons(job, view).into_iter();
        reasons.map(|it| (it.reason, it.detail)).collect()
    }

    #[test]
    fn a_job_that_nothing_keeps_has_no_reason_and_neither_has_one_that_runs_or_is_over() {
        let (workers, idle) = ([worker(&["gpu"])], Default::default());
        for state in JobState::ALL {
            let expected = state == JobState::PendingApproval;
            let told = told(&job(state), &free(&workers, &idle));
            assert_eq!(!told.is_empty(), expected, "{state:?} {told:?}");
        }
    }

    #[test]
    fn all_that_keeps_a_job_is_told_at_once() {
        let (busy, held) = (busy(), [("project:atlas".to_owned(), Vec::new())]);
        let mut pending = job(JobState::PendingApproval);
        pending.retry_at = Some(Timestamp::from_millis(60_000));
        let mut view = free(&[], &busy);
        view.project.paused = true;
        (view.held, view.ahead) = (&held, 3);
        let expected = [
            (Reason::Approval, "2 people have to approve it"),
            (Reason::Paused, "project atlas is paused"),
            (
                Reason::RetryAt,
                "attempt 1 failed; it is tried again at 1970-01-01T00:01:00.000Z",
            ),
            (Reason::NoWorker, "no worker runs"),
            (Reason::GlobalCap, "2 of at most 2 jobs run: j1, j2"),
            (
                Reason::ProjectCap,
                "2 of at most 2 jobs of project atlas run: j1, j2",
            ),
            (
                Reason::MapCap,
                "1 of at most 1 jobs of project atlas with a map run: j1",
            ),
            (
                Reason::ClassCap,
                "2 of at most 1 jobs of class cpu run: j1, j2",
            ),
            (Reason::Lock, "project:atlas is held"),
            (Reason::Behind, "3 jobs of its project come before it"),
        ];
        let expected = expected.map(|(reason, detail)| (reason, detail.to_owned()));
        assert_eq!(told(&pending, &view), expected);
    }

    #[test]
    fn a_worker_that_cannot_take_a_job_does_not_count() {
        let (scheduled, idle) = (job(JobState::Scheduled), Default::default());
        let unlabelled = [worker(&["cpu"])];
        let expected = [(
            Reason::NoWorker,
            "no worker has the labels it needs: gpu".into(),
        )];
        assert_eq!(told(&scheduled, &free(&unlabelled, &idle)), expected);
        let away = |workers| View {
            is_directory_here: false,
            ..free(workers, &idle)
        };
        let here = [worker(&["gpu"])];
        let expected = [(Reason::Node, "its directory /gone is not there".into())];
        assert_eq!(told(&scheduled, &away(&here)), expected);
        let elsewhere = [Worker {
            is_here: false,
            ..worker(&["gpu"])
        }];
        assert_eq!(told(&scheduled, &away(&elsewhere)), []);
    }

    #[test]
    fn busy_workers_are_a_reason() {
        let (workers, busy) = ([worker(&["gpu"])], (Caps::default(), busy().1));
        let expected = "all workers are busy: 2 jobs run, and they run 1 at once";
        let told = told(&job(JobState::Scheduled), &free(&workers, &busy));
        assert_eq!(told, [(Reason::Behind, expected.into())]);
    }
}
