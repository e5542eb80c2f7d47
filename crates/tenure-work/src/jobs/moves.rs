//! Moves of jobs as one change of records: everything that follows from a move is written with it.
//!
//! # Invariants
//!
//! - A job is in the list of what runs exactly while its state is running.
//! - A project counts exactly its jobs that are scheduled.
//! - A job that starts exceeds no cap, as the caps are in the records of the same change.
//!
//! Both follow from one place: [`Queue::make`] compares the job before and after its move.

use std::collections::BTreeMap;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tenure::records::{Changes, Columns, Record, RecordKey, Seen};
use tenure::{Error, Result, Timestamp};
use tenure_api::jobs::{Caps, JobState};

use super::caps::{Refusal, Running};
use super::decide::{Event, IllegalMove, decide};
use super::job::Job;
use super::turns::Turn;

/// The id of the records that there is one of: what runs, the caps, all projects.
pub(super) const ALL: &str = "all";

/// One move of one job.
#[derive(Debug, Clone)]
pub struct Move {
    /// The job.
    pub job: String,
    /// Its project.
    pub project: String,
    /// What happens to it.
    pub event: Event,
}

impl Move {
    /// Returns a move of a job.
    pub fn of(job: &Job, event: Event) -> Self {
        Self {
            job: job.id.clone(),
            project: job.spec.place.project.clone(),
            event,
        }
    }
}

/// The reason why a move was not made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// There is no such job.
    Missing,
    /// Its state does not allow it.
    Illegal(IllegalMove),
    /// It would exceed these caps.
    Caps(Vec<Refusal>),
    /// Its project is paused, or all are.
    Paused,
}

/// The records of the queue that a change names, as they are, and then as they are to be.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Queue {
    jobs: BTreeMap<String, Job>,
    projects: BTreeMap<String, Turn>,
    all: Turn,
    running: Running,
    caps: Caps,
}

impl Queue {
    /// Returns the records that moves are made on. What runs is named by starts and ends alone, so
    /// that submissions to different projects do not wait for each other.
    pub fn keys(moves: &[Move]) -> Result<Vec<RecordKey>> {
        let mut keys = Vec::with_capacity(3 + 2 * moves.len());
        if moves.iter().any(|step| step.event.starts_or_ends()) {
            for kind in ["job_project", "job_running", "job_caps"] {
                keys.push(RecordKey::new(kind, ALL)?);
            }
        }
        for step in moves {
            keys.push(RecordKey::new("job", &step.job)?);
            keys.push(project_key(&step.project)?);
        }
        Ok(keys)
    }

    /// Reads what a change has loaded.
    pub fn of(seen: &Seen, moves: &[Move]) -> Result<Self> {
        let mut queue = Self {
            all: load(seen, &RecordKey::new("job_project", ALL)?)?.unwrap_or_default(),
            running: load(seen, &RecordKey::new("job_running", ALL)?)?.unwrap_or_default(),
            caps: load(seen, &RecordKey::new("job_caps", ALL)?)?.unwrap_or_default(),
            ..Self::default()
        };
        for step in moves {
            if let Some(job) = load(seen, &RecordKey::new("job", &step.job)?)? {
                queue.jobs.insert(step.job.clone(), job);
            }
            let project = load(seen, &project_key(&step.project)?)?.unwrap_or_default();
            queue.projects.insert(step.project.clone(), project);
        }
        Ok(queue)
    }

    /// Adds a draft, which its submission makes a record of.
    pub fn add(&mut self, draft: Job) {
        self.jobs.insert(draft.id.clone(), draft);
    }

    /// Makes a move, and all that follows from it. Returns the job as it is then.
    ///
    /// # Errors
    ///
    /// The reason for a refusal; nothing is changed then.
    pub fn make(&mut self, step: &Move, now: Timestamp) -> Result<&Job, Refused> {
        let before = self.jobs.get(&step.job);
        let before = before.filter(|job| job.spec.place.project == step.project);
        let before = before.ok_or(Refused::Missing)?;
        let after = decide(before, step.event.clone(), now).map_err(Refused::Illegal)?;
        if let Event::Start { .. } = step.event {
            self.check_start(before)?;
        }
        let from = before.state;
        if from != after.state {
            self.leave(from, step);
            self.enter(&after, step);
        }
        self.jobs.insert(step.job.clone(), after);
        Ok(&self.jobs[&step.job])
    }

    fn leave(&mut self, state: JobState, step: &Move) {
        let project = self.projects.entry(step.project.clone()).or_default();
        match state {
            JobState::Scheduled => project.waiting = project.waiting.saturating_sub(1),
            JobState::Running => drop(self.running.remove(&step.job)),
            _ => {}
        }
    }

    fn enter(&mut self, job: &Job, step: &Move) {
        let project = self.projects.entry(step.project.clone()).or_default();
        match job.state {
            JobState::Scheduled => project.waiting += 1,
            JobState::Running => {
                (*project, self.all) = project.started(self.all);
                self.running.add(&step.job, job.spec.place.clone());
            }
            _ => {}
        }
    }

    /// Refuses a start that is paused, or that a cap does not allow.
    fn check_start(&self, job: &Job) -> Result<(), Refused> {
        let project = self.projects.get(&job.spec.place.project);
        if self.all.paused || project.is_some_and(|project| project.paused) {
            return Err(Refused::Paused);
        }
        let refusals = self.running.refusals(&self.caps, &job.spec.place);
        if refusals.is_empty() {
            return Ok(());
        }
        Err(Refused::Caps(refusals))
    }

    /// Returns what differs from before, as writes of a change.
    pub fn changes(&self, before: &Queue) -> Result<Changes> {
        let mut changes = Changes::default();
        for (id, job) in &self.jobs {
            if before.jobs.get(id) != Some(job) {
                let columns = job_columns(job);
                changes.put(RecordKey::new("job", id)?, columns, body(job)?);
            }
        }
        for (name, project) in &self.projects {
            if before.projects.get(name) != Some(project) {
                let columns = project_columns(*project);
                changes.put(project_key(name)?, columns, body(project)?);
            }
        }
        let one = |kind| RecordKey::new(kind, ALL);
        if before.all != self.all {
            changes.put(one("job_project")?, Columns::default(), body(&self.all)?);
        }
        if before.running != self.running {
            changes.put(
                one("job_running")?,
                Columns::default(),
                body(&self.running)?,
            );
        }
        Ok(changes)
    }
}

/// Returns the record of a project. The prefix keeps it apart from that of all projects.
pub fn project_key(project: &str) -> Result<RecordKey> {
    RecordKey::new("job_project", format!("project {project}"))
}

/// Projects are listed among those that have jobs that wait, in the order of their turn.
fn project_columns(project: Turn) -> Columns {
    Columns {
        state: (project.waiting > 0).then(|| "waiting".to_owned()),
        ..Columns::default()
    }
}

/// Jobs are listed by state. Those that wait for their turn are listed by project, too, and those
/// that are over by the day of their end.
fn job_columns(job: &Job) -> Columns {
    let subject = match (job.state, job.ended_at) {
        (JobState::Scheduled, _) => Some(waiting_in(&job.spec.place.project)),
        (_, Some(ended_at)) => Some(over_on(ended_at)),
        _ => None,
    };
    Columns {
        state: Some(job.state.as_str().to_owned()),
        owner: Some(job.spec.creator.to_string()),
        subject,
    }
}

/// Returns the subject of jobs that wait for their turn in a project.
pub(super) fn waiting_in(project: &str) -> String {
    format!("waiting in {project}")
}

/// Returns the subject of jobs that ended on the same day.
pub(super) fn over_on(ended_at: Timestamp) -> String {
    let day = ended_at.to_string();
    format!("over on {}", day.split('T').next().unwrap_or(&day))
}

fn load<T: DeserializeOwned>(seen: &Seen, key: &RecordKey) -> Result<Option<T>> {
    seen.get(key).map(read).transpose()
}

/// Reads the body of a record.
pub(super) fn read<T: DeserializeOwned>(record: &Record) -> Result<T> {
    T::deserialize(&record.body).map_err(|error| {
        Error::corrupt("records", format!("{} cannot be read: {error}", record.key))
    })
}

pub(super) fn body(value: &impl Serialize) -> Result<serde_json::Value> {
    serde_json::to_value(value).map_err(|error| Error::Internal(error.to_string()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tenure::Owner;

    use super::*;
    use crate::jobs::caps::Place;
    use crate::jobs::decide::Ending;
    use crate::jobs::job::Spec;

    fn draft(id: &str, project: &str, map: bool) -> Job {
        let spec = serde_json::json!({
            "command": ["true"], "project": project, "map": map.then_some("m"), "class": "cpu",
            "priority": 2, "creator": "ana@desk", "directory": "/w", "retries": 1,
        });
        let spec: Spec = serde_json::from_value(spec).unwrap();
        Job::draft(id.into(), spec, Timestamp::from_millis(0))
    }

    fn event(number: u8) -> Event {
        let end = |ending| Event::End {
            ending,
            jitter: 0.0,
        };
        match number % 7 {
            0 => Event::Submit,
            1 | 2 => Event::Start { worker: "w".into() },
            3 => end(Ending::Exited(0)),
            4 => end(Ending::Exited(1)),
            5 => Event::Lose,
            _ => Event::Cancel(Owner::parse("ana@desk").unwrap()),
        }
    }

    /// Checks what must be true after every change.
    fn check(queue: &Queue) {
        let running = |job: &&Job| job.state == JobState::Running;
        let expected: Vec<&str> = queue
            .jobs
            .values()
            .filter(running)
            .map(|job| job.id.as_str())
            .collect();
        let listed: Vec<&str> = queue.running.jobs().map(|(id, _)| id).collect();
        assert_eq!(listed, expected);
        for (name, project) in &queue.projects {
            let waits =
                |job: &&Job| job.spec.place.project == *name && job.state == JobState::Scheduled;
            assert_eq!(
                project.waiting,
                queue.jobs.values().filter(waits).count() as u64,
                "{name}"
            );
        }
    }

    proptest! {
        #[test]
        fn what_runs_and_what_waits_is_counted_rightly_after_any_moves(
            moves in prop::collection::vec((0..8u8, any::<u8>(), 0..4u8), 1..200),
        ) {
            let mut queue = Queue { caps: Caps { per_project: Some(2), ..Caps::default() }, ..Queue::default() };
            for number in 0..8u8 {
                queue.add(draft(&format!("j{number}"), ["a", "b"][usize::from(number % 2)], number < 4));
            }
            for (at, (number, kind, global)) in moves.into_iter().enumerate() {
                queue.caps.global = (global > 0).then_some(global.into());
                let step = Move {
                    job: format!("j{number}"),
                    project: ["a", "b"][usize::from(number % 2)].into(),
                    event: event(kind),
                };
                let before = queue.clone();
                let now = Timestamp::from_millis(at as i64 * 100_000);
                let started = matches!(step.event, Event::Start { .. });
                match queue.make(&step, now) {
                    Err(_) => prop_assert_eq!(&queue, &before),
                    Ok(_) if started => {
                        let place = |project: &str| Place { project: project.into(), map: None, class: "io".into() };
                        let over = |caps: &Caps| queue.running.refusals(caps, &place(&step.project));
                        let one_more = |cap: u32| Caps { global: Some(cap + 1), ..Caps::default() };
                        if let Some(cap) = queue.caps.global {
                            prop_assert!(over(&one_more(cap)).is_empty());
                        }
                        let project = Caps { per_project: Some(3), ..Caps::default() };
                        prop_assert!(over(&project).is_empty());
                    }
                    Ok(_) => {}
                }
                check(&queue);
            }
        }
    }

    #[test]
    fn a_paused_project_starts_nothing_and_a_job_of_another_project_is_not_found() {
        let mut queue = Queue::default();
        queue.add(draft("j", "a", false));
        let now = Timestamp::from_millis(1);
        let step = |project: &str, event| Move {
            job: "j".into(),
            project: project.into(),
            event,
        };
        assert_eq!(
            queue.make(&step("b", Event::Submit), now),
            Err(Refused::Missing)
        );
        queue.make(&step("a", Event::Submit), now).unwrap();
        queue.projects.get_mut("a").unwrap().paused = true;
        let start = step("a", Event::Start { worker: "w".into() });
        assert_eq!(queue.make(&start, now), Err(Refused::Paused));
        queue.projects.get_mut("a").unwrap().paused = false;
        queue.all.paused = true;
        assert_eq!(queue.make(&start, now), Err(Refused::Paused));
        queue.all.paused = false;
        assert_eq!(queue.make(&start, now).unwrap().state, JobState::Running);
    }
}
