//! A shared read against reading and parsing without a lock.

use std::fs;
use std::hint::black_box;
use std::path::Path;

use anyhow::Result;
use serde_json::Value;
use tenure_files::document::Documents;

use super::document_directory::DocumentDirectory;
use super::{documents, time_each};
use crate::bench::{Measured, compare, syscalls};

const TIMES: u32 = 1000;
const ROUNDS: u32 = 100;

pub fn measure() -> Result<Measured> {
    let directory = DocumentDirectory::new()?;
    let path = directory.document("read")?;
    let documents = documents();
    // The lock file is there from the first read on.
    ours(&documents, &path)?;
    for (side, role) in [("shared read", "read"), ("bare read", "bare-read")] {
        syscalls::print(side, &["documents", role], &path, TIMES)?;
    }
    compare(
        "uncontended shared read of a 1 KiB document",
        Some(1.5),
        ROUNDS,
        || time_each(TIMES, || ours(&documents, &path)),
        || time_each(TIMES, || bare(&path)),
    )
}

pub fn ours(documents: &Documents, path: &Path) -> Result<()> {
    let value: Value = documents.read(path)?.parse()?;
    drop(black_box(value));
    Ok(())
}

pub fn bare(path: &Path) -> Result<()> {
    let value: Value = serde_json::from_slice(&fs::read(path)?)?;
    drop(black_box(value));
    Ok(())
}
