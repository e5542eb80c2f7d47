//! The cache of what `next` would hand out: `.ready`.
//!
//! The first line says at which offset of the log it was made, and the hash of the line before that. Then comes a line for each open issue in the order in
//! which they are handed out: id, priority, time of creation, labels, and the issues it waits for. What the log says after the
//! offset names the issues to be read again.
//!
//! It is a hint. It holds every issue that may be claimed, and more; each is decided on its file, under its lock. One that does not fit
//! the log, as after a power loss, or that cannot be read, is not used.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use memchr::memmem;
use serde::{Deserialize, Serialize};
use tenure_core::{Error, Result};

use super::Board;
use super::decide::Waits;
use super::issue::{Issue, IssueId, IssueState};
use super::log::Tail;
use super::pending::hash;
use super::read::IssueList;
use crate::replace::replace_cache;

/// A cache with more than this to read again is written anew.
const READ_AGAIN_MAX: usize = 200;
/// No line of the log is longer, so the one before an offset is found by reading so much before it.
const LINE_BYTES_MAX: u64 = 1 << 16;
const READY_BYTES_MAX: u64 = 256 << 20;

/// The first line.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Header {
    offset: u64,
    /// The hash of the line before the offset.
    line: String,
}

/// A line for an issue: its place, its id, its labels, what it waits for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Entry(u32, i64, pub(super) IssueId, Vec<String>, Vec<IssueId>);

impl Entry {
    fn of(issue: &Issue, waits: Waits) -> Self {
        let (priority, created, id) = issue.place();
        // A gate that is passed is in the log, with the id of its issue.
        Self(
            priority,
            created,
            id.clone(),
            issue.labels.clone(),
            waits.issues,
        )
    }

    fn may_be_ready(&self, label: Option<&str>) -> bool {
        self.4.is_empty() && label.is_none_or(|label| self.3.iter().any(|own| own == label))
    }
}

impl Board {
    /// Returns the issues that may be ready, in order. Returns `None` without a cache that can be used.
    pub(super) fn candidates(&self, label: Option<&str>) -> Result<Option<Vec<IssueId>>> {
        let Some((text, tail)) = self.read_ready()? else {
            return Ok(None);
        };
        let body = text.split_once('\n').map_or("", |(_, body)| body);
        let again = read_again(body, &tail);
        let mut fresh = BTreeMap::new();
        for id in &again {
            fresh.insert(id.clone(), self.entry(id)?);
        }
        if again.len() > READ_AGAIN_MAX {
            self.write_ready_anew(body, &fresh, &tail)?;
        }
        let mut fresh: Vec<Entry> = fresh.into_values().flatten().collect();
        fresh.sort();
        let mut fresh = fresh.into_iter().peekable();
        let mut ids = Vec::new();
        // Only as much is read as is likely needed: the rest is read by a process that finds nothing here.
        for line in body.lines() {
            let Ok(entry) = serde_json::from_str::<Entry>(line) else {
                return Ok(None);
            };
            if again.contains(&entry.2) || !entry.may_be_ready(label) {
                continue;
            }
            while let Some(earlier) = fresh.next_if(|fresh| *fresh < entry) {
                ids.extend(earlier.may_be_ready(label).then_some(earlier.2));
            }
            ids.push(entry.2);
            if ids.len() >= READ_AGAIN_MAX {
                return Ok(Some(ids));
            }
        }
        let rest = fresh.filter(|entry| entry.may_be_ready(label));
        ids.extend(rest.map(|entry| entry.2));
        Ok(Some(ids))
    }

    fn entry(&self, id: &IssueId) -> Result<Option<Entry>> {
        let issue = match self.load_issue(id) {
            Ok((issue, _)) => issue,
            Err(Error::Corrupt { .. } | Error::NotFound(_)) => return Ok(None),
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

    /// Writes the cache of a board that was read after the log had a length. Nobody is held up if that fails.
    pub(super) fn write_ready(&self, list: &IssueList, before: &Tail) {
        let done = list
            .issues
            .iter()
            .filter(|issue| issue.state == IssueState::Done);
        let done: HashSet<&IssueId> = done.map(|issue| &issue.id).collect();
        let open = list
            .issues
            .iter()
            .filter(|issue| issue.state == IssueState::Open);
        let entries = open.map(|issue| Entry::of(issue, Waits::of(issue, |on| done.contains(on))));
        self.replace_ready(
            entries,
            before.offset + before.lines.len() as u64,
            &before.lines,
        );
    }

    fn write_ready_anew(
        &self,
        body: &str,
        fresh: &BTreeMap<IssueId, Option<Entry>>,
        tail: &Tail,
    ) -> Result<()> {
        let kept = body
            .lines()
            .filter_map(|line| serde_json::from_str::<Entry>(line).ok());
        let kept = kept.filter(|entry| !fresh.contains_key(&entry.2));
        let mut entries: Vec<Entry> = kept.chain(fresh.values().flatten().cloned()).collect();
        entries.sort();
        let offset = tail.offset + tail.lines.len() as u64;
        self.replace_ready(entries.into_iter(), offset, &tail.lines);
        Ok(())
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
    }
}

/// Returns the hash of the last line.
fn line_before(lines: &[u8]) -> String {
    let lines = lines.strip_suffix(b"\n").unwrap_or(lines);
    let begin = memchr::memrchr(b'\n', lines).map_or(0, |last| last + 1);
    hash(&lines[begin..])
}

/// Returns the issues that the log names after the cache was made, and those that waited for one of them.
fn read_again(body: &str, tail: &Tail) -> BTreeSet<IssueId> {
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
            let found = memmem::find_iter(body.as_bytes(), named.as_bytes());
            for at in found {
                let begin = body[..at].rfind('\n').map_or(0, |last| last + 1);
                let line = body[begin..].lines().next().unwrap_or_default();
                let entry = serde_json::from_str::<Entry>(line).ok();
                again.extend(entry.map(|entry| entry.2));
            }
        }
        again.insert(issue_id);
    }
    again
}
