//! The cache of the issues that `next` would hand out: `.ready`.
//!
//! The first line holds the offset of the log at which the cache was made, and the hash of the
//! log's line before that. Then comes a line for each open issue in the order in which they are
//! handed out: priority, time of creation, id, labels, the issues it waits for, true if it waits
//! for a gate, and its claim, whose end is not in the log. The lines of the log after the offset
//! name the issues to read again.
//!
//! The cache is a hint. It holds every issue that may be claimed, and more; each is decided on its
//! file, under its lock. A cache that does not fit the log, as after a power loss, or that cannot
//! be read, is not used.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use memchr::memmem;
use serde::{Deserialize, Serialize};
use tenure_core::{Error, Result};
use tenure_os::replace::replace_cache;

use super::Board;
use super::decide::{Moment, Waits, is_over};
use super::issue::{Issue, IssueClaim, IssueId, IssueState};
use super::log::Tail;
use super::pending::hash;
use super::read::IssueList;

/// The most issues to read again before the cache is written anew.
const READ_AGAIN_MAX: usize = 200;
/// The longest line of the log. The line before an offset is found by reading so much before it.
const LINE_BYTES_MAX: u64 = 1 << 16;
const READY_BYTES_MAX: u64 = 256 << 20;

/// The first line of the cache.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Header {
    offset: u64,
    /// The hash of the line before the offset.
    line: String,
}

/// The line of an issue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    place: (u32, i64, IssueId),
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    labels: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    waits_for: Vec<IssueId>,
    #[serde(default, skip_serializing_if = "is_false")]
    waits_for_gate: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    claim: Option<IssueClaim>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_false(value: &bool) -> bool {
    !value
}

impl Entry {
    fn of(issue: &Issue, waits: Waits) -> Self {
        let (priority, created, id) = issue.place();
        Self {
            place: (priority, created, id.clone()),
            labels: issue.labels.clone(),
            waits_for: waits.issues,
            waits_for_gate: !waits.gates.is_empty(),
            claim: issue.claim.clone(),
        }
    }

    fn may_be_ready(&self, label: Option<&str>, moment: Moment<'_>) -> bool {
        let has_label = label.is_none_or(|label| self.labels.iter().any(|own| own == label));
        let is_free = self
            .claim
            .as_ref()
            .is_none_or(|claim| is_over(claim, moment));
        self.waits_for.is_empty() && !self.waits_for_gate && has_label && is_free
    }
}

/// The cache, and the issues that were read again since it was made.
pub(super) struct Candidates {
    text: String,
    fresh: BTreeMap<IssueId, Option<Entry>>,
}

impl Candidates {
    /// Returns the issues that may be ready, in order. Only as much of the cache is read as is
    /// needed, and a line that cannot be read ends it.
    pub(super) fn ids<'a>(
        &'a self,
        board: &'a Board,
        label: Option<&'a str>,
    ) -> impl Iterator<Item = IssueId> + 'a {
        let lines = entries_in(&self.text).map_while(Result::ok);
        let mut lines = lines
            .filter(|entry| !self.fresh.contains_key(&entry.place.2))
            .peekable();
        let mut fresh: Vec<Entry> = self.fresh.values().flatten().cloned().collect();
        fresh.sort_by(|one, other| one.place.cmp(&other.place));
        let mut fresh = fresh.into_iter().peekable();
        let merged = std::iter::from_fn(move || match (lines.peek(), fresh.peek()) {
            (Some(line), Some(earlier)) if earlier.place < line.place => fresh.next(),
            (Some(_), _) => lines.next(),
            (None, _) => fresh.next(),
        });
        let ready = merged.filter(move |entry| entry.may_be_ready(label, board.moment()));
        ready.map(|entry| entry.place.2)
    }
}

fn entries_in(text: &str) -> impl Iterator<Item = serde_json::Result<Entry>> {
    text.lines().skip(1).map(serde_json::from_str)
}

impl Board {
    /// Returns the issues that may be ready, or `None` if no cache can be used.
    pub(super) fn candidates(&self) -> Result<Option<Candidates>> {
        let Some((text, tail)) = self.read_ready()? else {
            return Ok(None);
        };
        let mut fresh = BTreeMap::new();
        for id in read_again(&text, &tail) {
            let entry = self.entry(&id)?;
            fresh.insert(id, entry);
        }
        if fresh.len() > READ_AGAIN_MAX {
            self.write_ready_anew(&text, &fresh, &tail);
        }
        Ok(Some(Candidates { text, fresh }))
    }

    fn entry(&self, id: &IssueId) -> Result<Option<Entry>> {
        let issue = match self.find_issue(id) {
            Ok(Some((issue, _))) => issue,
            Ok(None) | Err(Error::Corrupt { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let waits = Waits::of(&issue, |on| self.is_done(on));
        Ok((issue.state == IssueState::Open).then(|| Entry::of(&issue, waits)))
    }

    /// Returns the cache and the lines of the log after it.
    fn read_ready(&self) -> Result<Option<(String, Tail)>> {
        let bytes = self
            .disk
            .content(&self.names.ready(), READY_BYTES_MAX)
            .ok()
            .flatten();
        let Some(text) = bytes.and_then(|bytes| String::from_utf8(bytes).ok()) else {
            return Ok(None);
        };
        let header = text.lines().next().unwrap_or_default();
        let Ok(header) = serde_json::from_str::<Header>(header) else {
            return Ok(None);
        };
        let mut tail = self.tail(header.offset.saturating_sub(LINE_BYTES_MAX))?;
        let Some(cut) = header.offset.checked_sub(tail.offset) else {
            return Ok(None);
        };
        let cut = usize::try_from(cut).unwrap_or(usize::MAX);
        if tail.lines.len() < cut || line_before(&tail.lines[..cut]) != header.line {
            return Ok(None);
        }
        tail.lines.drain(..cut);
        tail.offset = header.offset;
        Ok(Some((text, tail)))
    }

    /// Returns the end of the log, for [`write_ready`](Self::write_ready).
    pub(super) fn last_lines(&self) -> Result<Tail> {
        self.tail(self.log_length()?.saturating_sub(LINE_BYTES_MAX))
    }

    /// Writes the cache of a board that was read after the log ended with `before`. A failure holds
    /// no process up.
    pub(super) fn write_ready(&self, list: &IssueList, before: &Tail) {
        let done = list.in_state(IssueState::Done).map(|issue| &issue.id);
        let done: HashSet<&IssueId> = done.collect();
        let open = list.in_state(IssueState::Open);
        let entries = open.map(|issue| Entry::of(issue, Waits::of(issue, |on| done.contains(on))));
        self.replace_ready(
            entries,
            before.offset + before.lines.len() as u64,
            &before.lines,
        );
    }

    fn write_ready_anew(&self, text: &str, fresh: &BTreeMap<IssueId, Option<Entry>>, tail: &Tail) {
        let Ok(mut entries) = entries_in(text).collect::<serde_json::Result<Vec<_>>>() else {
            return;
        };
        entries.retain(|entry| !fresh.contains_key(&entry.place.2));
        entries.extend(fresh.values().flatten().cloned());
        entries.sort_by(|one, other| one.place.cmp(&other.place));
        let offset = tail.offset + tail.lines.len() as u64;
        self.replace_ready(entries.into_iter(), offset, &tail.lines);
    }

    fn replace_ready(&self, entries: impl Iterator<Item = Entry>, offset: u64, lines: &[u8]) {
        let line = line_before(lines);
        let header = Header { offset, line };
        let mut text = serde_json::to_string(&header).expect("text is serialisable");
        for entry in entries {
            text.push('\n');
            text.push_str(&serde_json::to_string(&entry).expect("text is serialisable"));
        }
        let _ = replace_cache(&*self.disk, &self.names.ready(), text.as_bytes());
        self.remove_left_caches();
    }
}

/// Returns the hash of the last of these lines.
fn line_before(lines: &[u8]) -> String {
    let lines = lines.strip_suffix(b"\n").unwrap_or(lines);
    let begin = memchr::memrchr(b'\n', lines).map_or(0, |last| last + 1);
    hash(&lines[begin..])
}

/// Returns the issues that the log names after the cache was made, and those that waited for an
/// issue that was done or deleted.
fn read_again(text: &str, tail: &Tail) -> BTreeSet<IssueId> {
    #[derive(Deserialize)]
    struct LogLine {
        #[serde(rename = "type")]
        kind: String,
        issue_id: IssueId,
    }
    let lines = tail
        .iter()
        .filter_map(|line| serde_json::from_str::<LogLine>(line).ok());
    let mut again = BTreeSet::new();
    for LogLine { kind, issue_id } in lines {
        if matches!(kind.as_str(), "issue_done" | "issue_deleted") {
            let named = format!("\"{issue_id}\"");
            let found = memmem::find_iter(text.as_bytes(), named.as_bytes());
            for at in found {
                let begin = text[..at].rfind('\n').map_or(0, |last| last + 1);
                let line = text[begin..].lines().next().unwrap_or_default();
                let entry = serde_json::from_str::<Entry>(line).ok();
                again.extend(entry.map(|entry| entry.place.2));
            }
        }
        again.insert(issue_id);
    }
    again
}
