//! Hand-over between two processes: from the release in one to the grant in the other.
//!
//! A holder works for a millisecond, as holders do; the scheduler puts the two processes where it
//! likes. A second figure is only told: each process has a core of its own and the waiter's core is
//! still awake. That is the shortest hand-over there is, in which every system call after the grant
//! shows.

pub mod peer;

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail};
use tenure_lockfile::FileLocker;

use super::lock_unlock::open;
use super::{Measured, compare, median};
use peer::{OnCore, Peer};

const ROUNDS: u32 = 400;

pub fn measure() -> Result<Vec<Measured>> {
    let directory = tempfile::tempdir()?;
    let (ours, bare) = (directory.path().join("ours"), directory.path().join("bare"));
    let what = "hand-over between processes, with a timeout in force";
    let usual = hand_overs(what, Some(1.5), [&ours, &bare], Cores::Any)?;
    let what = "the same, cores pinned and awake";
    let shortest = hand_overs(what, None, [&ours, &bare], Cores::Own)?;
    Ok(vec![usual, shortest, killed_holder(&ours)?])
}

#[derive(Clone, Copy, PartialEq)]
enum Cores {
    Any,
    Own,
}

fn hand_overs(
    what: &str,
    limit: Option<f64>,
    [ours, bare]: [&Path; 2],
    cores: Cores,
) -> Result<Measured> {
    let locker = FileLocker::new(Duration::from_secs(60));
    let mut our_peer = Peer::start(ours, &["ours"])?;
    let mut bare_peer = Peer::start(bare, &["bare"])?;
    let mut work = Duration::from_millis(1);
    let _here = match cores {
        Cores::Any => None,
        Cores::Own => {
            our_peer.stay_on_core(1);
            bare_peer.stay_on_core(1);
            work = Duration::ZERO;
            Some(OnCore::stay(0)?)
        }
    };
    compare(
        what,
        limit,
        ROUNDS,
        || {
            let guard = locker.lock_exclusive(ours)?;
            our_peer.round(work, || Ok(guard.release()?))
        },
        || {
            let file = open(bare)?;
            file.lock()?;
            bare_peer.round(work, || Ok(file.unlock()?))
        },
    )
}

/// Measures how soon the next waiter has the lock of a killed holder. The figure is only told.
fn killed_holder(path: &Path) -> Result<Measured> {
    let mut waiter = Peer::start(path, &["ours"])?;
    let mut times = Vec::new();
    for _ in 0..30 {
        let mut holder = Peer::start(path, &["hold"])?;
        holder.expect("held")?;
        times.push(waiter.round(Duration::ZERO, || holder.kill())?);
    }
    let micros = median(times);
    Ok(Measured {
        what: "SIGKILL of the holder to the grant of the next, in ms".into(),
        sides: format!("{micros:.1} µs"),
        ratio: micros / 1000.0,
        limit: None,
    })
}

pub fn child(path: &Path, rest: &[&str]) -> Result<()> {
    let locker = FileLocker::new(Duration::from_secs(60));
    match rest {
        ["hold"] => {
            let _guard = locker.lock_exclusive(path)?;
            peer::hold_until_killed();
            Ok(())
        }
        ["ours"] => peer::wait_for_each_order(|| {
            let guard = locker.lock_exclusive(path)?;
            let granted = peer::now();
            guard.release()?;
            Ok(granted)
        }),
        ["bare"] => peer::wait_for_each_order(|| {
            let file = open(path)?;
            file.lock()?;
            Ok(peer::now())
        }),
        ["sqlite", role @ ..] => super::sqlite::hand_over::child(path, role),
        ["postgres", role @ ..] => super::postgres::hand_over::child(path, role),
        _ => bail!("no side is called {rest:?}"),
    }
}
