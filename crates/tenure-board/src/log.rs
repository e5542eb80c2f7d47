//! `events.jsonl`: the events of the board, one object a line.
//!
//! A line is added in one write under the lock of the log. A process that was killed in the middle
//! of that, or a full disk, may leave a torn end: it is cut off before the next line is added. The
//! recovery cuts off lines that a power loss tore. A reader takes no lock and stops at the last
//! newline.

use std::time::{Duration, Instant};

use memchr::{memchr, memmem, memrchr};
use serde::de::IgnoredAny;
use serde_json::{Map, Value};
pub use tenure_api::board::BoardEvent;
use tenure_core::{Error, Result};
use tenure_lockfile::resource_of;
use tenure_os::cancel::Ended;
use tenure_os::look::look_until;
use tenure_os::replace::sync_directory_of;

use super::Board;
use super::issue::IssueId;
use super::pending::Pending;

/// The interval of looks for new lines.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The position up to which the log was read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EventCursor {
    offset: u64,
    line: u64,
}

/// The log entry of a change.
pub(super) struct NewEvent {
    pub(super) kind: &'static str,
    pub(super) issue: Option<IssueId>,
    /// The fields beside those that every event has.
    pub(super) more: Vec<(&'static str, Value)>,
}

impl NewEvent {
    pub(super) fn new(kind: &'static str, issue: &IssueId) -> Self {
        Self {
            kind,
            issue: Some(issue.clone()),
            more: Vec::new(),
        }
    }

    pub(super) fn with(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.more.push((name, value.into()));
        self
    }
}

/// The lines after an offset of the log.
pub(super) struct Tail {
    /// The offset at which they begin: the one asked for, or 0 if the log is shorter than that.
    pub(super) offset: u64,
    /// The whole lines, each with its newline.
    pub(super) lines: Vec<u8>,
}

impl Tail {
    fn has(&self, uuid: &str) -> bool {
        memmem::find(&self.lines, format!("\"{uuid}\"").as_bytes()).is_some()
    }

    /// Returns the lines of these changes that the tail does not hold.
    fn missing(&self, changes: &[&Pending]) -> String {
        let missing = changes.iter().filter(|change| !self.has(&change.uuid));
        missing.map(|change| format!("{}\n", change.line)).collect()
    }

    /// Returns the lines that are text.
    pub(super) fn iter(&self) -> impl Iterator<Item = &str> {
        let lines = self.lines.split(|byte| *byte == b'\n');
        lines.filter_map(|line| str::from_utf8(line).ok().filter(|line| !line.is_empty()))
    }
}

impl Board {
    /// Returns the line of an event, without its newline.
    pub(super) fn line(&self, uuid: &str, event: NewEvent) -> String {
        let mut line = Map::new();
        line.insert("type".into(), event.kind.into());
        line.insert("id".into(), uuid.into());
        if let Some(issue) = event.issue {
            line.insert("issue_id".into(), issue.as_str().into());
        }
        line.insert("timestamp".into(), (self.now)().to_string().into());
        line.insert("owner".into(), self.owner.as_str().into());
        for (name, value) in event.more {
            line.insert(name.into(), value);
        }
        Value::Object(line).to_string()
    }

    pub(super) fn log_length(&self) -> Result<u64> {
        let path = self.names.log();
        let length = self.disk.length(&path);
        let length = length.map_err(|source| Error::io("look at", path, source))?;
        Ok(length.unwrap_or(0))
    }

    /// Returns the whole lines after an offset.
    pub(super) fn tail(&self, offset: u64) -> Result<Tail> {
        let path = self.names.log();
        let failed = |source| Error::io("read", &path, source);
        let offset = if self.log_length()? < offset {
            0
        } else {
            offset
        };
        let mut lines = self.disk.read_from(&path, offset).map_err(failed)?;
        lines.truncate(memrchr(b'\n', &lines).map_or(0, |last| last + 1));
        Ok(Tail { offset, lines })
    }

    /// Returns the end of the last whole line. A torn rest behind it is cut off before a line is
    /// added.
    pub(super) fn end_of_lines(&self) -> Result<u64> {
        let tail = self.last_lines()?;
        Ok(match tail.lines.is_empty() {
            true => 0,
            false => tail.offset + tail.lines.len() as u64,
        })
    }

    /// Adds the lines of changes that are not there yet. The log is locked, and every process that
    /// changes the board waits for it: where its end is whole, one read and one write do.
    pub(super) fn add_lines(&self, changes: &[&Pending]) -> Result<()> {
        let path = self.names.log();
        let failed = |source| Error::io("add to", &path, source);
        let first = changes.iter().map(|change| change.log_length).min();
        let offset = first.unwrap_or(0);
        let lines = self.disk.read_from(&path, offset.saturating_sub(1));
        let known = Tail {
            offset,
            lines: lines.map_err(failed)?,
        };
        let is_whole = known.lines.last() == Some(&b'\n');
        let lines = if is_whole {
            known.missing(changes)
        } else {
            self.mend_end()?;
            self.tail(offset)?.missing(changes)
        };
        if lines.is_empty() {
            return Ok(());
        }
        let is_new = !is_whole && !self.disk.exists(&path).map_err(failed)?;
        self.disk.append(&path, lines.as_bytes()).map_err(failed)?;
        match is_new {
            true => sync_directory_of(&*self.disk, &path),
            false => Ok(()),
        }
    }

    /// Cuts off a torn end, or ends a line that is whole but for its newline. The log is locked.
    fn mend_end(&self) -> Result<()> {
        let path = self.names.log();
        let failed = |source| Error::io("mend", &path, source);
        let length = self.log_length()?;
        let end = self.disk.read_from(&path, length.saturating_sub(1));
        if matches!(end.map_err(failed)?.last(), None | Some(b'\n')) {
            return Ok(());
        }
        let bytes = self.disk.read_from(&path, 0).map_err(failed)?;
        let from = memrchr(b'\n', &bytes).map_or(0, |last| last + 1);
        match is_event(&bytes[from..]) {
            true => self.disk.append(&path, b"\n").map_err(failed),
            false => self.cut(from as u64),
        }
    }

    /// Cuts the log at its first torn line after an offset, and adds the lines of changes that are
    /// missing then.
    pub(super) fn mend_log(&self, changes: &[&Pending], deadline: Instant) -> Result<()> {
        let _held = self.lock_log(deadline)?;
        let path = self.names.log();
        let oldest = changes.iter().map(|change| change.log_length).min();
        let oldest = oldest.unwrap_or(0).min(self.log_length()?);
        let bytes = self.disk.read_from(&path, oldest);
        let bytes = bytes.map_err(|source| Error::io("read", &path, source))?;
        let torn = memchr(0, &bytes);
        if let Some(zero) = torn {
            let line = memrchr(b'\n', &bytes[..zero]).map_or(0, |last| last + 1);
            self.cut(oldest + line as u64)?;
        }
        self.add_lines(changes)
    }

    fn cut(&self, length: u64) -> Result<()> {
        let path = self.names.log();
        let cut = self.disk.cut(&path, length);
        // The cut is durable before the next line is added, which must not meet the part that was
        // cut off.
        let cut = cut.and_then(|()| self.disk.sync_file(&path));
        cut.map_err(|source| Error::io("cut", path, source))
    }

    /// Returns the events after a line. Lines that hold no event are left out.
    pub fn events_after(&self, line: u64) -> Result<Vec<BoardEvent>> {
        self.events_since(&mut EventCursor::default(), line)
    }

    /// Returns the events after a line and after the position of the cursor. A log that was cut is
    /// read from its beginning.
    pub fn events_since(&self, cursor: &mut EventCursor, after: u64) -> Result<Vec<BoardEvent>> {
        let tail = self.tail(cursor.offset)?;
        if tail.offset != cursor.offset {
            *cursor = EventCursor::default();
        }
        cursor.offset += tail.lines.len() as u64;
        let mut events = Vec::new();
        for bytes in tail.lines.split_inclusive(|byte| *byte == b'\n') {
            cursor.line += 1;
            let bytes = bytes.trim_ascii_end();
            let text = str::from_utf8(bytes).ok().filter(|_| is_event(bytes));
            events.extend(text.filter(|_| cursor.line > after).map(|text| BoardEvent {
                line: cursor.line,
                text: text.to_owned(),
            }));
        }
        Ok(events)
    }

    /// Waits until the log has another length than this. Returns false if `limit` is over first. A
    /// cancelled wait is [`Error::Interrupted`].
    pub fn wait_for_events(&self, length: u64, limit: Duration) -> Result<bool> {
        let grown = || Ok((self.log_length()? != length).then_some(()));
        match look_until(LOOK_EVERY, Some(limit), self.locker.cancel(), grown)? {
            Ok(()) => Ok(true),
            Err(Ended::Deadline) => Ok(false),
            Err(Ended::Cancelled) => Err(Error::interrupted(resource_of(self.names.root()))),
        }
    }

    /// Returns the length of the log, for [`wait_for_events`](Self::wait_for_events).
    pub fn events_length(&self) -> Result<u64> {
        self.log_length()
    }
}

/// Returns true for a whole JSON object.
pub(super) fn is_event(bytes: &[u8]) -> bool {
    bytes.first() == Some(&b'{') && serde_json::from_slice::<IgnoredAny>(bytes).is_ok()
}
