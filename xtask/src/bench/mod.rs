//! Ratios against the bare limit, measured in one run.
//!
//! Machines are shared and noisy, so both sides of a ratio take turns in short rounds, and
//! the median of the rounds' ratios counts. The system calls of each side are counted by
//! `strace` in a run of their own.

mod agents;
mod bare_sync;
mod board;
mod command;
mod crowd;
mod directory;
mod documents;
mod hand_over;
mod ledger;
mod lock_unlock;
mod postgres;
mod program;
mod publish;
mod records;
mod sqlite;
mod syscalls;
mod waiters;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};

/// One line of the result.
pub struct Measured {
    /// The name of the figure.
    pub what: String,
    /// Our time and the other side's, for people.
    pub sides: String,
    /// Our time divided by the other side's.
    pub ratio: f64,
    /// The largest ratio allowed, or `None` for a figure that is only told.
    pub limit: Option<f64>,
}

type Bench = fn() -> Result<Vec<Measured>>;

const BENCHES: [(&str, Bench); 14] = [
    ("lock_unlock", lock_unlock::measure),
    ("hand_over", hand_over::measure),
    ("command", command::measure),
    ("waiters", waiters::measure),
    ("directory", directory::measure),
    ("sqlite", sqlite::measure),
    ("documents", documents::measure),
    ("ledger", ledger::measure),
    ("board", board::measure),
    ("agents", agents::measure),
    ("postgres", postgres::measure),
    ("records", records::measure),
    ("publish", publish::measure),
    ("crowd", crowd::measure),
];

/// Runs the named benchmarks, or all. Fails if a limit is exceeded.
pub fn run(names: &[&str]) -> Result<ExitCode> {
    for name in names {
        if !BENCHES.iter().any(|(known, _)| known == name) {
            let known: Vec<_> = BENCHES.iter().map(|(known, _)| *known).collect();
            bail!(
                "no benchmark is called {name:?}; there are {}",
                known.join(", ")
            );
        }
    }
    if (names.is_empty() || names.contains(&"documents"))
        && let Err(missing) = documents::prepare()
    {
        println!("documents are not compared with Node: {missing:#}");
    }
    let mut over = 0;
    for (name, measure) in BENCHES {
        if !names.is_empty() && !names.contains(&name) {
            continue;
        }
        println!("{name}");
        for measured in measure()? {
            let Measured {
                what,
                sides,
                ratio,
                limit,
            } = measured;
            let verdict = match limit {
                Some(limit) if ratio > limit => {
                    over += 1;
                    format!("limit {limit:.2}  OVER")
                }
                Some(limit) => format!("limit {limit:.2}  ok"),
                None => "no limit".to_owned(),
            };
            println!("  {what:<58} {ratio:6.2}  {verdict:<16} {sides}");
        }
    }
    if over > 0 {
        println!("{over} over the limit");
        return Ok(ExitCode::FAILURE);
    }
    println!("all within their limits");
    Ok(ExitCode::SUCCESS)
}

/// Runs this program as a child of itself, in one of its roles.
pub fn role(role: &str, path: &Path, rest: &[&str]) -> Result<ExitCode> {
    match role {
        "hand-over" => hand_over::child(path, rest)?,
        "lock-unlock" => lock_unlock::child(path, rest)?,
        "documents" => documents::child(path, rest)?,
        "ledger" => ledger::child(path, rest)?,
        "board" => board::child(path, rest)?,
        "records" => records::child(path, rest)?,
        "sqlite-acquire" => sqlite::child(path, rest)?,
        _ => bail!("no role is called {role:?}"),
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the median; of an even number of values, the upper one of the middle.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Returns the time in microseconds.
pub fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

/// Compares rounds of ours with rounds of the other side, each in turn.
pub fn compare(
    what: &str,
    limit: Option<f64>,
    rounds: u32,
    mut ours: impl FnMut() -> Result<f64>,
    mut bare: impl FnMut() -> Result<f64>,
) -> Result<Measured> {
    // The first round of each warms up.
    ours()?;
    bare()?;
    let (mut all_ours, mut all_bare, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds {
        let (mine, theirs) = if round % 2 == 0 {
            let mine = ours()?;
            (mine, bare()?)
        } else {
            let theirs = bare()?;
            (ours()?, theirs)
        };
        all_ours.push(mine);
        all_bare.push(theirs);
        ratios.push(mine / theirs);
    }
    let (ours, bare) = (median(all_ours), median(all_bare));
    Ok(Measured {
        what: what.to_owned(),
        sides: format!("{ours:.1} µs against {bare:.1} µs"),
        ratio: median(ratios),
        limit,
    })
}
