//! Figures and skips that every test run tells, also one whose output is captured.

use std::fmt::Display;
use std::fs::File;
use std::io::{Write, stderr};

/// Appends a line to the file that `TENURE_TEST_FIGURES` names, or writes it to standard error past
/// the capturing of the test harness.
///
/// # Panics
///
/// If the file cannot be appended to.
pub fn tell(line: impl Display) {
    // In one write, so that tests that run at once do not mix their lines.
    let line = format!("{line}\n");
    let Some(file) = std::env::var_os("TENURE_TEST_FIGURES") else {
        // If standard error is closed, there is no reader to tell.
        let _ = stderr().write_all(line.as_bytes());
        return;
    };
    let opened = File::options().append(true).create(true).open(&file);
    let told = opened.and_then(|mut opened| opened.write_all(line.as_bytes()));
    told.unwrap_or_else(|error| panic!("TENURE_TEST_FIGURES={}: {error}", file.display()));
}
