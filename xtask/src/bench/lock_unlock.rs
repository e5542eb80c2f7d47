//! Uncontended lock and unlock, against a bare open, `File::lock` and close.

use std::fs::{File, OpenOptions};
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use tenure_lockfile::FileLocker;

use super::{Measured, compare, micros, syscalls};

const AGAIN: u32 = 1000;
const FILES: usize = 500;

pub fn measure() -> Result<Vec<Measured>> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("x.lock");
    let locker = FileLocker::new(Duration::from_secs(5));
    let again = compare(
        "lock + unlock, again and again",
        Some(2.0),
        60,
        || time_each(AGAIN, || ours(&locker, &path)),
        || time_each(AGAIN, || bare(&path)),
    )?;
    let files: Vec<PathBuf> = (0..FILES)
        .map(|file| directory.path().join(format!("{file}.lock")))
        .collect();
    let first = compare(
        "lock + unlock, first use of a path",
        Some(5.0),
        40,
        || {
            let locker = FileLocker::new(Duration::from_secs(5));
            time_over(&files, |path| ours(&locker, path))
        },
        || time_over(&files, bare),
    )?;
    syscalls::print("ours, again", &["lock-unlock", "ours"], &path, AGAIN)?;
    syscalls::print("bare", &["lock-unlock", "bare"], &path, AGAIN)?;
    Ok(vec![again, first])
}

/// Does the work of one side many times, for `strace`.
pub fn child(path: &Path, rest: &[&str]) -> Result<()> {
    let [side, times] = rest else {
        bail!("usage: role lock-unlock PATH ours|bare TIMES");
    };
    let locker = FileLocker::new(Duration::from_secs(5));
    for _ in 0..times.parse()? {
        match *side {
            "ours" => ours(&locker, path)?,
            _ => bare(path)?,
        }
    }
    Ok(())
}

fn ours(locker: &FileLocker, path: &Path) -> Result<()> {
    drop(black_box(locker.lock_exclusive(path)?));
    Ok(())
}

fn bare(path: &Path) -> Result<()> {
    let file = open(path)?;
    file.lock()?;
    drop(black_box(file));
    Ok(())
}

pub fn open(path: &Path) -> Result<File> {
    let mut options = OpenOptions::new();
    let file = options
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)?;
    Ok(file)
}

fn time_each(times: u32, mut work: impl FnMut() -> Result<()>) -> Result<f64> {
    let started = Instant::now();
    for _ in 0..times {
        work()?;
    }
    Ok(micros(started.elapsed()) / f64::from(times))
}

fn time_over(files: &[PathBuf], mut work: impl FnMut(&Path) -> Result<()>) -> Result<f64> {
    let started = Instant::now();
    for path in files {
        work(path)?;
    }
    Ok(micros(started.elapsed()) / files.len() as f64)
}
