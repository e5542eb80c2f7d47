//! The queue, as records: submitting, listing, moving jobs, caps and pauses.

use std::collections::BTreeMap;

use tenure::records::{Changes, Column, Expected, Fence, RecordKey, RecordQuery, Records, Seen};
use tenure::{Owner, Result, clock};
use tenure_api::jobs::{Caps, JobState};
use tenure_os::random;

use super::decide::Event;
use super::error::JobError;
use super::job::{Job, Spec};
use super::moves::{ALL, Move, Queue, Refused, body, project_key, read, waiting_in};
use super::turns::{Turn, new_id};
use crate::all_records::all_records;

/// A start looks so deep in a project for a job that it may take.
pub const LOOK_MAX: usize = 100;

/// The jobs of a store.
#[derive(Clone, Copy)]
pub struct Jobs<'a> {
    records: Records<'a>,
}

impl<'a> Jobs<'a> {
    /// Returns the jobs among the records of a store.
    pub fn of(records: Records<'a>) -> Self {
        Self { records }
    }

    /// Submits a job. Under a key that its creator used before, that job is returned instead.
    ///
    /// # Errors
    ///
    /// [`JobError::OtherJob`] if the job of that key is another one.
    pub async fn submit(&self, spec: Spec) -> Result<Job> {
        let random = u32::from_ne_bytes(random::bytes());
        let draft = Job::draft(
            new_id(spec.priority, clock::now(), random),
            spec,
            clock::now(),
        );
        let key = draft.spec.key.as_deref();
        let key = key
            .map(|key| key_of(&draft.spec.creator, key))
            .transpose()?;
        let moves = [Move::of(&draft, Event::Submit)];
        let mut named = Queue::keys(&moves)?;
        named.extend(key.clone());
        let submitted = self.records.decide(any(named), |seen| {
            if let Some(before) = key.as_ref().and_then(|key| seen.get(key)) {
                return Ok((Changes::default(), Err(read::<String>(before)?)));
            }
            let before = Queue::of(seen, &moves)?;
            let mut queue = before.clone();
            queue.add(draft.clone());
            let job = queue.make(&moves[0], seen.now).cloned();
            let job = job.map_err(|refused| JobError::of(&draft.id, refused))?;
            let mut changes = queue.changes(&before)?;
            if let Some(key) = &key {
                changes.put(key.clone(), Default::default(), body(&job.id)?);
            }
            Ok((changes, Ok(job)))
        });
        match submitted.await? {
            Ok(job) => Ok(job),
            Err(id) => {
                let job = self.get(&id).await?;
                let is_same = job.spec
                    == Spec {
                        environment: job.spec.environment.clone(),
                        ..draft.spec
                    };
                if is_same {
                    Ok(job)
                } else {
                    Err(JobError::OtherJob { job: id }.into())
                }
            }
        }
    }

    /// Returns a job.
    ///
    /// # Errors
    ///
    /// [`JobError::Missing`] if there is none of that id.
    pub async fn get(&self, id: &str) -> Result<Job> {
        let record = self.records.read(&RecordKey::new("job", id)?).await?;
        let missing = || JobError::Missing { job: id.to_owned() };
        read(&record.ok_or_else(missing)?)
    }

    /// Returns a page of jobs in the order of their ids, and the cursor of the next page.
    pub async fn list(
        &self,
        state: Option<JobState>,
        limit: usize,
        after: Option<String>,
    ) -> Result<(Vec<Job>, Option<String>)> {
        let mut query = RecordQuery::new("job");
        query.column = state.map(|state| Column::State(state.as_str().to_owned()));
        (query.limit, query.after) = (limit, after);
        let page = self.records.list(&query).await?;
        let jobs = page.records.iter().map(read).collect::<Result<_>>()?;
        Ok((jobs, page.next))
    }

    /// Returns the first jobs of a project in the order of their turn, at most [`LOOK_MAX`].
    pub async fn waiting(&self, project: &str) -> Result<Vec<Job>> {
        let query = RecordQuery::new("job").with_column(Column::Subject(waiting_in(project)));
        let page = self.records.list(&query).await?;
        page.records.iter().map(read).collect()
    }

    /// Returns the projects that have jobs which wait, the one whose turn it is first.
    pub async fn turns(&self) -> Result<Vec<(String, Turn)>> {
        let query = RecordQuery::new("job_project").with_column(Column::State("waiting".into()));
        let mut turns = Vec::new();
        for record in all_records(&self.records, query).await? {
            let name = record.key.id().strip_prefix("project ").unwrap_or_default();
            turns.push((name.to_owned(), read::<Turn>(&record)?));
        }
        turns.sort_by_key(|(_, turn)| turn.pass);
        Ok(turns)
    }

    /// Makes moves of jobs in one change, each as if it were alone: one that is refused changes
    /// nothing, and the others are made.
    pub async fn make(
        &self,
        moves: &[Move],
        fences: impl IntoIterator<Item = Fence>,
    ) -> Result<Vec<Result<Job, Refused>>> {
        let decide = |seen: &Seen| {
            let before = Queue::of(seen, moves)?;
            let mut queue = before.clone();
            let mut made = Vec::with_capacity(moves.len());
            for step in moves {
                made.push(queue.make(step, seen.now).cloned());
            }
            Ok((queue.changes(&before)?, made))
        };
        self.records
            .decide_under(any(Queue::keys(moves)?), fences, decide)
            .await
    }

    /// Makes one move.
    pub async fn make_one(&self, job: &Job, event: Event, fence: Option<Fence>) -> Result<Job> {
        let made = self.make(&[Move::of(job, event)], fence).await?;
        let made = made.into_iter().next().unwrap_or(Err(Refused::Missing));
        made.map_err(|refused| JobError::of(&job.id, refused).into())
    }

    /// Returns the caps.
    pub async fn caps(&self) -> Result<Caps> {
        let record = self.records.read(&RecordKey::new("job_caps", ALL)?).await?;
        Ok(record.as_ref().map(read).transpose()?.unwrap_or_default())
    }

    /// Changes the caps, and returns them as they are then.
    pub async fn set_caps(&self, change: impl Fn(&mut Caps) + Send + Sync) -> Result<Caps> {
        let key = RecordKey::new("job_caps", ALL)?;
        let decide = |seen: &Seen| {
            let before = seen.get(&key).map(read::<Caps>).transpose()?;
            let mut caps = before.unwrap_or_default();
            change(&mut caps);
            let mut changes = Changes::default();
            changes.put(key.clone(), Default::default(), body(&caps)?);
            Ok((changes, caps))
        };
        self.records.decide(any([key.clone()]), decide).await
    }

    /// Pauses a project, or all of them, or lets it go on.
    pub async fn pause(&self, project: Option<&str>, paused: bool) -> Result<()> {
        let key = match project {
            Some(project) => project_key(project)?,
            None => RecordKey::new("job_project", ALL)?,
        };
        let decide = |seen: &Seen| {
            let record = seen.get(&key);
            let turn = record.map(read::<Turn>).transpose()?.unwrap_or_default();
            let columns = record.map(|record| record.columns.clone());
            let mut changes = Changes::default();
            let turn = Turn { paused, ..turn };
            changes.put(key.clone(), columns.unwrap_or_default(), body(&turn)?);
            Ok((changes, ()))
        };
        self.records.decide(any([key.clone()]), decide).await
    }
}

fn any(keys: impl IntoIterator<Item = RecordKey>) -> BTreeMap<RecordKey, Expected> {
    keys.into_iter().map(|key| (key, Expected::Any)).collect()
}

/// Returns the record that remembers the job of a key. Owners have no blanks.
fn key_of(creator: &Owner, key: &str) -> Result<RecordKey> {
    RecordKey::new("job_key", format!("{creator} {key}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tenure::{Class, Keeper};
    use tenure_api::jobs::Reason;

    use super::*;
    use crate::jobs::decide::Ending;

    struct Scene {
        keeper: Keeper,
        _directory: tempfile::TempDir,
    }

    impl Scene {
        async fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let url = format!("sqlite:{}/t.db", directory.path().display());
            let keeper = Keeper::open(&url).await.unwrap();
            Self {
                keeper,
                _directory: directory,
            }
        }

        fn jobs(&self) -> Jobs<'_> {
            Jobs::of(self.keeper.records("a test").unwrap())
        }
    }

    fn spec(project: &str, more: serde_json::Value) -> Spec {
        let mut spec = json!({
            "command": ["true"], "project": project, "class": "cpu", "priority": 2,
            "creator": "ana@desk", "directory": "/w",
        });
        let more = more.as_object().unwrap().clone();
        spec.as_object_mut().unwrap().extend(more);
        serde_json::from_value(spec).unwrap()
    }

    fn start() -> Event {
        Event::Start { worker: "w".into() }
    }

    fn ended() -> Event {
        Event::End {
            ending: Ending::Exited(0),
            jitter: 0.0,
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn jobs_of_a_project_wait_in_the_order_of_priority_and_age() {
        let scene = Scene::new().await;
        let mut ids = Vec::new();
        for priority in [5, 2, 9] {
            ids.push(
                scene
                    .jobs()
                    .submit(spec("a", json!({"priority": priority})))
                    .await
                    .unwrap()
                    .id,
            );
        }
        scene.jobs().submit(spec("b", json!({}))).await.unwrap();
        let waiting = scene.jobs().waiting("a").await.unwrap();
        let found: Vec<&String> = waiting.iter().map(|job| &job.id).collect();
        assert_eq!(found, [&ids[1], &ids[0], &ids[2]]);
        let first = &waiting[0];
        scene.jobs().make_one(first, start(), None).await.unwrap();
        assert_eq!(scene.jobs().waiting("a").await.unwrap().len(), 2);
        let turns = scene.jobs().turns().await.unwrap();
        let names: Vec<&str> = turns.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["b", "a"]);
        assert_eq!(
            turns[1].1,
            Turn {
                pass: 1,
                paused: false,
                waiting: 2
            }
        );
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_key_is_one_job_and_no_other() {
        let scene = Scene::new().await;
        let keyed = |command: &str| spec("a", json!({"key": "nightly", "command": [command]}));
        let first = scene.jobs().submit(keyed("make")).await.unwrap();
        assert_eq!(scene.jobs().submit(keyed("make")).await.unwrap(), first);
        let other = scene.jobs().submit(keyed("rm")).await.unwrap_err();
        assert_eq!(other.class(), Class::Conflict, "{other}");
        assert_eq!(scene.jobs().list(None, 10, None).await.unwrap().0.len(), 1);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn caps_hold_for_starts_in_one_change_and_an_end_makes_room() {
        let scene = Scene::new().await;
        let jobs = scene.jobs();
        jobs.set_caps(|caps| caps.per_project = Some(2))
            .await
            .unwrap();
        let mut moves = Vec::new();
        for _ in 0..3 {
            let job = jobs.submit(spec("a", json!({}))).await.unwrap();
            moves.push(Move::of(&job, start()));
        }
        let made = jobs.make(&moves, []).await.unwrap();
        assert!(made[0].is_ok() && made[1].is_ok(), "{made:?}");
        let Err(Refused::Caps(refusals)) = &made[2] else {
            panic!("{made:?}");
        };
        assert_eq!(refusals[0].reason, Reason::ProjectCap);
        jobs.make_one(made[0].as_ref().unwrap(), ended(), None)
            .await
            .unwrap();
        let third = jobs.get(&moves[2].job).await.unwrap();
        assert_eq!(
            jobs.make_one(&third, start(), None).await.unwrap().state,
            JobState::Running
        );
        let again = jobs.make_one(&third, start(), None).await.unwrap_err();
        assert_eq!(again.class(), Class::Conflict, "{again}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_pause_keeps_jobs_from_starting_and_ends() {
        let scene = Scene::new().await;
        let jobs = scene.jobs();
        let job = jobs.submit(spec("a", json!({}))).await.unwrap();
        for project in [None, Some("a")] {
            jobs.pause(project, true).await.unwrap();
            let refused = jobs.make_one(&job, start(), None).await.unwrap_err();
            assert_eq!(refused.class(), Class::Busy, "{refused}");
            jobs.pause(project, false).await.unwrap();
        }
        assert_eq!(jobs.waiting("a").await.unwrap().len(), 1);
        jobs.make_one(&job, start(), None).await.unwrap();
        let missing = jobs.get("nothing").await.unwrap_err();
        assert_eq!(missing.class(), Class::NotFound);
    }
}
