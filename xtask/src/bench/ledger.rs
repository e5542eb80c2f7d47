//! The ledger: the cost of a durable append, alone and together, and the costs that do not grow
//! with it.
//!
//! Everything happens on the disk this program was built on: where syncing costs nothing, a
//! comparison of durable writes says nothing.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;
use tenure_ledger::Ledger;

use super::bare_sync::beside_bare_sync;
use super::{Measured, compare, median, micros};

const EVENT: &str =
    "{\"type\":\"node_proved\",\"node_id\":\"1.2.3\",\"timestamp\":\"2024-01-15T10:30:00Z\"}";
const TIMES: u32 = 40;
const ROUNDS: u32 = 20;
/// The number of writers at once.
const WRITERS: u32 = 8;
/// The number of names for one file: ext4 allows at most 65,000.
const LINKS_MAX: u64 = 60_000;

pub fn measure() -> Result<Vec<Measured>> {
    let mut all = vec![alone()?, threads()?, processes()?];
    all.extend(sizes()?);
    all.push(million()?);
    Ok(all)
}

/// Runs a child of this program, which appends so many events.
pub fn child(path: &Path, rest: &[&str]) -> Result<()> {
    let [times] = rest else {
        bail!("no role of the ledger is called {rest:?}");
    };
    let ledger = open(path)?;
    for _ in 0..times.parse::<u32>()? {
        ledger.append(EVENT)?;
    }
    Ok(())
}

/// A ledger on a real disk.
struct Place {
    _directory: TempDir,
    path: PathBuf,
}

impl Place {
    fn new() -> Result<Self> {
        let built = std::env::current_exe()?;
        let beside = built.parent().context("a program is in a directory")?;
        let directory = tempfile::tempdir_in(beside)?;
        let path = directory.path().join("p");
        Ledger::init(&path, None)?;
        Ok(Self {
            _directory: directory,
            path,
        })
    }

    /// Makes a ledger with this many events of another writer; one of ours follows.
    fn with(events: u64) -> Result<Self> {
        let place = Self::new()?;
        let event = |sequence: u64| place.path.join(format!("ledger/event-{sequence:06}.json"));
        for sequence in 1..=events {
            match (sequence - 1) % LINKS_MAX {
                0 => fs::write(event(sequence), format!("{EVENT}\n"))?,
                _ => fs::hard_link(event(sequence - 1), event(sequence))?,
            }
        }
        let ledger = open(&place.path)?;
        ledger.append(EVENT)?;
        ledger.claim(&"1.1".parse()?, None)?;
        ledger.claims()?;
        Ok(place)
    }
}

fn open(path: &Path) -> Result<Ledger> {
    Ok(Ledger::open(path, Duration::from_secs(120))?)
}

/// Returns the microseconds for one of many times.
fn time_each(times: u32, mut work: impl FnMut() -> Result<()>) -> Result<f64> {
    let started = Instant::now();
    for _ in 0..times {
        work()?;
    }
    Ok(micros(started.elapsed()) / f64::from(times))
}

fn alone() -> Result<Measured> {
    let (mine, bare) = (Place::new()?, Place::new()?);
    let ledger = open(&mine.path)?;
    let mut sequence = 0;
    compare(
        "durable append, one writer, against the bare steps",
        Some(1.3),
        ROUNDS,
        || time_each(TIMES, || Ok(ledger.append(EVENT).map(drop)?)),
        || {
            time_each(TIMES, || {
                sequence += 1;
                write_durably(&bare.path.join("ledger"), sequence)
            })
        },
    )
}

/// Does the steps of any durable append: temporary file, sync, rename, sync of the directory.
fn write_durably(ledger: &Path, sequence: u64) -> Result<()> {
    let temporary = ledger.join(".event-bare.tmp");
    let mut file = File::create_new(&temporary)?;
    file.write_all(EVENT.as_bytes())?;
    file.sync_all()?;
    drop(file);
    fs::rename(&temporary, ledger.join(format!("event-{sequence:06}.json")))?;
    File::open(ledger)?.sync_all()?;
    Ok(())
}

fn threads() -> Result<Measured> {
    let (place, one) = (Place::new()?, Place::new()?);
    let (many, one) = (open(&place.path)?, open(&one.path)?);
    let together = || {
        let started = Instant::now();
        thread::scope(|scope| {
            let append = || (0..TIMES).try_for_each(|_| many.append(EVENT).map(drop));
            let writers: Vec<_> = (0..WRITERS).map(|_| scope.spawn(append)).collect();
            writers.into_iter().try_for_each(|writer| {
                let written = writer.join();
                written.map_err(|_| anyhow::anyhow!("a writer panicked"))??;
                anyhow::Ok(())
            })
        })?;
        Ok(micros(started.elapsed()) / f64::from(TIMES * WRITERS))
    };
    let measured = compare(
        "time of an event, eight threads against one",
        Some(0.5),
        ROUNDS,
        together,
        || time_each(TIMES, || Ok(one.append(EVENT).map(drop)?)),
    )?;
    beside_bare_sync(measured, "events", Some(2), &place.path)
}

fn processes() -> Result<Measured> {
    let (many, one) = (Place::new()?, Place::new()?);
    let spread = |place: &Place, writers: u32| {
        let started = Instant::now();
        let start = |_| {
            let mut command = Command::new(std::env::current_exe()?);
            command.args(["role", "ledger"]).arg(&place.path);
            Ok(command
                .arg((TIMES * WRITERS / writers).to_string())
                .spawn()?)
        };
        let children = (0..writers).map(start).collect::<Result<Vec<_>>>()?;
        for mut child in children {
            if !child.wait()?.success() {
                bail!("a writer failed");
            }
        }
        Ok(micros(started.elapsed()) / f64::from(TIMES * WRITERS))
    };
    let measured = compare(
        "time of an event, eight processes against one",
        Some(1.0 / 0.9),
        ROUNDS / 2,
        || spread(&many, WRITERS),
        || spread(&one, 1),
    )?;
    beside_bare_sync(measured, "events", None, &many.path)
}

fn sizes() -> Result<Vec<Measured>> {
    let (large, small) = (Place::with(100_000)?, Place::with(100)?);
    let newest = |place: &Place| time_each(TIMES, || Ok(open(&place.path)?.newest().map(drop)?));
    let check = |place: &Place| time_each(TIMES, || Ok(open(&place.path)?.claims().map(drop)?));
    let claim = |place: &Place| {
        time_each(TIMES / 4, || {
            let node = "2.1".parse()?;
            open(&place.path)?.claim(&node, None)?;
            Ok(open(&place.path)?.release(&node).map(drop)?)
        })
    };
    let limit = Some(1.5);
    let what = |work: &str| format!("{work}, 100,000 events against 100");
    Ok(vec![
        compare(
            &what("newest sequence"),
            limit,
            ROUNDS,
            || newest(&large),
            || newest(&small),
        )?,
        compare(
            &what("claim check"),
            limit,
            ROUNDS,
            || check(&large),
            || check(&small),
        )?,
        compare(
            &what("claim and release"),
            limit,
            ROUNDS,
            || claim(&large),
            || claim(&small),
        )?,
    ])
}

fn million() -> Result<Measured> {
    const LIMIT_MS: f64 = 50.0;
    let place = Place::with(1_000_000)?;
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        times.push(time_each(1, || {
            let claims = open(&place.path)?.claims()?;
            if claims.len() != 1 {
                bail!("there is one claim, not {}", claims.len());
            }
            Ok(())
        })?);
    }
    let took_ms = median(times) / 1000.0;
    Ok(Measured {
        what: "claims on 1,000,000 events with a snapshot, of 50 ms".into(),
        sides: format!("{took_ms:.2} ms"),
        ratio: took_ms / LIMIT_MS,
        limit: Some(1.0),
    })
}
