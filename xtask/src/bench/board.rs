//! The board: the gain of its separate lock for each issue, creates, and a cost of `next` that does
//! not grow.
//!
//! Everything happens on the disk this program was built on: where syncing costs nothing, a
//! comparison of durable writes says nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;
use tenure_board::issue::IssueId;
use tenure_board::{Board, NewIssue, Next, Take};
use tenure_lockfile::FileLocker;

use super::bare_sync::beside_bare_sync;
use super::{Measured, compare, median, micros};

const WRITERS: u32 = 8;
const TIMES: u32 = 40;
const ROUNDS: u32 = 8;
const WAIT: Duration = Duration::from_secs(300);

pub fn measure() -> Result<Vec<Measured>> {
    let mut all = vec![updates()?];
    all.extend(creates()?);
    all.push(next()?);
    Ok(all)
}

/// Runs a child of this program: it updates an issue so many times, under one lock for all children
/// or not, or it creates issues.
pub fn child(path: &Path, rest: &[&str]) -> Result<()> {
    let board = Board::open(path, WAIT)?;
    match rest {
        ["update", issue, times] => {
            for _ in 0..times.parse::<u32>()? {
                update(&board, &issue.parse()?)?;
            }
        }
        ["update-alone", issue, times] => {
            let locker = FileLocker::new(WAIT);
            for _ in 0..times.parse::<u32>()? {
                let _alone = locker.lock_exclusive(&path.join(".global.lock"))?;
                update(&board, &issue.parse()?)?;
            }
        }
        ["create", times] => {
            for _ in 0..times.parse::<u32>()? {
                board.create(NewIssue::titled("something to do"))?;
            }
        }
        _ => bail!("no role of the board is called {rest:?}"),
    }
    Ok(())
}

fn update(board: &Board, id: &IssueId) -> Result<()> {
    board.update(id, |issue| {
        issue.priority += 1;
        Ok(())
    })?;
    Ok(())
}

/// A board on a real disk.
struct Place {
    _directory: TempDir,
    path: PathBuf,
}

impl Place {
    fn new() -> Result<Self> {
        let built = std::env::current_exe()?;
        let beside = built.parent().context("a program is in a directory")?;
        let directory = tempfile::tempdir_in(beside)?;
        let path = directory.path().join("board");
        Board::init(&path)?;
        Ok(Self {
            _directory: directory,
            path,
        })
    }

    /// Makes a board with this many issues, as it would be after a long time.
    fn with(issues: u32) -> Result<Self> {
        let place = Self::new()?;
        let mut new = NewIssue::titled("something to do");
        new.id = Some("i0".parse()?);
        Board::open(&place.path, WAIT)?.create(new)?;
        let first = fs::read_to_string(place.path.join("issues/i0.json"))?;
        let mut ids = vec!["i0".to_owned()];
        for number in 1..issues {
            let id = format!("i{number}");
            let text = first.replace("\"i0\"", &format!("\"{id}\""));
            fs::write(place.path.join(format!("issues/{id}.json")), text)?;
            ids.push(id);
        }
        let index = serde_json::json!({"schema_version": 1, "all_ids": ids, "deleted_ids": []});
        fs::write(place.path.join("index.json"), index.to_string())?;
        Ok(place)
    }

    /// Starts children, and returns the microseconds for each piece of work.
    fn spread(&self, children: u32, work: impl Fn(u32) -> Vec<String>) -> Result<f64> {
        let started = Instant::now();
        let start = |number| {
            let mut command = Command::new(std::env::current_exe()?);
            command.args(["role", "board"]).arg(&self.path);
            Ok(command.args(work(number)).spawn()?)
        };
        let all = (0..children).map(start).collect::<Result<Vec<_>>>()?;
        for mut child in all {
            if !child.wait()?.success() {
                bail!("a child failed");
            }
        }
        Ok(micros(started.elapsed()) / f64::from(TIMES * children))
    }
}

fn updates() -> Result<Measured> {
    let (own, global) = (Place::with(WRITERS)?, Place::with(WRITERS)?);
    let work = |role: &'static str| {
        move |number: u32| vec![role.to_owned(), format!("i{number}"), TIMES.to_string()]
    };
    let measured = compare(
        "time of an update, 8 processes, own locks against a global one",
        Some(1.0 / 1.5),
        ROUNDS,
        || own.spread(WRITERS, work("update")),
        || global.spread(WRITERS, work("update-alone")),
    )?;
    beside_bare_sync(measured, "updates", Some(4), &own.path)
}

fn creates() -> Result<Vec<Measured>> {
    let mut alone = None;
    let mut all = Vec::new();
    for processes in [1, 4, 16] {
        let mut rounds = Vec::new();
        for _ in 0..3 {
            let place = Place::new()?;
            rounds.push(place.spread(processes, |_| vec!["create".into(), TIMES.to_string()])?);
        }
        let time = median(rounds);
        let first = *alone.get_or_insert(time);
        all.push(Measured {
            what: format!("time of a create, {processes} processes against one"),
            sides: format!("{:.0} creates a second", 1e6 / time),
            ratio: time / first,
            limit: None,
        });
    }
    Ok(all)
}

fn next() -> Result<Measured> {
    let (large, small) = (Place::with(10_000)?, Place::with(100)?);
    // The board is opened each time, as a command does it.
    let claim = |place: &Place| {
        let mut times = Vec::new();
        for _ in 0..20 {
            let started = Instant::now();
            let board = Board::open(&place.path, WAIT)?;
            let Next::Issue(issue) = board.next(None, Take::Claim(None))? else {
                bail!("nothing is ready");
            };
            times.push(micros(started.elapsed()));
            board.release(&issue.id, None)?;
        }
        Ok(median(times))
    };
    compare(
        "next --claim, 10,000 issues against 100",
        Some(2.0),
        ROUNDS,
        || claim(&large),
        || claim(&small),
    )
}
