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
/// The priority of an issue that says none. Lower ones come first.
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
    /// It is to be done.
    Open,
    /// It is done.
    Done,
}

/// The state of a gate of an issue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum GateState {
    /// Nobody decided yet.
    Pending,
    /// It is passed.
    Passed,
    /// It failed.
    Failed,
}

/// The kind of owner that may pass a gate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum GateBy {
    /// Everybody.
    #[default]
    Anyone,
    /// People, and no automated owner.
    People,
}

/// A note for the next owner of an issue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Note {
    /// The time when it was written.
    pub at: Timestamp,
    /// The author.
    pub owner: String,
    /// The text.
    pub text: String,
}

/// The content of a new issue.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct NewIssue {
    /// Its id: a new one, if it is left out.
    pub id: Option<IssueId>,
    /// The title: the work in one line.
    pub title: String,
    /// The work in full.
    #[serde(default)]
    pub body: String,
    /// Lower ones come first.
    #[serde(default = "priority_default")]
    pub priority: u32,
    /// Words to find it by.
    #[serde(default)]
    pub labels: Vec<String>,
    /// The issues that must be done before.
    #[serde(default)]
    pub depends_on: Vec<IssueId>,
    /// The gates that must be passed before.
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

/// Returns [`PRIORITY_DEFAULT`], for an issue that says none.
pub fn priority_default() -> u32 {
    PRIORITY_DEFAULT
}

/// An issue as it is shown. Its file holds besides what the board alone needs.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ShownIssue {
    /// Its id.
    pub id: IssueId,
    /// The title: the work in one line.
    pub title: String,
    /// The work in full.
    pub body: String,
    /// The state: open or done.
    pub state: IssueState,
    /// Lower ones come first.
    pub priority: u32,
    /// Words to find it by.
    pub labels: Vec<String>,
    /// The issues that must be done before.
    pub depends_on: Vec<IssueId>,
    /// The gates that must be passed before, each with its state.
    pub gates: BTreeMap<String, GateState>,
    /// The claim, which may be over.
    pub claim: Option<ShownClaim>,
    /// The time when it was created.
    pub created_at: Timestamp,
    /// The time when it was last changed.
    pub updated_at: Timestamp,
    /// The notes of its owners.
    pub notes: Vec<Note>,
    /// Fields of other programs.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// The claim of an issue as it is shown.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ShownClaim {
    /// The owner.
    pub owner: String,
    /// The token that refuses late writers.
    pub token: u64,
    /// The time when it was acquired.
    pub acquired_at: Timestamp,
    /// The time when it ends, unless it is renewed.
    pub expires_at: Timestamp,
    /// How long it lasts by the clock that decides, or zero if it is over. It is known only to the
    /// process that read the issue.
    #[serde(skip)]
    pub left: Duration,
}

/// The reason why an open issue is not handed out.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Blocked {
    /// Someone works on it.
    Claimed,
    /// It waits for these issues to be done, and these gates to be passed.
    Waiting(Vec<IssueId>, Vec<(String, GateState)>),
}

/// An issue that the index lists and whose file is missing, broken, or of another program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Unreadable {
    /// Its id.
    pub id: IssueId,
    /// Its title, if it has one.
    pub title: Option<String>,
    /// Its file.
    pub file: String,
    /// The problem.
    pub problem: String,
}
