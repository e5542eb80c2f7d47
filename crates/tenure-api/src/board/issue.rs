//! Issues, their claims and their gates.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tenure_core::internal::is_plain_name;
use tenure_core::{Error, Resource, Result, Timestamp};

/// The longest id, in bytes.
const ID_BYTES_MAX: usize = 100;
/// The priority of an issue that names none. Lower numbers come first.
pub const PRIORITY_DEFAULT: u32 = 2;

/// The id of an issue: 1 to 100 letters, digits, dots, dashes and underscores, such as `fix-login`.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(try_from = "String")]
pub struct IssueId(String);

impl IssueId {
    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the issue as a resource.
    pub fn resource(&self) -> Resource {
        Resource::new("issue", &self.0).expect("letters, digits, dots and dashes make a resource")
    }
}

impl FromStr for IssueId {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        if is_plain_name(text, ID_BYTES_MAX) {
            return Ok(Self(text.to_owned()));
        }
        let shown: String = text.chars().take(80).collect();
        Err(Error::BadInput(format!(
            "bad id {shown:?}; an id is 1 to {ID_BYTES_MAX} letters, digits, dots, dashes and \
             underscores, such as fix-login, and does not begin with a dot"
        )))
    }
}

impl fmt::Display for IssueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The state of an issue: open or done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum IssueState {
    /// The work is not done.
    Open,
    /// The work is done.
    Done,
}

/// The state of a gate of an issue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum GateState {
    /// The gate is not decided yet.
    Pending,
    /// The gate is passed.
    Passed,
    /// The gate failed.
    Failed,
}

/// The kind of owner that may pass a gate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum GateBy {
    /// Any owner may pass it.
    #[default]
    Anyone,
    /// Only people may pass it, and no automated owner.
    People,
}

/// A note for the next owner of an issue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Note {
    /// The time when it was written.
    pub at: Timestamp,
    /// The owner who wrote it.
    pub owner: String,
    /// The text of the note.
    pub text: String,
}

/// The content of a new issue.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct NewIssue {
    /// The id of the issue. Left out, a new one is made.
    pub id: Option<IssueId>,
    /// The title: the work in one line.
    pub title: String,
    /// The description: the work in full.
    #[serde(default)]
    pub body: String,
    /// The priority. Issues with lower numbers come first. Left out, it is 2.
    #[serde(default = "priority_default")]
    pub priority: u32,
    /// Words by which issues are found and chosen.
    #[serde(default)]
    pub labels: Vec<String>,
    /// The issues that must be done before this one is ready.
    #[serde(default)]
    pub depends_on: Vec<IssueId>,
    /// The names of the gates that must be passed before this issue is ready. Each must be defined.
    #[serde(default)]
    pub gates: Vec<String>,
}

impl NewIssue {
    /// Returns an issue with this title and nothing else.
    pub fn titled(title: impl Into<String>) -> Self {
        Self {
            id: None,
            title: title.into(),
            body: String::new(),
            priority: PRIORITY_DEFAULT,
            labels: Vec::new(),
            depends_on: Vec::new(),
            gates: Vec::new(),
        }
    }
}

/// Returns [`PRIORITY_DEFAULT`], for an issue that names none.
pub fn priority_default() -> u32 {
    PRIORITY_DEFAULT
}

/// An issue as it is shown. Its file holds more, which only the board needs.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ShownIssue {
    /// The id of the issue.
    pub id: IssueId,
    /// The title: the work in one line.
    pub title: String,
    /// The description: the work in full.
    pub body: String,
    /// The state: open or done.
    pub state: IssueState,
    /// The priority. Issues with lower numbers come first.
    pub priority: u32,
    /// Words by which issues are found and chosen.
    pub labels: Vec<String>,
    /// The issues that must be done before this one is ready.
    pub depends_on: Vec<IssueId>,
    /// The gates that must be passed before this issue is ready, each with its state.
    pub gates: BTreeMap<String, GateState>,
    /// The claim, whose time may be over; null if there is none.
    pub claim: Option<ShownClaim>,
    /// The time when it was created.
    pub created_at: Timestamp,
    /// The time when it was last changed.
    pub updated_at: Timestamp,
    /// The notes of its owners, oldest first.
    pub notes: Vec<Note>,
    /// Fields that other programs have put in.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// The claim of an issue as it is shown.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ShownClaim {
    /// The owner who has claimed the issue.
    pub owner: String,
    /// The token of the claim. Changes made under an older token are refused.
    pub token: u64,
    /// The time when it was acquired.
    pub acquired_at: Timestamp,
    /// The time when it ends, unless it is renewed.
    pub expires_at: Timestamp,
    /// The time left by the clock that decides, or zero if the claim is over. Only the process that
    /// read the issue knows it.
    #[serde(skip)]
    pub left: Duration,
}

/// The reason why an open issue is not handed out.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Blocked {
    /// Another owner has claimed it.
    Claimed,
    /// It waits for these issues to be done and for these gates to be passed.
    Waiting(Vec<IssueId>, Vec<(String, GateState)>),
}

/// An issue that the index lists and whose file is missing, broken, or of another program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Unreadable {
    /// The id of the issue.
    pub id: IssueId,
    /// Its title, if the index has it.
    pub title: Option<String>,
    /// The path of its file.
    pub file: String,
    /// The reason why the file cannot be read.
    pub problem: String,
}
