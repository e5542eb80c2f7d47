//! An issue: some work to do, and its owner.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tenure_api::board::{ShownClaim, ShownIssue, priority_default};
use tenure_core::{Error, Result, Timestamp};
use tenure_os::clock;

use super::conflict;
use super::decide::{Moment, is_over};
pub use tenure_api::board::{GateState, IssueId, IssueState, Note, PRIORITY_DEFAULT};

/// The largest file of an issue in bytes, as far as people and programs fill it.
pub(super) const ISSUE_BYTES_MAX: usize = 1 << 20;
/// The largest file of an issue in bytes. It leaves room for a claim, whatever else the issue
/// holds.
pub(super) const FILE_BYTES_MAX: usize = ISSUE_BYTES_MAX + (64 << 10);
/// The longest title, in bytes.
const TITLE_BYTES_MAX: usize = 1000;
/// The longest label, in bytes.
const LABEL_BYTES_MAX: usize = 100;
/// The most labels, gates or dependencies of one issue.
pub(super) const LIST_MAX: usize = 1000;
/// The claim of an issue: its owner, its token and its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IssueClaim {
    /// The owner that has the issue.
    pub owner: String,
    /// The token, by which late writers are refused. A renewal keeps it.
    pub token: u64,
    /// The time when the claim was acquired.
    pub acquired_at: Timestamp,
    /// The time when the claim ends, unless it is renewed.
    pub expires_at: Timestamp,
    /// The boot in which `ends_boot_ms` counts.
    pub(super) boot_id: String,
    /// The time when the claim ends, in milliseconds since boot.
    pub(super) ends_boot_ms: u64,
}

impl IssueClaim {
    /// Returns how long the claim lasts at a moment unless it is renewed. In the boot of the claim
    /// the clock of the boot decides, which no person sets; after another boot the clock on the
    /// wall does.
    pub(super) fn left_at(&self, moment: Moment<'_>) -> Duration {
        match self.boot_id == moment.boot_id {
            true => Duration::from_millis(self.ends_boot_ms.saturating_sub(moment.boot_ms)),
            false => self.expires_at.since(moment.now),
        }
    }

    fn shown(&self) -> ShownClaim {
        let boot_id = clock::boot_id().unwrap_or_default();
        let moment = Moment {
            now: clock::now(),
            boot_ms: clock::boot_now(),
            boot_id,
        };
        ShownClaim {
            owner: self.owner.clone(),
            token: self.token,
            acquired_at: self.acquired_at,
            expires_at: self.expires_at,
            left: match is_over(self, moment) {
                true => Duration::ZERO,
                false => self.left_at(moment),
            },
        }
    }
}

/// An issue. A closure may change `title`, `body`, `priority`, `labels` and `other`, and set
/// `state` to open.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Issue {
    /// The id, which also names the file.
    pub id: IssueId,
    /// The title: the work in one line.
    pub title: String,
    /// The work in full.
    #[serde(default)]
    pub body: String,
    /// The state: open or done.
    pub state: IssueState,
    /// The priority: issues with a lower number come first.
    #[serde(default = "priority_default")]
    pub priority: u32,
    /// Labels to find the issue by.
    #[serde(default)]
    pub labels: Vec<String>,
    /// The issues that must be done before this one.
    #[serde(default)]
    pub depends_on: Vec<IssueId>,
    /// The gates that must be passed before work on this issue, each with its state.
    #[serde(default)]
    pub gates: BTreeMap<String, GateState>,
    /// The claim, if there is one; it may be over.
    #[serde(default)]
    pub claim: Option<IssueClaim>,
    /// The time when the issue was created.
    pub created_at: Timestamp,
    /// The time when the issue was last changed.
    pub updated_at: Timestamp,
    /// The notes of its owners.
    #[serde(default)]
    pub notes: Vec<Note>,
    /// The version, raised by every change.
    #[serde(default)]
    pub(super) version: u64,
    /// The highest token of a claim so far.
    #[serde(default)]
    pub(super) last_token: u64,
    /// Fields of other programs.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl Issue {
    /// Reads an issue from the bytes of its file. The error says what is wrong with them.
    pub(super) fn parse(id: &IssueId, bytes: &[u8]) -> Result<Self, String> {
        if let Some(problem) = conflict::problem(bytes) {
            return Err(problem);
        }
        let issue: Self =
            serde_json::from_slice(bytes).map_err(|error| match error.classify() {
                serde_json::error::Category::Data => {
                    format!("it has another shape, as an issue of another program has: {error}")
                }
                _ => format!("it is not JSON: {error}"),
            })?;
        match issue.id == *id {
            true => Ok(issue),
            false => Err(format!("its id is {:?}", issue.id.as_str())),
        }
    }

    /// Returns true for an issue as the tracker `jit` writes it.
    pub(super) fn is_of_jit(bytes: &[u8]) -> bool {
        let issue = serde_json::from_slice::<Map<String, Value>>(bytes);
        issue.is_ok_and(|issue| {
            issue.contains_key("dependencies") && issue.contains_key("description")
        })
    }

    /// Returns the text of the issue's file. Refuses a text that is too long to be read again.
    pub(super) fn encode(&self) -> Result<String> {
        let text = self.text();
        self.require_at_most(FILE_BYTES_MAX, text.len())?;
        Ok(text)
    }

    fn text(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("an issue is serialisable");
        text.push('\n');
        text
    }

    /// Refuses fields that were set since `before` and are too long or odd. Fields from before stay
    /// usable, whichever program wrote them.
    pub(super) fn check_set(&self, before: Option<&Self>) -> Result<()> {
        if before.is_none_or(|before| before.title != self.title) {
            check_title(&self.title)?;
        }
        if before.is_none_or(|before| before.labels != self.labels) {
            self.labels
                .iter()
                .try_for_each(|label| check_label(label))?;
        }
        let counts = |issue: &Self| {
            [
                ("labels", issue.labels.len()),
                ("dependencies", issue.depends_on.len()),
                ("gates", issue.gates.len()),
            ]
        };
        let counts_before = before.map(counts);
        for (number, (what, count)) in counts(self).into_iter().enumerate() {
            let is_more = counts_before.is_none_or(|before| count > before[number].1);
            if count > LIST_MAX && is_more {
                let problem = format!("{count} {what}; an issue has at most {LIST_MAX}");
                return Err(Error::BadInput(problem));
            }
        }
        self.check_size()
    }

    /// Refuses an issue that leaves no room for its claim.
    pub(super) fn check_size(&self) -> Result<()> {
        self.require_at_most(ISSUE_BYTES_MAX, self.text().len())
    }

    fn require_at_most(&self, limit: usize, bytes: usize) -> Result<()> {
        match bytes <= limit {
            true => Ok(()),
            false => Err(Error::BadInput(format!(
                "issue {} would have {bytes} bytes; an issue has at most 1 MiB",
                self.id
            ))),
        }
    }

    /// Returns the issue as people and programs are shown it.
    pub fn shown(&self) -> ShownIssue {
        let issue = self.clone();
        ShownIssue {
            id: issue.id,
            title: issue.title,
            body: issue.body,
            state: issue.state,
            priority: issue.priority,
            labels: issue.labels,
            depends_on: issue.depends_on,
            gates: issue.gates,
            claim: issue.claim.as_ref().map(IssueClaim::shown),
            created_at: issue.created_at,
            updated_at: issue.updated_at,
            notes: issue.notes,
            other: issue.other,
        }
    }
}

fn check_title(title: &str) -> Result<()> {
    let problem = if title.trim().is_empty() {
        "a title is not empty".into()
    } else if title.len() > TITLE_BYTES_MAX {
        format!("a title has at most {TITLE_BYTES_MAX} bytes; put the rest into the body")
    } else if title.chars().any(char::is_control) {
        "a title is one line without control characters".into()
    } else {
        return Ok(());
    };
    Err(Error::BadInput(problem))
}

fn check_label(label: &str) -> Result<()> {
    let is_odd = |c: char| c.is_control() || c.is_whitespace() || c == ',';
    if (1..=LABEL_BYTES_MAX).contains(&label.len()) && !label.contains(is_odd) {
        return Ok(());
    }
    let shown: String = label.chars().take(80).collect();
    Err(Error::BadInput(format!(
        "bad label {shown:?}; a label is 1 to {LABEL_BYTES_MAX} bytes without blanks and commas"
    )))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Returns an open issue of version 1 without a claim.
    pub(crate) fn issue(id: &str) -> Issue {
        let at = Timestamp::from_millis(1_700_000_000_000);
        Issue {
            id: id.parse().unwrap(),
            title: id.to_owned(),
            body: String::new(),
            state: IssueState::Open,
            priority: PRIORITY_DEFAULT,
            labels: Vec::new(),
            depends_on: Vec::new(),
            gates: BTreeMap::new(),
            claim: None,
            created_at: at,
            updated_at: at,
            notes: Vec::new(),
            version: 1,
            last_token: 0,
            other: Map::new(),
        }
    }

    #[test]
    fn an_issue_is_read_as_it_was_written_with_fields_nobody_knows() {
        let mut one = issue("a");
        one.other.insert("estimate".into(), "3d".into());
        let text = one.encode().unwrap();
        let read = Issue::parse(&one.id, text.as_bytes()).unwrap();
        assert_eq!(read, one);
        assert_eq!(read.encode().unwrap(), text);
        let shown = serde_json::to_value(one.shown()).unwrap();
        assert_eq!(shown["estimate"], "3d");
        assert!(shown.get("version").is_none() && shown.get("last_token").is_none());
    }

    #[test]
    fn what_is_no_issue_is_told_apart() {
        let id: IssueId = "a".parse().unwrap();
        let text = issue("a").encode().unwrap();
        for (bytes, problem) in [
            ("", "not JSON"),
            ("{", "not JSON"),
            (
                "{\"id\":\"a\",\"title\":\"x\",\"state\":\"backlog\"}",
                "another shape",
            ),
            (
                &text.replace("\"id\": \"a\"", "\"id\": \"b\""),
                "its id is \"b\"",
            ),
            (&format!("<<<<<<< HEAD\n{text}"), "conflict markers"),
        ] {
            let said = Issue::parse(&id, bytes.as_bytes()).unwrap_err();
            assert!(said.contains(problem), "{bytes}: {said}");
        }
    }

    #[test]
    fn titles_labels_and_ids_have_limits() {
        let mut one = issue("a");
        for title in ["", " ", "a\nb", "\u{1b}[31m", &"x".repeat(1001)] {
            title.clone_into(&mut one.title);
            assert!(one.check_set(None).is_err(), "{title:?}");
        }
        one.title = "x".into();
        for label in ["", "a b", "a,b", "\n", &"x".repeat(101)] {
            one.labels = vec![label.to_owned()];
            assert!(one.check_set(None).is_err(), "{label:?}");
            assert!(one.check_set(Some(&one)).is_ok() && one.encode().is_ok());
        }
        one.labels.clear();
        one.body = "x".repeat(ISSUE_BYTES_MAX);
        assert!(one.check_size().is_err() && one.encode().is_ok());
        one.body = "x".repeat(FILE_BYTES_MAX);
        assert!(one.encode().is_err());
        for id in ["", ".a", "a/b", "..", "a b", &"x".repeat(101)] {
            assert!(id.parse::<IssueId>().is_err(), "{id:?}");
        }
    }
}
