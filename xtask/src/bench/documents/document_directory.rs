//! The document of these benchmarks, and the place for it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use rustix::fs::statfs;
use serde_json::json;
use tempfile::TempDir;

/// The size of the document, in bytes, before and after every change.
pub const BYTES: usize = 1024;

/// File systems in memory: to sync there is free.
const IN_MEMORY: [i64; 2] = [0x0102_1994, 0x8584_58f6];

/// A directory on the disk this program was built on. Dropping this removes it.
pub struct DocumentDirectory {
    directory: TempDir,
}

impl DocumentDirectory {
    pub fn new() -> Result<Self> {
        let program = std::env::current_exe()?;
        let beside = program.parent().context("a program has a directory")?;
        let kind = statfs(beside)?.f_type;
        ensure!(
            !IN_MEMORY.contains(&kind),
            "{} is in memory, where syncing costs nothing; set CARGO_TARGET_DIR to a directory on \
             a disk",
            beside.display()
        );
        Ok(Self {
            directory: tempfile::tempdir_in(beside)?,
        })
    }

    /// Makes a document in a directory of its own, so that only its own names are synced with it.
    pub fn document(&self, of: &str) -> Result<PathBuf> {
        let directory = self.directory.path().join(of);
        fs::create_dir(&directory)?;
        let path = directory.join("work-units.json");
        fs::write(&path, text()?)?;
        Ok(path)
    }
}

/// Returns a kibibyte of JSON as Node lays it out: a counter of seven digits, which keeps its
/// length while it counts, and work units as a tool would keep them.
pub fn text() -> Result<String> {
    let with = |rest: &str| {
        let unit = |number: u32| {
            json!({
                "id": format!("BOARD-{number:03}"),
                "status": "implementing",
                "title": "Lock the files of the board",
                "estimate": number,
                "blocked": number.is_multiple_of(2),
            })
        };
        let units: Vec<_> = (1..=5).map(unit).collect();
        let value = json!({"n": 1_000_000, "units": units, "rest": rest});
        serde_json::to_string_pretty(&value)
    };
    let missing = BYTES.checked_sub(with("")?.len());
    let text = with(&"-".repeat(missing.context("the document is too large")?))?;
    ensure!(text.len() == BYTES, "the document has {} bytes", text.len());
    Ok(text)
}

/// Returns the directory of a document.
pub fn directory_of(document: &Path) -> Result<&Path> {
    document.parent().context("a document has a directory")
}
