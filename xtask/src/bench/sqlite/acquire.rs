//! Acquire + release with all their bookkeeping, against two bare transactions.

use std::path::Path;
use std::time::Instant;

use anyhow::{Result, bail};

use super::bare::{Bare, Table};
use crate::bench::program::{Program, free_names, sqlite};
use crate::bench::{Measured, compare, micros, syscalls};

const TIMES: u32 = 250;
const ROUNDS: u32 = 60;

pub fn measure() -> Result<Vec<Measured>> {
    let own = against(
        Table::Leases,
        "acquire + release on sqlite against two bare transactions",
        Some(2.5),
    )?;
    // This figure has no limit: it tells the cost of the store's own index, beside its bookkeeping.
    let plain = against(
        Table::Plain,
        "the same against a table without any index",
        None,
    )?;
    let directory = tempfile::tempdir()?;
    for (title, side) in [("acquire + release", "ours"), ("bare", "bare")] {
        let path = directory.path().join(side).join("tenure.db");
        drop(Program::open(&sqlite(&path))?);
        syscalls::print(title, &["sqlite-acquire", side], &path, TIMES)?;
    }
    Ok(vec![own, plain])
}

fn against(table: Table, title: &str, limit: Option<f64>) -> Result<Measured> {
    let directory = tempfile::tempdir()?;
    let ours = directory.path().join("ours/tenure.db");
    let bare = directory.path().join("bare/tenure.db");
    drop(Program::open(&sqlite(&bare))?);
    let mut alone = Bare::open(&bare, table)?;
    let program = Program::open(&sqlite(&ours))?;
    let names = free_names(TIMES)?;
    compare(
        title,
        limit,
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
    )
}

/// Does the work of one side many times, for `strace`.
pub fn child(path: &Path, rest: &[&str]) -> Result<()> {
    let [side, times] = rest else {
        bail!("usage: role sqlite-acquire PATH ours|bare TIMES");
    };
    let times = times.parse()?;
    if *side == "ours" {
        return Program::open(&sqlite(path))?.acquire_and_release_each(&free_names(times)?);
    }
    let mut alone = Bare::open(path, Table::Leases)?;
    (0..times).try_for_each(|_| alone.insert_and_delete())
}
