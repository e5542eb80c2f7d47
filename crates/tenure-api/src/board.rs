//! The board: issues that many owners create, change and claim at once.
//!
//! The field `board` of a request is the directory of the board. Left out, it is the board of the
//! repository around the service, else that of its user.

mod issue;

use crate::Finding;
use std::collections::HashMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use tenure_core::Owner;

pub use issue::{
    Blocked, GateBy, GateState, IssueId, IssueState, NewIssue, Note, PRIORITY_DEFAULT, ShownClaim,
    ShownIssue, Unreadable, priority_default,
};

use crate::operation::operation;
use crate::text::{Json, Span, as_written};

/// Makes a board. A board that is there already stays as it is.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct InitBoard {
    /// The directory of the board. Left out, it is the board of the repository, or that of the user
    /// outside of one.
    pub board: Option<PathBuf>,
}
operation!("board.init", InitBoard, BoardPlace);

/// The place of a board that was made, or was there already.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct BoardPlace {
    /// The directory of the board.
    pub board: String,
}

/// Creates an issue. A board in its usual place is made if there is none.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AddIssue {
    /// The directory of the board. Left out, it is the board of the repository, or that of the user
    /// outside of one.
    pub board: Option<PathBuf>,
    /// The content of the issue.
    pub issue: NewIssue,
}
operation!("board.add", AddIssue, Issues);

/// Issues, each as it is shown.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Issues {
    /// The issues that were asked for, or changed.
    pub issues: Vec<ShownIssue>,
    /// Always null: the list is complete.
    pub next: Option<u64>,
}

impl Issues {
    /// Returns a list of one.
    pub fn one(issue: ShownIssue) -> Self {
        let (issues, next) = (vec![issue], None);
        Self { issues, next }
    }
}

/// Shows an issue.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShowIssue {
    /// The directory of the board. Left out, it is the board of the repository, or that of the user
    /// outside of one.
    pub board: Option<PathBuf>,
    /// The id of the issue.
    pub issue: IssueId,
}
operation!("board.show", ShowIssue, Issues);

/// Lists issues: lowest priority number first, then oldest.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ListIssues {
    /// The directory of the board. Left out, it is the board of the repository, or that of the user
    /// outside of one.
    pub board: Option<PathBuf>,
    /// Only issues in this state.
    pub state: Option<IssueState>,
    /// Only issues with this label.
    pub label: Option<String>,
    /// True to list only open issues that wait for nothing and that no owner has claimed.
    pub ready: bool,
    /// Only issues that this owner has claimed.
    pub owner: Option<Owner>,
}
operation!("board.ls", ListIssues, IssueListing);

/// The issues that were asked for.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct IssueListing {
    /// Issues whose files can be read.
    pub issues: Vec<ShownIssue>,
    /// Issues whose files cannot be read. Listed only if the request names no filter.
    pub unreadable: Vec<Unreadable>,
    /// Always null: the list is complete.
    pub next: Option<u64>,
    /// The reason for each open issue that is not ready. Only the process that read the board knows
    /// it.
    #[serde(skip)]
    pub blocked: HashMap<IssueId, Blocked>,
}

/// Changes fields of an issue. Fields that are left out stay as they are.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SetIssue {
    /// The directory of the board. Left out, it is the board of the repository, or that of the user
    /// outside of one.
    pub board: Option<PathBuf>,
    /// The id of the issue.
    pub issue: IssueId,
    /// The new title: the work in one line.
    pub title: Option<String>,
    /// The new description: the work in full.
    pub body: Option<String>,
    /// The new priority. Issues with lower numbers come first.
    pub priority: Option<u32>,
    /// The new labels, which replace all that the issue has.
    pub labels: Option<Vec<String>>,
    /// The new state: `open` opens an issue again that is not done after all.
    pub state: Option<IssueState>,
}
operation!("board.set", SetIssue, Issues);

/// Leaves a note for the next owner of an issue.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AddNote {
    /// The directory of the board. Left out, it is the board of the repository, or that of the user
    /// outside of one.
    pub board: Option<PathBuf>,
    /// The id of the issue.
    pub issue: IssueId,
    /// The text of the note.
    pub text: String,
}
operation!("board.note", AddNote, Issues);

/// Deletes an issue. No other issue ever gets its id.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeleteIssue {
    /// The directory of the board. Left out, it is the board of the repository, or that of the user
    /// outside of one.
    pub board: Option<PathBuf>,
    /// The id of the issue.
    pub issue: IssueId,
}
operation!("board.delete", DeleteIssue, DeletedIssues);

/// The issues that were deleted.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct DeletedIssues {
    /// The ids of the issues.
    pub deleted: Vec<IssueId>,
    /// Always null: the list is complete.
    pub next: Option<u64>,
}

/// Makes an issue depend on another, or takes the dependency away.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DependIssue {
    /// The directory of the board. Left out, it is the board of the repository, or that of the user
    /// outside of one.
    pub board: Option<PathBuf>,
    /// The id of the issue that waits.
    pub issue: IssueId,
    /// The id of the issue that must be done before.
    pub on: IssueId,
    /// True to take the dependency away.
    #[serde(default)]
    pub remove: bool,
}
operation!("board.depend", DependIssue, Issues);

/// Defines a gate that issues can have. A board in its usual place is made if there is none.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DefineGate {
    /// The directory of the board. Left out, it is the board of the repository, or that of the user
    /// outside of one.
    pub board: Option<PathBuf>,
    /// The name of the gate.
    pub name: String,
    /// The owners who may pass the gate: `anyone` or `people`. Left out, it is `anyone`.
    #[serde(default)]
    pub by: GateBy,
}
operation!("board.gate.define", DefineGate, Gates);

/// Gates as they are defined.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Gates {
    /// The gates that were defined.
    pub gates: Vec<Gate>,
    /// Always null: the list is complete.
    pub next: Option<u64>,
}

/// A gate as it is defined.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Gate {
    /// The name of the gate.
    pub name: String,
    /// The owners who may pass the gate.
    pub by: GateBy,
}

/// Passes or fails a gate of an issue.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JudgeGate {
    /// The directory of the board. Left out, it is the board of the repository, or that of the user
    /// outside of one.
    pub board: Option<PathBuf>,
    /// The id of the issue.
    pub issue: IssueId,
    /// The name of the gate.
    pub gate: String,
    /// The verdict: `pass` or `fail`.
    pub verdict: Verdict,
}
operation!("board.gate.judge", JudgeGate, Issues);

/// The verdict on a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The gate passes.
    Pass,
    /// The gate fails.
    Fail,
}

impl From<Verdict> for GateState {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Pass => GateState::Passed,
            Verdict::Fail => GateState::Failed,
        }
    }
}

/// Reads the events of a board: every change to its issues.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ReadBoardEvents {
    /// The directory of the board. Left out, it is the board of the repository, or that of the user
    /// outside of one.
    pub board: Option<PathBuf>,
    /// Only events after this line of the log. Left out, it is 0, and all are returned.
    pub after: u64,
}
operation!("board.events", ReadBoardEvents, BoardEvents);

/// Events in the order in which they happened.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct BoardEvents {
    /// The events, oldest first.
    pub events: Vec<BoardEvent>,
    /// Always null: the list is complete.
    pub next: Option<u64>,
}

/// One line of the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BoardEvent {
    /// The number of the line, from 1.
    pub line: u64,
    /// The line as it was written, a JSON object.
    #[serde(
        rename = "event",
        serialize_with = "as_written",
        deserialize_with = "text_of"
    )]
    #[schemars(with = "Map<String, Value>")]
    pub text: String,
}

fn text_of<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Json::deserialize(deserializer).map(|json| json.0)
}

impl BoardEvent {
    /// Returns a field that is text.
    pub fn field(&self, name: &str) -> Option<String> {
        let event: Map<String, Value> = serde_json::from_str(&self.text).ok()?;
        Some(event.get(name)?.as_str()?.to_owned())
    }
}

/// Finds the next issue that waits for nothing and that no owner has claimed: that of the lowest
/// priority number, and of these the oldest.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NextIssue {
    /// The directory of the board. Left out, it is the board of the repository, or that of the user
    /// outside of one.
    pub board: Option<PathBuf>,
    /// Only issues with this label.
    pub label: Option<String>,
    /// True to claim the issue for the caller. Only one of all callers that ask gets it.
    pub claim: bool,
    /// The time after which the claim ends unless it is renewed, from 1s to 24h. Left out, it is
    /// 15m.
    pub ttl: Option<Span>,
    /// The longest wait for an issue to become ready. Left out, the call does not wait.
    pub wait: Option<Span>,
}
operation!("board.next", NextIssue, Issues);

/// Claims an issue for the caller. Exactly one of several owners that ask gets it.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClaimIssue {
    /// The directory of the board. Left out, it is the board of the repository, or that of the user
    /// outside of one.
    pub board: Option<PathBuf>,
    /// The id of the issue.
    pub issue: IssueId,
    /// The time after which the claim ends unless it is renewed, from 1s to 24h. Left out, it is
    /// 15m.
    pub ttl: Option<Span>,
}
operation!("board.claim", ClaimIssue, Issues);

/// Makes the claim of an issue last longer, from now on. Its token stays.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RenewIssue {
    /// The directory of the board. Left out, it is the board of the repository, or that of the user
    /// outside of one.
    pub board: Option<PathBuf>,
    /// The id of the issue.
    pub issue: IssueId,
    /// The token of the claim. The call is refused if it is not the newest. Left out, it is not
    /// checked.
    pub token: Option<u64>,
    /// The time after which the claim ends unless it is renewed, from 1s to 24h. Left out, it is
    /// 15m.
    pub ttl: Option<Span>,
}
operation!("board.renew", RenewIssue, Issues);

/// Ends the claim of an issue, so that another owner can have it.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReleaseIssue {
    /// The directory of the board. Left out, it is the board of the repository, or that of the user
    /// outside of one.
    pub board: Option<PathBuf>,
    /// The id of the issue.
    pub issue: IssueId,
    /// The token of the claim. The call is refused if it is not the newest. Left out, it is not
    /// checked.
    pub token: Option<u64>,
}
operation!("board.release", ReleaseIssue, Issues);

/// Marks an issue as done, which ends its claim.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FinishIssue {
    /// The directory of the board. Left out, it is the board of the repository, or that of the user
    /// outside of one.
    pub board: Option<PathBuf>,
    /// The id of the issue.
    pub issue: IssueId,
    /// The token of the claim. The call is refused if it is not the newest. Left out, it is not
    /// checked.
    pub token: Option<u64>,
}
operation!("board.done", FinishIssue, Issues);

/// Checks every file of a board, and repairs what needs no person if asked to.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct VerifyBoard {
    /// The directory of the board. Left out, it is the board of the repository, or that of the user
    /// outside of one.
    pub board: Option<PathBuf>,
    /// True to repair the faults that need no person to decide.
    pub repair: bool,
}
operation!("board.verify", VerifyBoard, VerifiedBoard);

/// The result of a check of a whole board.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct VerifiedBoard {
    /// The number of issues that can be read.
    pub issues: usize,
    /// The faults that were found, repaired ones first. Empty if there are none.
    pub findings: Vec<Finding>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_the_line_as_it_was_written() {
        let text = r#"{"type":"x",  "n":1.50}"#;
        let event = BoardEvent {
            line: 7,
            text: text.into(),
        };
        let json = serde_json::to_string(&event).unwrap();
        assert_eq!(json, format!(r#"{{"line":7,"event":{text}}}"#));
        assert_eq!(serde_json::from_str::<BoardEvent>(&json).unwrap(), event);
        assert_eq!(event.field("type").as_deref(), Some("x"));
    }
}
