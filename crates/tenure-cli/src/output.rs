//! The one place that prints: JSON, documents as they are, and words for people.
//!
//! Words for people hold names, purposes, paths and commands that others chose, and a terminal
//! obeys control characters. All of these are escaped here, even if a caller forgot it. Only
//! newlines, which are our own layout, are kept; a caller that puts the words of others into a
//! table or a line makes those [`visible`] first. JSON and documents are printed byte for byte.

use std::io::{self, Write};
use std::process::ExitCode;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;

use crate::people::{visible, visible_lines, without_long_words};
use crate::report::Failure;

/// Prints the answer of a command, as one JSON document or in words, and returns its exit code.
pub fn answer(
    json: bool,
    document: &impl Serialize,
    in_words: impl FnOnce() -> Result<(), Failure>,
) -> Result<ExitCode, Failure> {
    match json {
        true => self::json(document)?,
        false => in_words()?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints one document.
pub fn json(document: &impl Serialize) -> Result<(), Failure> {
    let document = serde_json::to_string(document);
    let document = document.expect("text, numbers and JSON values are always serialisable");
    exact(document + "\n")
}

/// Prints words for people.
pub fn text(text: &str) -> Result<(), Failure> {
    exact(visible_lines(text))
}

/// Prints lines for people.
pub fn lines(lines: impl IntoIterator<Item = String>) -> Result<(), Failure> {
    let lines = lines.into_iter().map(|line| line + "\n");
    text(&lines.collect::<String>())
}

/// Prints bytes as they are.
pub fn exact(bytes: impl AsRef<[u8]>) -> Result<(), Failure> {
    let mut output = io::stdout();
    let written = output.write_all(bytes.as_ref());
    written
        .and_then(|()| output.flush())
        .map_err(Failure::Output)
}

/// Prints one line for people about something that is no failure.
pub fn word(text: &str) {
    tell(&format!("tenure: {}\n", visible(text)));
}

/// Answers with one line for people, for a command that prints nothing else.
pub fn said(text: &str) -> Result<(), Failure> {
    word(text);
    Ok(())
}

/// Prints lines for people on standard error. A failure to print is ignored.
pub fn tell(text: &str) {
    let _ = io::stderr().write_all(visible_lines(&without_long_words(text)).as_bytes());
}

/// Prints one document on standard error, where standard output belongs to the command under `run`.
/// It is one write with its newline: the command writes there, too.
pub fn tell_json(document: &impl Serialize) {
    if let Ok(document) = serde_json::to_string(document) {
        let _ = io::stderr().write_all((document + "\n").as_bytes());
    }
}

/// Draws on the terminal of standard error, with control sequences of our own. All other text in it
/// is [`visible`] already.
pub fn draw(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

/// A writer to standard error, for a library that writes lines.
pub struct StderrWriter;

impl Write for StderrWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        tell(&String::from_utf8_lossy(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns true if the reader of the output is gone.
pub fn is_unread() -> bool {
    let output = io::stdout();
    let mut polled = [PollFd::new(&output, PollFlags::empty())];
    let found = poll(&mut polled, Some(&Timespec::default()));
    found.is_ok() && polled[0].revents().contains(PollFlags::ERR)
}
