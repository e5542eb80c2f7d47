//! The effect of an event on a job: one pure function, state × event → job.
//!
//! | event | draft | pending approval | scheduled | running | completed, error, cancelled |
//! |---|---|---|---|---|---|
//! | submit | pending approval where one is needed, else scheduled | – | – | – | – |
//! | approve | – | scheduled with the last one that is needed | – | – | – |
//! | expire | – | – | pending approval, if its approvals are too old | – | – |
//! | start | – | – | running, once its retry is due, while its approvals are good | – | – |
//! | end, status 0 | – | – | – | completed | – |
//! | end, failed | – | – | – | scheduled while retries are left, else error | – |
//! | end, over a limit | – | – | – | error | – |
//! | lose | – | – | – | scheduled, 5 times at most and never where restarts are off; else error | – |
//! | give up | – | – | error | – | – |
//! | cancel | cancelled | cancelled | cancelled | running, until its attempt ends | – |
//!
//! – is an illegal move, which changes nothing. An attempt that ends after the job was cancelled
//! leaves it cancelled, whatever its status.

use std::time::Duration;

use tenure::{Owner, Timestamp};
use tenure_api::jobs::{Approval, JobState};

use super::job::{Job, LOST_MAX};

/// The first pause before a job that failed is tried again. Each further one is twice as long.
const RETRY_PAUSE: Duration = Duration::from_secs(10);
/// An approval is good for so long, unless its job has started by then.
pub const APPROVAL_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// The longest pause.
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(60 * 60);

/// An event in the life of a job.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// Its creator submits it.
    Submit,
    /// A person approves it.
    Approve(Approval),
    /// Its approvals are too old.
    Expire,
    /// A worker that holds its lease and its locks starts an attempt.
    Start {
        /// The worker.
        worker: String,
    },
    /// The attempt ended.
    End {
        /// How.
        ending: Ending,
        /// A random number from 0 to 1, which spreads retries over a quarter of their pause.
        jitter: f64,
    },
    /// The attempt was lost: its holder is dead and left no status.
    Lose,
    /// Its worker gives it up before it starts, with the reason.
    GiveUp(String),
    /// It is not wanted any more.
    Cancel(Owner),
}

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// The command ended with this status, 128 and the signal's number where a signal ended it.
    Exited(i32),
    /// The command was ended, since it exceeded a limit.
    OverLimit(String),
}

/// A move that the table does not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("job {job} is {}, and cannot be {act}", state.as_str())]
pub struct IllegalMove {
    /// The job.
    pub job: String,
    /// Its state.
    pub state: JobState,
    /// The refused event, as a past participle.
    pub act: &'static str,
}

impl Event {
    /// Returns true if an attempt starts or ends with it.
    pub fn starts_or_ends(&self) -> bool {
        matches!(self, Event::Start { .. } | Event::End { .. } | Event::Lose)
    }

    fn act(&self) -> &'static str {
        match self {
            Event::Submit => "submitted",
            Event::Approve(_) => "approved",
            Event::Expire => "sent back to be approved again",
            Event::Start { .. } => "started",
            Event::End { .. } | Event::Lose => "ended",
            Event::GiveUp(_) => "given up",
            Event::Cancel(_) => "cancelled",
        }
    }
}

/// Returns the job as it is after an event.
///
/// # Errors
///
/// [`IllegalMove`] for an event that its state does not allow.
pub fn decide(job: &Job, event: Event, now: Timestamp) -> Result<Job, IllegalMove> {
    let illegal = IllegalMove {
        job: job.id.clone(),
        state: job.state,
        act: event.act(),
    };
    let mut job = job.clone();
    match (job.state, event) {
        (JobState::Draft, Event::Submit) => {
            job.submitted_at = now;
            job.state = approved(&job);
        }
        (JobState::PendingApproval, Event::Approve(approval)) => {
            job.approvals.push(approval);
            job.state = approved(&job);
        }
        (JobState::Scheduled, Event::Expire) if !is_approved(&job, now) => {
            job.approvals.clear();
            job.state = JobState::PendingApproval;
        }
        (JobState::Scheduled, Event::Start { worker })
            if is_due(&job, now) && is_approved(&job, now) =>
        {
            job.attempt += 1;
            job.state = JobState::Running;
            job.started_at = Some(now);
            job.worker = Some(worker);
            job.retry_at = None;
            job.exit_code = None;
            job.detail = None;
        }
        (JobState::Running, Event::End { ending, jitter }) => end(&mut job, ending, jitter, now),
        (JobState::Running, Event::Lose) => lose(&mut job, now),
        (JobState::Scheduled, Event::GiveUp(why)) => over(&mut job, JobState::Error, why, now),
        (JobState::Running, Event::Cancel(by)) => job.cancelled_by = job.cancelled_by.or(Some(by)),
        (JobState::Draft | JobState::PendingApproval | JobState::Scheduled, Event::Cancel(by)) => {
            let why = format!("cancelled by {by} before it started");
            job.cancelled_by = Some(by);
            over(&mut job, JobState::Cancelled, why, now);
        }
        _ => return Err(illegal),
    }
    Ok(job)
}

/// Returns true if a job may start, as far as its retries are concerned.
pub fn is_due(job: &Job, now: Timestamp) -> bool {
    job.retry_at.is_none_or(|at| at <= now)
}

/// Returns true if a job has the approvals that it needs, and none is too old. They are used up by
/// its first start, and so hold for all of its attempts.
pub fn is_approved(job: &Job, now: Timestamp) -> bool {
    let fresh = job
        .approvals
        .iter()
        .filter(|approval| now.since(approval.at) < APPROVAL_MAX);
    job.attempt > 0 || fresh.count() >= job.spec.approvals_needed
}

fn approved(job: &Job) -> JobState {
    if job.approvals.len() < job.spec.approvals_needed {
        JobState::PendingApproval
    } else {
        JobState::Scheduled
    }
}

fn over(job: &mut Job, state: JobState, detail: String, now: Timestamp) {
    job.state = state;
    job.ended_at = Some(now);
    job.detail = Some(detail);
}

fn end(job: &mut Job, ending: Ending, jitter: f64, now: Timestamp) {
    let (status, detail) = match ending {
        Ending::Exited(status) => (Some(status), format!("ended with status {status}")),
        Ending::OverLimit(which) => (None, which),
    };
    job.exit_code = status;
    let has_failed = status.is_some_and(|status| status != 0);
    if let Some(by) = &job.cancelled_by {
        let why = format!("cancelled by {by}; {detail}");
        over(job, JobState::Cancelled, why, now);
    } else if has_failed && job.failed < job.spec.retries {
        job.failed += 1;
        job.state = JobState::Scheduled;
        job.retry_at = Some(now.after(retry_pause(job.failed, jitter)));
        job.detail = Some(detail);
    } else {
        let state = if status == Some(0) {
            JobState::Completed
        } else {
            JobState::Error
        };
        over(job, state, detail, now);
    }
}

fn lose(job: &mut Job, now: Timestamp) {
    job.lost += 1;
    let detail = format!("attempt {} was lost with its worker", job.attempt);
    if let Some(by) = &job.cancelled_by {
        let why = format!("cancelled by {by}; {detail}");
        over(job, JobState::Cancelled, why, now);
    } else if job.spec.restart && job.lost <= LOST_MAX {
        job.state = JobState::Scheduled;
        job.detail = Some(detail);
    } else {
        over(job, JobState::Error, detail, now);
    }
}

/// Returns the pause after the n-th failure.
fn retry_pause(failed: u32, jitter: f64) -> Duration {
    let doubled = 2u32.saturating_pow(failed.saturating_sub(1));
    let pause = RETRY_PAUSE.saturating_mul(doubled).min(RETRY_PAUSE_MAX);
    pause.mul_f64(1.0 - jitter.clamp(0.0, 1.0) / 4.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::caps::Place;
    use crate::jobs::job::{PRIORITY_DEFAULT, Spec};

    fn now() -> Timestamp {
        Timestamp::from_millis(1_000_000)
    }

    fn job(state: JobState) -> Job {
        let spec = Spec {
            command: vec!["true".into()],
            place: Place {
                project: "atlas".into(),
                map: None,
                class: "cpu".into(),
            },
            locks: Vec::new(),
            operation: None,
            priority: PRIORITY_DEFAULT,
            limits: Default::default(),
            key: None,
            creator: owner("ana@desk"),
            labels: Default::default(),
            directory: "/w".into(),
            environment: Default::default(),
            retries: 0,
            restart: true,
            approvals_needed: 0,
        };
        Job {
            state,
            ..Job::draft("j1".into(), spec, now())
        }
    }

    fn owner(name: &str) -> Owner {
        Owner::parse(name).unwrap()
    }

    fn approval(name: &str) -> Event {
        Event::Approve(Approval {
            owner: owner(name),
            uid: 1000,
            terminal: None,
            at: now(),
        })
    }

    fn exited(status: i32) -> Event {
        Event::End {
            ending: Ending::Exited(status),
            jitter: 0.0,
        }
    }

    fn every_event() -> [Event; 10] {
        [
            Event::Expire,
            Event::Submit,
            approval("bea@desk"),
            Event::Start { worker: "w".into() },
            exited(0),
            exited(1),
            Event::End {
                ending: Ending::OverLimit("ran for longer than 1s".into()),
                jitter: 0.0,
            },
            Event::Lose,
            Event::GiveUp("lock name:x was never free".into()),
            Event::Cancel(owner("ana@desk")),
        ]
    }

    /// The table at the top, a letter for the state after each of `every_event`.
    fn table(state: JobState) -> [Option<JobState>; 10] {
        let row = match state {
            JobState::Draft => ". S . . . . . . . X",
            JobState::PendingApproval => ". . S . . . . . . X",
            JobState::Scheduled => ". . . R . . . . E X",
            JobState::Running => ". . . . C E E S . R",
            JobState::Completed | JobState::Error | JobState::Cancelled => ". . . . . . . . . .",
        };
        let letters: Vec<Option<JobState>> = row
            .split(' ')
            .map(|letter| match letter {
                "S" => Some(JobState::Scheduled),
                "R" => Some(JobState::Running),
                "C" => Some(JobState::Completed),
                "E" => Some(JobState::Error),
                "X" => Some(JobState::Cancelled),
                _ => None,
            })
            .collect();
        letters.try_into().expect("a row has ten letters")
    }

    #[test]
    fn every_move_is_in_the_table_and_no_other_is_made() {
        for state in JobState::ALL {
            for (event, expected) in every_event().into_iter().zip(table(state)) {
                let after = decide(&job(state), event.clone(), now());
                let found = after.as_ref().ok().map(|after| after.state);
                assert_eq!(found, expected, "{state:?} {event:?}");
                if let Ok(after) = after {
                    assert_eq!(
                        after.state.is_final(),
                        after.ended_at.is_some(),
                        "{event:?}"
                    );
                }
            }
        }
    }

    /// Every chain of events from a draft keeps what must always be true, and none is endless.
    #[test]
    fn no_chain_of_events_starts_a_job_that_is_over_or_not_approved() {
        for (approvals_needed, restart, retries) in
            [(0, true, 0), (1, true, 1), (2, false, 2), (2, true, 0)]
        {
            let mut first = job(JobState::Draft);
            first.spec.approvals_needed = approvals_needed;
            first.spec.restart = restart;
            first.spec.retries = retries;
            let mut seen: Vec<Job> = Vec::new();
            let mut ahead = vec![first];
            let later = Timestamp::from_millis(now().as_millis() + 10_000_000);
            while let Some(job) = ahead.pop() {
                if seen.contains(&job) {
                    continue;
                }
                for event in every_event() {
                    let Ok(after) = decide(&job, event.clone(), later) else {
                        continue;
                    };
                    assert!(!job.state.is_final(), "{job:?} {event:?}");
                    if after.state == JobState::Running {
                        assert!(after.approvals.len() >= approvals_needed);
                        assert!(after.attempt >= 1);
                    }
                    let starts_bound = 1 + LOST_MAX + retries;
                    assert!(after.attempt <= starts_bound, "{after:?}");
                    if job.cancelled_by.is_some() && after.state.is_final() {
                        assert_eq!(after.state, JobState::Cancelled);
                    }
                    ahead.push(after);
                }
                seen.push(job);
            }
            let reached = |state| seen.iter().any(|job| job.state == state);
            assert!(JobState::ALL.iter().all(|state| {
                reached(*state) || (*state == JobState::PendingApproval && approvals_needed == 0)
            }));
        }
    }

    #[test]
    fn a_job_that_lost_its_worker_five_times_is_not_begun_a_sixth() {
        let mut job = job(JobState::Scheduled);
        for lost in 1..=LOST_MAX + 1 {
            job = decide(&job, Event::Start { worker: "w".into() }, now()).unwrap();
            job = decide(&job, Event::Lose, now()).unwrap();
            let expected = if lost <= LOST_MAX {
                JobState::Scheduled
            } else {
                JobState::Error
            };
            assert_eq!(job.state, expected, "lost {lost}");
        }
        assert!(job.detail.unwrap().contains("attempt 6 was lost"));
    }

    #[test]
    fn pauses_between_retries_double_up_to_an_hour_and_are_spread() {
        let seconds = |failed, jitter| retry_pause(failed, jitter).as_secs_f64();
        assert_eq!(
            (seconds(1, 0.0), seconds(2, 0.0), seconds(3, 0.0)),
            (10.0, 20.0, 40.0)
        );
        assert_eq!((seconds(1, 1.0), seconds(40, 0.0)), (7.5, 3600.0));
    }

    #[test]
    fn a_job_is_not_started_before_its_retry_is_due() {
        let mut failed = job(JobState::Running);
        failed.spec.retries = 1;
        let waiting = decide(&failed, exited(3), now()).unwrap();
        assert_eq!(
            (waiting.state, waiting.exit_code),
            (JobState::Scheduled, Some(3))
        );
        let start = || Event::Start { worker: "w".into() };
        assert!(decide(&waiting, start(), now()).is_err());
        let due = waiting.retry_at.unwrap();
        assert_eq!(
            decide(&waiting, start(), due).unwrap().state,
            JobState::Running
        );
    }

    #[test]
    fn an_approval_is_good_for_a_day_and_then_for_all_attempts_of_a_job_that_started() {
        let mut pending = job(JobState::PendingApproval);
        pending.spec.approvals_needed = 1;
        pending.spec.retries = 1;
        let scheduled = decide(&pending, approval("bea@desk"), now()).unwrap();
        let start = || Event::Start { worker: "w".into() };
        let late = now().after(APPROVAL_MAX);
        assert!(decide(&scheduled, Event::Expire, now()).is_err());
        assert!(decide(&scheduled, start(), late).is_err());
        let again = decide(&scheduled, Event::Expire, late).unwrap();
        assert_eq!(
            (again.state, again.approvals.len()),
            (JobState::PendingApproval, 0)
        );
        let started = decide(&scheduled, start(), now()).unwrap();
        let failed = decide(&started, exited(1), now()).unwrap();
        assert!(decide(&failed, start(), late).is_ok());
    }
}
