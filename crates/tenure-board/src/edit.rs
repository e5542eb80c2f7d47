//! Changes of existing issues: by a closure, notes, dependencies, gates, deletion.

use std::time::Instant;

use serde_json::json;
use tenure_api::board::GateBy;
use tenure_core::{Error, Mode, Remedy, Result, Token};

use super::Board;
use super::change::{BoardChange, IssueChange};
use super::decide::{ClaimStatus, IssueRefusal, claim_status, cycle, judged, refused};
use super::issue::{GateState, Issue, IssueId, IssueState, Note};
use super::log::NewEvent;
use super::names::Part;
use super::pending::{GatesImage, Image};

impl Board {
    /// Changes an issue under its lock. There is no way to load it, drop the lock and save it.
    ///
    /// # Errors
    ///
    /// Errors of the closure are passed on, and nothing has changed. Bad input if the closure
    /// changes anything but the title, the body, the priority, the labels, fields of other
    /// programs, and the state of a done issue to open.
    pub fn update(
        &self,
        id: &IssueId,
        mut work: impl FnMut(&mut Issue) -> Result<()>,
    ) -> Result<Issue> {
        self.edit(id, &[], |issue| {
            let before = issue.clone();
            work(issue)?;
            let reopens = issue.state == IssueState::Open && before.state == IssueState::Done;
            let kept = Issue {
                state: if reopens { before.state } else { issue.state },
                title: before.title.clone(),
                body: before.body.clone(),
                priority: before.priority,
                labels: before.labels.clone(),
                other: before.other.clone(),
                ..issue.clone()
            };
            if kept != before {
                let problem = "only title, body, priority, labels, fields of other programs, and the state to open, are \
                               changed in this way";
                return Err(Error::BadInput(problem.into()));
            }
            issue.check_set(Some(&before))?;
            let mut fields = Vec::new();
            for (name, is_changed) in [
                ("title", issue.title != before.title),
                ("body", issue.body != before.body),
                ("priority", issue.priority != before.priority),
                ("labels", issue.labels != before.labels),
                ("other", issue.other != before.other),
            ] {
                fields.extend(is_changed.then_some(name));
            }
            let kind = match reopens {
                true => "issue_reopened",
                false if fields.is_empty() => return Ok(None),
                false => "issue_updated",
            };
            Ok(Some(NewEvent::new(kind, id).with("fields", json!(fields))))
        })
    }

    /// Adds a note for the next owner of an issue.
    pub fn note(&self, id: &IssueId, text: &str) -> Result<Issue> {
        if text.trim().is_empty() {
            return Err(Error::BadInput("a note is not empty".into()));
        }
        self.edit(id, &[], |issue| {
            self.add_note(issue, text);
            issue.check_size()?;
            Ok(Some(NewEvent::new("issue_noted", id)))
        })
    }

    pub(super) fn add_note(&self, issue: &mut Issue, text: &str) {
        issue.notes.push(Note {
            at: (self.now)(),
            owner: self.owner.to_string(),
            text: text.to_owned(),
        });
    }

    /// Makes an issue depend on another.
    ///
    /// # Errors
    ///
    /// A conflict if the dependency closes a circle, which the error names.
    pub fn depend(&self, id: &IssueId, on: &IssueId) -> Result<Issue> {
        self.edit(id, &[(Part::Index, Mode::Write)], |issue| {
            if issue.depends_on.contains(on) {
                return Ok(None);
            }
            if id != on && !self.load_index()?.value.contains(on) {
                return Err(Error::NotFound(format!(
                    "there is no issue {on} to depend on"
                )));
            }
            self.refuse_cycle(id, on)?;
            let before = issue.clone();
            issue.depends_on.push(on.clone());
            issue.check_set(Some(&before))?;
            let event = NewEvent::new("dependency_added", id);
            Ok(Some(event.with("on", on.as_str())))
        })
    }

    /// Makes an issue no longer depend on another.
    pub fn undepend(&self, id: &IssueId, on: &IssueId) -> Result<Issue> {
        self.edit(id, &[(Part::Index, Mode::Write)], |issue| {
            if !issue.depends_on.contains(on) {
                return Err(Error::NotFound(format!("{id} does not depend on {on}")));
            }
            issue.depends_on.retain(|other| other != on);
            let event = NewEvent::new("dependency_removed", id);
            Ok(Some(event.with("on", on.as_str())))
        })
    }

    pub(super) fn refuse_cycle(&self, id: &IssueId, on: &IssueId) -> Result<()> {
        let depends_on = |at: &IssueId| match self.load_issue(at) {
            Ok((issue, _)) => Ok(issue.depends_on),
            // An issue that cannot be read is never done, and blocks the issues that depend on it.
            Err(Error::NotFound(_) | Error::Corrupt { .. }) => Ok(Vec::new()),
            Err(error) => Err(error),
        };
        let Some(circle) = cycle(id, on, depends_on)? else {
            return Ok(());
        };
        let circle: Vec<&str> = circle.iter().map(IssueId::as_str).collect();
        Err(Error::conflict(
            format!(
                "{id} cannot depend on {on}, as that closes a circle: {}",
                circle.join(" → ")
            ),
            "take one of these dependencies away first: {board.depend issue=ID on=ID remove=true}",
        ))
    }

    /// Defines a gate.
    pub fn define_gate(&self, name: &str, by: GateBy) -> Result<()> {
        self.change(&[(Part::Gates, Mode::Write)], self.deadline(), || {
            self.refuse_board_of_jit(&self.load_index()?.value)?;
            let before = self.load_gates()?;
            let mut after = before.value.clone();
            if !after.define(name, by)? {
                return Ok((None, ()));
            }
            let event = NewEvent {
                kind: "gate_defined",
                issue: None,
                more: vec![("gate", name.into()), ("by", json!(by))],
            };
            let defined = GatesImage {
                name: name.to_owned(),
                by,
                image: Image::new(None, None),
            };
            let change = BoardChange {
                event,
                issue: None,
                index: None,
                gates: Some((before, after, defined)),
            };
            Ok((Some(change), ()))
        })
    }

    /// Passes or fails a gate of an issue.
    ///
    /// # Errors
    ///
    /// `NotAllowed` if the gate is for people, and the owner is a program.
    pub fn judge_gate(&self, id: &IssueId, name: &str, verdict: GateState) -> Result<Issue> {
        self.edit(id, &[(Part::Gates, Mode::Read)], |issue| {
            let Some(state) = issue.gates.get_mut(name) else {
                return Err(Error::NotFound(format!("{id} has no gate {name}")));
            };
            // A gate whose definition is gone may have been for people.
            let gates = self.load_gates()?.value;
            let is_for_people = gates.get(name).is_none_or(|gate| gate.by == GateBy::People);
            if self.is_automated && is_for_people {
                return Err(Error::not_allowed(
                    format!(
                        "the gate {name} is for people, and {} is an automated owner",
                        self.owner
                    ),
                    Remedy::from("ask a person for: ").then(judged(id, name, verdict)),
                ));
            }
            if *state == verdict {
                return Ok(None);
            }
            *state = verdict;
            let kind = match verdict {
                GateState::Passed => "gate_passed",
                _ => "gate_failed",
            };
            Ok(Some(NewEvent::new(kind, id).with("gate", name)))
        })
    }

    /// Deletes an issue. Its id is never used again.
    ///
    /// # Errors
    ///
    /// A conflict while other issues depend on it, which the error names; `NotAllowed` while a
    /// claim of another owner lasts.
    pub fn delete(&self, id: &IssueId) -> Result<()> {
        let deadline = self.deadline();
        match self.require_file(id, deadline) {
            // A missing or broken file is reported under the locks.
            Ok(()) | Err(Error::Corrupt { .. }) => {}
            Err(error) => return Err(error),
        }
        let parts = [
            (Part::Index, Mode::Write),
            (Part::Issue(id.clone()), Mode::Write),
        ];
        self.change(&parts, deadline, || {
            let index = self.load_index()?;
            if !index.value.contains(id) {
                return Err(Error::NotFound(format!("there is no issue {id}")));
            }
            let before = match self.read_file(&self.names.issue(id))? {
                Some(_) => Some(self.load_issue(id)?),
                // The file is gone already; now the issue is taken out of the index.
                None => None,
            };
            if let Some((issue, _)) = &before {
                self.refuse_others_claim(issue)?;
            }
            self.refuse_dependents(id)?;
            let mut after = index.value.clone();
            after.delete(id);
            let change = BoardChange {
                event: NewEvent::new("issue_deleted", id),
                issue: Some(IssueChange {
                    id: id.clone(),
                    before: before.map(|(_, found)| found),
                    after: None,
                }),
                index: Some((index, after)),
                gates: None,
            };
            Ok((Some(change), ()))
        })
    }

    fn refuse_others_claim(&self, issue: &Issue) -> Result<()> {
        let claim_status = claim_status(issue, self.owner.as_str(), self.moment());
        match (&issue.claim, claim_status) {
            (Some(claim), ClaimStatus::Others) => {
                let refusal = IssueRefusal::NotOwner(claim.clone());
                Err(refused(&issue.id, &self.owner, refusal))
            }
            _ => Ok(()),
        }
    }

    /// Fails if issues depend on this one. The index is locked, so no issue begins to depend on it
    /// meanwhile.
    fn refuse_dependents(&self, id: &IssueId) -> Result<()> {
        let list = self.read_all()?;
        let dependents = list
            .issues
            .iter()
            .filter(|issue| issue.depends_on.contains(id));
        let dependents: Vec<&str> = dependents.map(|issue| issue.id.as_str()).collect();
        if !dependents.is_empty() {
            let depend = match &dependents[..] {
                [one] => format!("{one} depends"),
                many => format!("{} depend", many.join(", ")),
            };
            return Err(Error::conflict(
                format!("{id} cannot be deleted: {depend} on it"),
                Remedy::of(
                    "{board.depend issue on remove=true}",
                    &[dependents[0], id.as_str()],
                ),
            ));
        }
        for broken in list.unreadable.iter().filter(|broken| broken.id != *id) {
            // A file that cannot be read names no issue.
            let path = self.names.issue(&broken.id);
            let found = self.read_file(&path).ok().flatten();
            let text = found.map(|found| found.bytes);
            let named = format!("\"{id}\"");
            if text.is_some_and(|text| memchr::memmem::find(&text, named.as_bytes()).is_some()) {
                let problem = format!("{}, and it names {id}", broken.problem);
                return Err(Error::corrupt(path, problem));
            }
        }
        Ok(())
    }

    /// Changes an issue under its lock and those of `more`. If `work` returns no event, nothing is
    /// written.
    fn edit(
        &self,
        id: &IssueId,
        more: &[(Part, Mode)],
        work: impl FnMut(&mut Issue) -> Result<Option<NewEvent>>,
    ) -> Result<Issue> {
        self.edit_until(self.deadline(), id, more, work)
    }

    /// Changes an issue as `edit` does, waiting for locks until the deadline.
    pub(super) fn edit_until(
        &self,
        deadline: Instant,
        id: &IssueId,
        more: &[(Part, Mode)],
        mut work: impl FnMut(&mut Issue) -> Result<Option<NewEvent>>,
    ) -> Result<Issue> {
        if !self.disk.exists(&self.names.issue(id)).unwrap_or(true) {
            self.require_file(id, deadline)?;
        }
        let own = [(Part::Issue(id.clone()), Mode::Write)];
        self.change(&[&own, more].concat(), deadline, || {
            let (mut issue, found) = self.load_issue(id)?;
            if issue.version.max(issue.last_token) >= Token::MAX.get() {
                let problem = "its version or its last_token is too high to be raised";
                return Err(Error::corrupt(self.names.issue(id), problem));
            }
            let Some(event) = work(&mut issue)? else {
                return Ok((None, issue));
            };
            issue.version += 1;
            issue.updated_at = (self.now)();
            let change = BoardChange::of_issue(event, Some(found), issue.clone());
            Ok((Some(change), issue))
        })
    }
}
