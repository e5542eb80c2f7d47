//! A durable transaction against the bare steps that any durable write must take.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;
use tenure_files::document::Documents;

use super::document_directory::{self, DocumentDirectory};
use super::{documents, time_each};
use crate::bench::{Measured, compare, syscalls};

const TIMES: u32 = 40;
const ROUNDS: u32 = 40;
const COUNTED: u32 = 200;

pub fn measure() -> Result<Measured> {
    let directory = DocumentDirectory::new()?;
    let (mine, alone) = (directory.document("ours")?, directory.document("bare")?);
    for (side, role, path) in [
        ("transaction", "transaction", &mine),
        ("bare write", "bare-transaction", &alone),
    ] {
        syscalls::print(side, &["documents", role], path, COUNTED)?;
    }
    let documents = documents();
    let text = document_directory::text()?;
    compare(
        "durable transaction of a 1 KiB document",
        Some(1.15),
        ROUNDS,
        || time_each(TIMES, || ours(&documents, &mine)),
        || time_each(TIMES, || write_durably(&alone, &text)),
    )
}

/// Raises the counter by one.
pub fn ours(documents: &Documents, path: &Path) -> Result<()> {
    documents.transaction(path, |value: &mut Value| {
        let counter = value.get_mut("n").context("there is a counter")?;
        let next = counter.as_u64().context("it is a number")? + 1;
        *counter = next.into();
        Ok(())
    })
}

/// Does only the write, for `strace`.
pub fn bare(path: &Path) -> Result<()> {
    write_durably(path, &document_directory::text()?)
}

fn write_durably(path: &Path, text: &str) -> Result<()> {
    let temporary = path.with_extension("tmp");
    let mut file = File::create_new(&temporary)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    drop(file);
    fs::rename(&temporary, path)?;
    File::open(document_directory::directory_of(path)?)?.sync_all()?;
    Ok(())
}
