//! A directory with one lock file, against one with a hundred thousand.

use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use tenure_lockfile::FileLocker;

use super::{Measured, compare, micros};

const FILES: u32 = 100_000;
const TIMES: u32 = 300;

pub fn measure() -> Result<Vec<Measured>> {
    let (one, many) = (tempfile::tempdir()?, tempfile::tempdir()?);
    for file in 0..FILES {
        File::create(many.path().join(format!("name:{file}.lock")))?;
    }
    let first = compare(
        "100,000 lock files in the directory against 1, first use",
        Some(1.5),
        40,
        || locks(many.path(), Opened::Anew),
        || locks(one.path(), Opened::Anew),
    )?;
    let again = compare(
        "100,000 lock files in the directory against 1, again",
        Some(1.5),
        40,
        || locks(many.path(), Opened::Kept),
        || locks(one.path(), Opened::Kept),
    )?;
    Ok(vec![first, again])
}

#[derive(PartialEq)]
enum Opened {
    Anew,
    Kept,
}

fn locks(directory: &Path, opened: Opened) -> Result<f64> {
    let path = directory.join("name:7.lock");
    let mut locker = FileLocker::new(Duration::from_secs(5));
    let mut took = Duration::ZERO;
    for _ in 0..TIMES {
        if opened == Opened::Anew {
            locker = FileLocker::new(Duration::from_secs(5));
        }
        let started = Instant::now();
        locker.lock_exclusive(&path)?.release()?;
        took += started.elapsed();
    }
    Ok(micros(took) / f64::from(TIMES))
}
