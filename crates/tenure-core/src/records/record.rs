//! Keys, records, queries and pages.

use std::fmt;

use serde_json::Value;

use crate::resource::KIND_BYTES_MAX;
use crate::{Error, Result, Timestamp};

/// The longest id of a record, in bytes.
pub const ID_BYTES_MAX: usize = 1024;
/// The longest value of an indexed column, in bytes.
pub const COLUMN_BYTES_MAX: usize = 1024;
/// The longest body, in bytes of its JSON text.
pub const BODY_BYTES_MAX: usize = 1 << 20;
/// The largest page.
pub const PAGE_MAX: usize = 100;

/// The name of a record. Keys are ordered by kind and then id, byte by byte.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordKey {
    kind: String,
    id: String,
}

impl RecordKey {
    /// Checks a kind and an id.
    ///
    /// # Errors
    ///
    /// `BadInput` unless the kind is 1 to 32 of `a-z` and `_`, and the id 1 to 1024 bytes without
    /// control characters.
    pub fn new(kind: &str, id: impl Into<String>) -> Result<Self> {
        let id = id.into();
        let allowed = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
        if !(1..=KIND_BYTES_MAX).contains(&kind.len()) || !kind.bytes().all(allowed) {
            let problem = "a kind is 1 to 32 of a-z and _";
            return Err(Error::BadInput(format!(
                "bad record kind {kind:?}: {problem}"
            )));
        }
        if id.is_empty() || id.len() > ID_BYTES_MAX || id.chars().any(char::is_control) {
            let shown: String = id.chars().take(80).collect();
            return Err(Error::BadInput(format!(
                "bad record id {shown:?}: an id is 1 to {ID_BYTES_MAX} bytes without control characters"
            )));
        }
        let kind = kind.to_owned();
        Ok(Self { kind, id })
    }

    /// Returns the kind.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// Returns the id.
    pub fn id(&self) -> &str {
        &self.id
    }
}

impl fmt::Display for RecordKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.id)
    }
}

/// The indexed columns of a record. Each may be empty, and records are listed by one of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Columns {
    /// The state it is in.
    pub state: Option<String>,
    /// The owner it belongs to.
    pub owner: Option<String>,
    /// The subject it is about.
    pub subject: Option<String>,
}

impl Columns {
    /// Fails if a value is too long for an index.
    pub(super) fn check(&self, key: &RecordKey) -> Result<()> {
        let too_long = |value: &Option<String>| {
            value
                .as_ref()
                .is_some_and(|value| value.len() > COLUMN_BYTES_MAX)
        };
        if [&self.state, &self.owner, &self.subject]
            .into_iter()
            .any(too_long)
        {
            return Err(Error::BadInput(format!(
                "{key}: an indexed column has at most {COLUMN_BYTES_MAX} bytes"
            )));
        }
        Ok(())
    }
}

/// One row: its key, its version and its content.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// The kind and id of the record.
    pub key: RecordKey,
    /// 1 when it is made, and one more with every change.
    pub version: u64,
    /// Its indexed columns.
    pub columns: Columns,
    /// All other content, as JSON.
    pub body: Value,
    /// The time when it was last changed.
    pub changed_at: Timestamp,
}

/// Returns the text of a body, as stores keep it.
pub(super) fn body_text(key: &RecordKey, body: &Value) -> Result<String> {
    let text = body.to_string();
    if text.len() > BODY_BYTES_MAX {
        return Err(Error::BadInput(format!(
            "{key}: its body has {} bytes, and at most {BODY_BYTES_MAX} are kept",
            text.len()
        )));
    }
    Ok(text)
}

/// Reads a body from its text.
///
/// # Errors
///
/// `Corrupt` if the text is no JSON: something else than Tenure wrote it.
pub fn parse_body(key: &RecordKey, text: &str) -> Result<Value> {
    serde_json::from_str(text).map_err(|error| {
        Error::corrupt("records", format!("the body of {key} is no JSON: {error}"))
    })
}

/// A column, and the value that a query looks for in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Column {
    /// Records in this state.
    State(String),
    /// Records of this owner.
    Owner(String),
    /// Records about this subject.
    Subject(String),
}

/// The selection of records to list.
#[derive(Debug, Clone)]
#[must_use]
pub struct RecordQuery {
    kind: String,
    /// Only records with this value in a column.
    pub column: Option<Column>,
    /// At most this many, and never more than [`PAGE_MAX`].
    pub limit: usize,
    /// Only what comes after this cursor, which an earlier page returned.
    pub after: Option<String>,
}

impl RecordQuery {
    /// Lists all records of a kind.
    pub fn new(kind: &str) -> Self {
        Self {
            kind: kind.to_owned(),
            column: None,
            limit: PAGE_MAX,
            after: None,
        }
    }

    /// Lists only records with this value in a column.
    pub fn with_column(mut self, column: Column) -> Self {
        self.column = Some(column);
        self
    }

    /// Returns the kind.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// Returns the limit of the page.
    pub fn limit(&self) -> usize {
        self.limit.clamp(1, PAGE_MAX)
    }

    /// Returns the id after which the page begins.
    pub fn after(&self) -> &str {
        self.after.as_deref().unwrap_or_default()
    }

    /// Returns a page of what a store found: one more than the limit means that there is another
    /// page.
    pub fn page(&self, mut found: Vec<Record>) -> RecordPage {
        let more = found.len() > self.limit();
        found.truncate(self.limit());
        let last = found.last().filter(|_| more);
        RecordPage {
            next: last.map(|last| last.key.id.clone()),
            records: found,
        }
    }
}

/// One page of records, in the order of their ids.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RecordPage {
    /// The records of the page.
    pub records: Vec<Record>,
    /// The start of the next page, if there is one.
    pub next: Option<String>,
}

/// The address by which a change of records wakes a session that waits for it. Only the store that
/// made it can read it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct WakeAddress(pub String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_and_ids_have_limits() {
        assert!(RecordKey::new("manifest", "/data/tiles é").is_ok());
        for (kind, id) in [
            ("", "x"),
            ("Manifest", "x"),
            ("a b", "x"),
            (&"k".repeat(33), "x"),
            ("manifest", ""),
            ("manifest", "a\nb"),
            ("manifest", &"x".repeat(ID_BYTES_MAX + 1)),
        ] {
            let error = RecordKey::new(kind, id).unwrap_err();
            assert!(matches!(error, Error::BadInput(_)), "{kind} {id}");
        }
    }

    #[test]
    fn keys_are_ordered_by_kind_and_then_id() {
        let key = |kind, id| RecordKey::new(kind, id).unwrap();
        let mut keys = [key("b", "a"), key("a", "z"), key("a", "Z")];
        keys.sort();
        assert_eq!(keys, [key("a", "Z"), key("a", "z"), key("b", "a")]);
    }

    #[test]
    fn a_page_has_a_cursor_only_if_there_is_more() {
        let record = |id: &str| Record {
            key: RecordKey::new("k", id).unwrap(),
            version: 1,
            columns: Columns::default(),
            body: Value::Null,
            changed_at: Timestamp::from_millis(0),
        };
        let query = RecordQuery {
            limit: 2,
            ..RecordQuery::new("k")
        };
        let page = query.page(vec![record("a"), record("b")]);
        assert_eq!((page.records.len(), page.next), (2, None));
        let page = query.page(vec![record("a"), record("b"), record("c")]);
        assert_eq!((page.records.len(), page.next.as_deref()), (2, Some("b")));
    }
}
