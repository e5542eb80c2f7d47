//! A hand-over between processes in the line of the store, against flock(2); and the time until the
//! next waiter has the lock of a killed holder.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use tenure::Resource;

use crate::bench::hand_over::peer::{self, Peer};
use crate::bench::lock_unlock::open;
use crate::bench::program::{Program, sqlite};
use crate::bench::{Measured, compare, median};

const ROUNDS: u32 = 400;
const KILLS: u32 = 30;
const WORK: Duration = Duration::from_millis(1);

pub fn measure() -> Result<Vec<Measured>> {
    let directory = tempfile::tempdir()?;
    let database = directory.path().join("ours/tenure.db");
    let bare = directory.path().join("bare");
    Ok(vec![usual(&database, &bare)?, killed_holder(&database)?])
}

fn usual(database: &Path, bare: &Path) -> Result<Measured> {
    let program = Program::open(&sqlite(database))?;
    let resource = resource()?;
    let mut our_peer = Peer::start(database, &["sqlite", "wait"])?;
    let mut bare_peer = Peer::start(bare, &["bare"])?;
    compare(
        "hand-over between processes on sqlite against flock(2)",
        Some(10.0),
        ROUNDS,
        || {
            let guard = program.acquire(&resource)?;
            our_peer.round(WORK, || program.release(guard))
        },
        || {
            let file = open(bare)?;
            file.lock()?;
            bare_peer.round(WORK, || Ok(file.unlock()?))
        },
    )
}

/// Measures some kills, of which the slowest counts.
fn killed_holder(database: &Path) -> Result<Measured> {
    let mut waiter = Peer::start(database, &["sqlite", "wait"])?;
    let mut times = Vec::new();
    for _ in 0..KILLS {
        let mut holder = Peer::start(database, &["sqlite", "hold"])?;
        holder.expect("held")?;
        times.push(waiter.round(Duration::ZERO, || holder.kill())? / 1e6);
    }
    let slowest = times.iter().copied().fold(0.0, f64::max);
    Ok(Measured {
        what: "SIGKILL of the holder to the grant of the next, in s".into(),
        sides: format!(
            "slowest {:.2} ms, median {:.2} ms",
            slowest * 1e3,
            median(times) * 1e3
        ),
        ratio: slowest,
        limit: Some(1.0),
    })
}

/// Runs the other process.
pub fn child(database: &Path, role: &[&str]) -> Result<()> {
    let program = Program::open(&sqlite(database))?;
    let resource = resource()?;
    match role {
        ["hold"] => {
            let _guard = program.acquire(&resource)?;
            peer::hold_until_killed();
            Ok(())
        }
        ["wait"] => peer::wait_for_each_order(|| {
            let guard = program.acquire(&resource)?;
            let granted = peer::now();
            program.release(guard)?;
            Ok(granted)
        }),
        _ => bail!("no role is called {role:?}"),
    }
}

fn resource() -> Result<Resource> {
    "name:x".parse().map_err(|error| anyhow!("{error}"))
}
