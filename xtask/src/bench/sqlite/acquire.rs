//! Acquire + release with everything that belongs to it, against two bare transactions.

use std::path::Path;
use std::time::Instant;

use anyhow::{Result, bail};

use super::bare::Bare;
use super::program::{Program, free_names};
use crate::bench::{Measured, compare, micros, syscalls};

const TIMES: u32 = 250;
const ROUNDS: u32 = 60;

pub fn measure() -> Result<Vec<Measured>> {
    let directory = tempfile::tempdir()?;
    let ours = directory.path().join("ours/tenure.db");
    let bare = directory.path().join("bare.db");
    drop(Program::open(&ours)?);
    let mut alone = Bare::open(&bare, &ours)?;
    let program = Program::open(&ours)?;
    let names = free_names(TIMES)?;
    let measured = compare(
        "acquire + release on sqlite against two bare transactions",
        Some(2.5),
        ROUNDS,
        || {
            let started = Instant::now();
            program.acquire_and_release_each(&names)?;
            Ok(micros(started.elapsed()) / f64::from(TIMES))
        },
        || {
            let started = Instant::now();
            for _ in 0..TIMES {
                alone.insert_and_delete()?;
            }
            Ok(micros(started.elapsed()) / f64::from(TIMES))
        },
    )?;
    drop((program, alone));
    syscalls::print(
        "acquire + release",
        &["sqlite-acquire", "ours"],
        &ours,
        TIMES,
    )?;
    syscalls::print("bare", &["sqlite-acquire", "bare"], &bare, TIMES)?;
    Ok(vec![measured])
}

/// The same work many times, for `strace`.
pub fn child(path: &Path, rest: &[&str]) -> Result<()> {
    let [side, times] = rest else {
        bail!("usage: role sqlite-acquire PATH ours|bare TIMES");
    };
    let times = times.parse()?;
    if *side == "ours" {
        return Program::open(path)?.acquire_and_release_each(&free_names(times)?);
    }
    let mut alone = Bare::open(path, path)?;
    (0..times).try_for_each(|_| alone.insert_and_delete())
}
