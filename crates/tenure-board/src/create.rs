//! New issues.

use crate::BoardError;
use std::collections::BTreeMap;
use std::time::Instant;

use serde_json::Map;
use tenure_api::board::NewIssue;
use tenure_core::{Error, Mode, Result};
use tenure_os::random;

use super::Board;
use super::change::{BoardChange, IssueChange};
use super::issue::{GateState, Issue, IssueId, IssueState};
use super::log::NewEvent;
use super::names::Part;
use super::read::Loaded;
use super::registry::Index;

/// Returns eight letters and digits that do not look alike.
fn random_id() -> IssueId {
    const LETTERS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
    let letter = |byte: u8| char::from(LETTERS[usize::from(byte % 32)]);
    let id: String = random::bytes::<8>().map(letter).iter().collect();
    id.parse().expect("letters and digits make an id")
}

impl Board {
    /// Creates an issue.
    ///
    /// # Errors
    ///
    /// A conflict if its id is taken, or was; `NotFound` if an issue that it depends on, or a gate,
    /// is not there.
    pub fn create(&self, new: NewIssue) -> Result<Issue> {
        if new
            .id
            .as_ref()
            .is_some_and(|id| id.as_str().starts_with('-'))
        {
            let problem = "an id does not begin with a dash, as it would look like an option";
            return Err(Error::BadInput(problem.into()));
        }
        let deadline = self.deadline();
        loop {
            let id = new.id.clone().unwrap_or_else(random_id);
            match self.create_as(id, &new, deadline)? {
                Some(issue) => return Ok(issue),
                // The same forty random bits were drawn before.
                None => continue,
            }
        }
    }

    /// Returns `None` if an id that was drawn is taken.
    fn create_as(&self, id: IssueId, new: &NewIssue, deadline: Instant) -> Result<Option<Issue>> {
        let mut parts = vec![
            (Part::Index, Mode::Write),
            (Part::Issue(id.clone()), Mode::Write),
        ];
        if !new.gates.is_empty() {
            parts.push((Part::Gates, Mode::Read));
        }
        self.change(&parts, deadline, || {
            let index = self.load_index()?;
            self.refuse_board_of_jit(&index.value)?;
            if let Some(problem) = self.is_taken(&id, &index)? {
                return match &new.id {
                    Some(_) => Err(problem),
                    None => Ok((None, None)),
                };
            }
            self.check_new(&id, new, &index)?;
            let issue = self.issue_of(&id, new);
            issue.check_set(None)?;
            let mut after = index.value.clone();
            after.add(&id);
            let change = BoardChange {
                event: NewEvent::new("issue_created", &id).with("title", issue.title.clone()),
                issue: Some(IssueChange {
                    id: id.clone(),
                    before: None,
                    after: Some(issue.clone()),
                }),
                index: Some((index, after)),
                gates: None,
            };
            Ok((Some(change), Some(issue)))
        })
    }

    /// Refuses to add to a board of the tracker `jit`: that program would not show the issue, or
    /// could no longer read its own files.
    pub(super) fn refuse_board_of_jit(&self, index: &Index) -> Result<()> {
        let first = index
            .first()
            .map(|id| self.read_file(&self.names.issue(id)));
        let first = first.and_then(|read| read.ok().flatten());
        let has_their_issue = first.is_some_and(|found| Issue::is_of_jit(&found.bytes));
        if !has_their_issue && !index.has_other_schema() {
            return Ok(());
        }
        Err(Error::corrupt(
            self.names.index(),
            "it has another shape, as that of another program has, which would not show what is added here",
        ))
    }

    fn is_taken(&self, id: &IssueId, index: &Loaded<Index>) -> Result<Option<Error>> {
        let path = self.names.issue(id);
        let problem = if index.value.contains(id) {
            format!("there is an issue {id} already")
        } else if index.value.is_deleted(id) {
            format!("there was an issue {id}, and the ids of deleted issues are not used again")
        } else if self.read_file(&path)?.is_some() {
            format!(
                "{} is there, though index.json does not list it",
                path.display()
            )
        } else {
            return Ok(None);
        };
        let remedy = "choose another id, or none: then one is made";
        Ok(Some(Error::conflict(problem, remedy)))
    }

    fn check_new(&self, id: &IssueId, new: &NewIssue, index: &Loaded<Index>) -> Result<()> {
        for on in &new.depends_on {
            if on != id && !index.value.contains(on) {
                return Err(Error::NotFound(format!(
                    "there is no issue {on} to depend on"
                )));
            }
            self.refuse_cycle(id, on)?;
        }
        if new.gates.is_empty() {
            return Ok(());
        }
        let gates = self.load_gates()?.value;
        match new.gates.iter().find(|gate| gates.get(gate).is_none()) {
            Some(gate) => Err(BoardError::NoGate { gate: gate.clone() }.into()),
            None => Ok(()),
        }
    }

    fn issue_of(&self, id: &IssueId, new: &NewIssue) -> Issue {
        let now = (self.now)();
        let gate = |name: &String| (name.clone(), GateState::Pending);
        let mut issue = Issue {
            id: id.clone(),
            title: new.title.clone(),
            body: new.body.clone(),
            state: IssueState::Open,
            priority: new.priority,
            labels: new.labels.clone(),
            depends_on: new.depends_on.clone(),
            gates: new.gates.iter().map(gate).collect::<BTreeMap<_, _>>(),
            claim: None,
            created_at: now,
            updated_at: now,
            notes: Vec::new(),
            version: 1,
            last_token: 0,
            other: Map::new(),
        };
        let mut seen = std::collections::HashSet::new();
        issue.depends_on.retain(|on| seen.insert(on.clone()));
        issue
    }
}
