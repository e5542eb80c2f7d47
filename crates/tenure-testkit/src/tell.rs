//! What every run tells, also one whose output is captured: skips and counts.

use std::fmt::Display;
use std::io::Write;

/// Writes a line to standard error, past the capturing of the test harness.
pub(crate) fn tell(line: impl Display) {
    // In one write, so that tests that run at once do not mix their lines. If nobody
    // listens, there is nobody to tell.
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}
