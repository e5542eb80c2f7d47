//! The end of an attempt, and the file that it is kept in.
//!
//! The file is made before the command starts, full of blanks, and written once, in one place and
//! within one block. So it needs no space when the disk may be full, and leaves no other file
//! behind. It is read only by who has the lease after the shim.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use serde::{Deserialize, Serialize};
use tenure_core::{Error, Result, Timestamp};
use tenure_os::clock;
use tenure_os::platform::usage_of_children;

use super::output::Output;

/// The size of the file.
const BYTES: usize = 4096;
/// The longest text of an error in it.
const REASON_MAX: usize = 500;

/// The end of an attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// The tag of the attempt.
    pub tag: String,
    /// How the command ended.
    pub end: End,
    /// Why it was made to end, if it was.
    pub stopped: Option<Stopped>,
    /// When all of it had ended.
    pub ended_at: Timestamp,
    /// What became of its output.
    pub output: Output,
    /// What it used.
    pub used: Used,
    /// True if something that it started could not be killed, and still runs.
    pub still_runs: bool,
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// With this exit status.
    Exited(i32),
    /// By this signal.
    Signalled(i32),
    /// It was not started, and why.
    NotStarted(NotStarted, String),
}

/// The reason why a command was not started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NotStarted {
    /// Its directory cannot be entered.
    Directory,
    /// There is no such program.
    NotFound,
    /// The program cannot be executed.
    NotExecutable,
    /// Its deadline was over.
    TooLate,
    /// The shim could not do its own part.
    Shim,
}

/// The reason why a command was made to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stopped {
    /// Its time limit was over.
    TimeLimit,
    /// Its limit of CPU time was over.
    CpuLimit,
    /// Its deadline was over and had not been moved.
    Deadline,
    /// The worker had it ended.
    Asked,
    /// Its worker died.
    WorkerDied,
}

/// What the command used, with all that it started and that has ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Used {
    /// CPU time for its own work, in milliseconds.
    pub user_ms: u64,
    /// CPU time for the work of the kernel for it, in milliseconds.
    pub system_ms: u64,
    /// The most memory that one process had at a time, in bytes.
    pub memory_max_bytes: u64,
}

impl Status {
    /// Makes the status of an attempt whose command has just ended.
    pub(super) fn new(tag: &str, end: End) -> Self {
        let usage = usage_of_children();
        Self {
            tag: tag.to_owned(),
            end,
            stopped: None,
            ended_at: clock::now(),
            output: Output::default(),
            used: Used {
                user_ms: usage.user.as_millis() as u64,
                system_ms: usage.system.as_millis() as u64,
                memory_max_bytes: usage.memory_max_bytes,
            },
            still_runs: false,
        }
    }
}

/// Returns a text that is short enough for the file.
pub(super) fn short(reason: impl ToString) -> String {
    reason.to_string().chars().take(REASON_MAX).collect()
}

/// Makes the file of a status that is not known yet, or makes that of an earlier attempt blank.
pub(super) fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let options = options.write(true).create(true).truncate(true).mode(0o600);
    let file = options.open(path)?;
    file.write_all_at(&[b' '; BYTES], 0)?;
    Ok(file)
}

/// Writes the status to its file.
pub(super) fn write(file: &File, status: &Status) -> io::Result<()> {
    file.write_all_at(&serde_json::to_vec(status)?, 0)
}

/// Returns the status of an attempt, or None if the attempt was lost. Whoever asks has the lease
/// of the attempt: while that is held by its shim, the answer means nothing.
pub fn read_status(path: &Path, tag: &str) -> Result<Option<Status>> {
    let text = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        text => text.map_err(|source| Error::io("read", path, source))?,
    };
    let status = serde_json::from_slice(&text).ok();
    Ok(status.filter(|status: &Status| status.tag == tag))
}
