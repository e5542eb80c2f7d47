//! The board: issues that many create, change and claim at once.
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

/// Makes a board. One that is there stays as it is.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct InitBoard {
    /// The directory of the board.
    pub board: Option<PathBuf>,
}
operation!("board.init", InitBoard, BoardPlace);

/// The place of a board.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct BoardPlace {
    /// The directory.
    pub board: String,
}

/// Creates an issue. A board in its usual place is made if there is none.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AddIssue {
    /// The directory of the board.
    pub board: Option<PathBuf>,
    /// The content of the issue.
    pub issue: NewIssue,
}
operation!("board.add", AddIssue, Issues);

/// Issues, each as it is shown.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Issues {
    /// The issues.
    pub issues: Vec<ShownIssue>,
    /// Null: there is nothing more.
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
    /// The directory of the board.
    pub board: Option<PathBuf>,
    /// The issue.
    pub issue: IssueId,
}
operation!("board.show", ShowIssue, Issues);

/// Lists issues: lowest priority number first, then oldest.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ListIssues {
    /// The directory of the board.
    pub board: Option<PathBuf>,
    /// Only issues in this state.
    pub state: Option<IssueState>,
    /// Only issues with this label.
    pub label: Option<String>,
    /// Only issues that wait for nothing and that nobody has.
    pub ready: bool,
    /// Only issues that this owner works on.
    pub owner: Option<Owner>,
}
operation!("board.ls", ListIssues, IssueListing);

/// The issues that were asked for.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct IssueListing {
    /// Issues whose files can be read.
    pub issues: Vec<ShownIssue>,
    /// Issues whose files cannot be read, if all issues were asked for.
    pub unreadable: Vec<Unreadable>,
    /// Null: there is nothing more.
    pub next: Option<u64>,
    /// The reason why each open issue that is not ready is not. It is known only to the process
    /// that read the board.
    #[serde(skip)]
    pub blocked: HashMap<IssueId, Blocked>,
}

/// Changes fields of an issue. What is left out stays as it is.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SetIssue {
    /// The directory of the board.
    pub board: Option<PathBuf>,
    /// The issue.
    pub issue: IssueId,
    /// The title: the work in one line.
    pub title: Option<String>,
    /// The work in full.
    pub body: Option<String>,
    /// Lower ones come first.
    pub priority: Option<u32>,
    /// Words to find it by, in place of those that it has.
    pub labels: Option<Vec<String>>,
    /// `open` for an issue that is not done after all.
    pub state: Option<IssueState>,
}
operation!("board.set", SetIssue, Issues);

/// Leaves a note for the next owner of an issue.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AddNote {
    /// The directory of the board.
    pub board: Option<PathBuf>,
    /// The issue.
    pub issue: IssueId,
    /// The text.
    pub text: String,
}
operation!("board.note", AddNote, Issues);

/// Deletes an issue. Its id is never used again.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeleteIssue {
    /// The directory of the board.
    pub board: Option<PathBuf>,
    /// The issue.
    pub issue: IssueId,
}
operation!("board.delete", DeleteIssue, DeletedIssues);

/// Issues that were deleted.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct DeletedIssues {
    /// Their ids.
    pub deleted: Vec<IssueId>,
    /// Null: there is nothing more.
    pub next: Option<u64>,
}

/// Makes an issue depend on another, or no longer.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DependIssue {
    /// The directory of the board.
    pub board: Option<PathBuf>,
    /// The issue that waits.
    pub issue: IssueId,
    /// The issue that must be done before.
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
    /// The directory of the board.
    pub board: Option<PathBuf>,
    /// The name of the gate.
    pub name: String,
    /// The owners who may pass it.
    #[serde(default)]
    pub by: GateBy,
}
operation!("board.gate.define", DefineGate, Gates);

/// Gates as they are defined.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Gates {
    /// The gates.
    pub gates: Vec<Gate>,
    /// Null: there is nothing more.
    pub next: Option<u64>,
}

/// A gate as it is defined.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Gate {
    /// Its name.
    pub name: String,
    /// The owners who may pass it.
    pub by: GateBy,
}

/// Passes or fails a gate of an issue.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JudgeGate {
    /// The directory of the board.
    pub board: Option<PathBuf>,
    /// The issue.
    pub issue: IssueId,
    /// The name of the gate.
    pub gate: String,
    /// Whether it is passed or failed.
    pub verdict: Verdict,
}
operation!("board.gate.judge", JudgeGate, Issues);

/// The verdict on a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The gate is passed.
    Pass,
    /// The gate is failed.
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

/// Reads what happened.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ReadBoardEvents {
    /// The directory of the board.
    pub board: Option<PathBuf>,
    /// Only what comes after this line of the log.
    pub after: u64,
}
operation!("board.events", ReadBoardEvents, BoardEvents);

/// Events in the order in which they happened.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct BoardEvents {
    /// The events.
    pub events: Vec<BoardEvent>,
    /// Null: there is nothing more.
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

/// Finds the next issue: lowest priority number first, then oldest, of those that wait for nothing
/// and that nobody has.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NextIssue {
    /// The directory of the board.
    pub board: Option<PathBuf>,
    /// Only issues with this label.
    pub label: Option<String>,
    /// True to claim it: of all who ask, one gets it.
    pub claim: bool,
    /// How long the claim lasts unless renewed, from 1s to 24h: 15m, if it is left out.
    pub ttl: Option<Span>,
    /// How long to wait for an issue to become ready: not at all, if it is left out.
    pub wait: Option<Span>,
}
operation!("board.next", NextIssue, Issues);

/// Claims an issue. Exactly one of several owners that ask wins.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClaimIssue {
    /// The directory of the board.
    pub board: Option<PathBuf>,
    /// The issue.
    pub issue: IssueId,
    /// How long the claim lasts unless renewed, from 1s to 24h: 15m, if it is left out.
    pub ttl: Option<Span>,
}
operation!("board.claim", ClaimIssue, Issues);

/// Gives the claim of an issue more time, from now on. It keeps its token.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RenewIssue {
    /// The directory of the board.
    pub board: Option<PathBuf>,
    /// The issue.
    pub issue: IssueId,
    /// The token of the claim: refused if it is not the newest.
    pub token: Option<u64>,
    /// How long the claim lasts unless renewed, from 1s to 24h: 15m, if it is left out.
    pub ttl: Option<Span>,
}
operation!("board.renew", RenewIssue, Issues);

/// Ends the claim of an issue, so that another owner can have it.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReleaseIssue {
    /// The directory of the board.
    pub board: Option<PathBuf>,
    /// The issue.
    pub issue: IssueId,
    /// The token of the claim: refused if it is not the newest.
    pub token: Option<u64>,
}
operation!("board.release", ReleaseIssue, Issues);

/// Says that an issue is done, which ends its claim.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FinishIssue {
    /// The directory of the board.
    pub board: Option<PathBuf>,
    /// The issue.
    pub issue: IssueId,
    /// The token of the claim: refused if it is not the newest.
    pub token: Option<u64>,
}
operation!("board.done", FinishIssue, Issues);

/// Looks at every file of a board, and repairs what needs no person, if that is asked for.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct VerifyBoard {
    /// The directory of the board.
    pub board: Option<PathBuf>,
    /// True to repair what needs no person.
    pub repair: bool,
}
operation!("board.verify", VerifyBoard, VerifiedBoard);

/// A look at a whole board.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct VerifiedBoard {
    /// The number of issues that can be read.
    pub issues: usize,
    /// The faults. Those that were repaired come first.
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
