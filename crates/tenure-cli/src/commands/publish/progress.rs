//! A line for a person who watches a copy.

use std::io::{self, IsTerminal};
use std::time::Duration;

use tenure_service::observer::CopyObserver;

use crate::output;

/// The time before the line is drawn: shorter copies are not worth a flicker.
const AFTER: Duration = Duration::from_millis(500);
/// The interval at which the line is drawn.
const EVERY: Duration = Duration::from_millis(250);

/// A line on the terminal, removed when it is dropped.
pub struct CopyLine;

impl CopyLine {
    /// Returns a line if a person watches.
    pub fn of_process() -> Option<Self> {
        // The line is made only where it is used, as it draws when it is dropped.
        if io::stderr().is_terminal() {
            Some(Self)
        } else {
            None
        }
    }
}

impl CopyObserver for CopyLine {
    fn when(&self, told: u32) -> Duration {
        AFTER + EVERY * told
    }

    fn show(&mut self, files: u64, bytes: u64) {
        output::draw(&format!("\r\x1b[Ktenure: {}", line(files, bytes)));
    }
}

impl Drop for CopyLine {
    fn drop(&mut self) {
        output::draw("\r\x1b[K");
    }
}

fn line(files: u64, bytes: u64) -> String {
    let (unit, size) = match bytes {
        0..1_000_000 => ("kB", 1e3),
        1_000_000..1_000_000_000 => ("MB", 1e6),
        _ => ("GB", 1e9),
    };
    format!("copied {files} files, {:.1} {unit}", bytes as f64 / size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_has_files_and_bytes() {
        assert_eq!(line(3, 12_345), "copied 3 files, 12.3 kB");
        assert_eq!(line(70_000, 2_500_000_000), "copied 70000 files, 2.5 GB");
    }
}
