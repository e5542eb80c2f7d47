//! The whole commands `tenure doc read` and `tenure doc write`: from the start of the process to
//! its end.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use super::document_directory::{DocumentDirectory, directory_of};
use crate::bench::command::build;
use crate::bench::{Measured, median, micros};

const TIMES: u32 = 200;

/// The longest times that the specification of documents expects of a read and of a write in Node,
/// in milliseconds.
const READ_MS_MAX: f64 = 5.0;
const WRITE_MS_MAX: f64 = 20.0;

pub fn measure() -> Result<Vec<Measured>> {
    let tenure = build()?;
    let directory = DocumentDirectory::new()?;
    let path = directory.document("whole")?;
    let given = directory_of(&path)?.join("given.json");
    fs::copy(&path, &given)?;
    let read = || run(&tenure, "read", &path, Stdio::null());
    let write = || run(&tenure, "write", &path, File::open(&given)?.into());
    Ok(vec![
        measured("tenure doc read", READ_MS_MAX, read)?,
        measured("tenure doc write", WRITE_MS_MAX, write)?,
    ])
}

fn measured(what: &str, limit: f64, run: impl Fn() -> Result<f64>) -> Result<Measured> {
    let times = (0..TIMES).map(|_| run()).collect::<Result<Vec<f64>>>()?;
    let slowest = times.iter().copied().fold(0.0, f64::max) / 1000.0;
    let ms = median(times) / 1000.0;
    Ok(Measured {
        what: format!("{what}, the whole command, median in ms"),
        sides: format!("{TIMES} times, the slowest {slowest:.1} ms"),
        ratio: ms,
        limit: Some(limit),
    })
}

/// Returns the microseconds for one command.
fn run(tenure: &Path, action: &str, document: &Path, input: Stdio) -> Result<f64> {
    let mut command = Command::new(tenure);
    // Cargo sets this variable for the programs it starts: with it, every library is looked for in
    // folders of the build first.
    command.env_remove("LD_LIBRARY_PATH");
    command.args(["doc", action]).arg(document);
    command.stdin(input).stdout(Stdio::null());
    let started = Instant::now();
    let status = command.status().context("the command does not start")?;
    let took = micros(started.elapsed());
    ensure!(status.success(), "{command:?} failed: {status}");
    Ok(took)
}
