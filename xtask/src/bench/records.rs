//! Records: the cost of a durable change against a bare durable update of one row, alone and in a
//! crowd.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use rusqlite::Connection;
use serde_json::Value;
use tenure::Keeper;
use tenure::records::{Changes, Columns, RecordChange, RecordKey, Seen};
use tokio::runtime::{Builder, Runtime};

use super::postgres::bare::Bare;
use super::postgres::server::Server;
use super::{Measured, compare, micros};

/// Rounds are short and many: other work of the disk then meets both sides alike, and medians leave
/// the rest out.
const TIMES: u32 = 8;
const ROUNDS: u32 = 120;
/// The number of processes that change one record at once, and how often each does.
const PROCESSES: u32 = 16;
const EACH: u32 = 40;
const TURNS: u32 = 7;

pub fn measure() -> Result<Vec<Measured>> {
    let built = std::env::current_exe()?;
    let beside = built.parent().context("a program is in a directory")?;
    let directory = tempfile::tempdir_in(beside)?;
    let url = format!("sqlite:{}/s/tenure.db", directory.path().display());
    let mut all = sqlite(&url, directory.path())?;
    let server = Server::start();
    let database = server.database();
    all.extend(postgres(&database.url(), &database)?);
    Ok(all)
}

/// Runs a child of this program, which changes one record so often, once it is told to.
pub fn child(url: &Path, rest: &[&str]) -> Result<()> {
    let [times] = rest else {
        bail!("no role of records is called {rest:?}");
    };
    let url = url.to_str().context("an address is text")?;
    let counter = Counter::open(url)?;
    counter.add(1)?;
    println!("ready");
    std::io::stdin().read_line(&mut String::new())?;
    counter.add(times.parse()?)
}

/// A record that is changed by adding one.
struct Counter {
    keeper: Keeper,
    runtime: Runtime,
}

impl Counter {
    fn open(url: &str) -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let keeper = runtime.block_on(Keeper::open(url))?;
        Ok(Self { keeper, runtime })
    }

    fn add(&self, times: u32) -> Result<()> {
        let key = RecordKey::new("counter", "bench")?;
        let add = |seen: &Seen| {
            let before = seen.get(&key).and_then(|record| record.body.as_u64());
            let mut changes = Changes::default();
            changes.put(
                key.clone(),
                Columns::default(),
                Value::from(before.unwrap_or(0) + 1),
            );
            Ok(changes)
        };
        self.runtime.block_on(async {
            let records = self.keeper.records("a benchmark")?;
            for _ in 0..times {
                records
                    .change(&RecordChange::new([key.clone()], &add))
                    .await?;
            }
            Ok(())
        })
    }
}

/// Returns the time of one change, measured over so many.
fn timed(times: u32, work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let started = Instant::now();
    work()?;
    Ok(micros(started.elapsed()) / f64::from(times))
}

fn sqlite(url: &str, directory: &Path) -> Result<Vec<Measured>> {
    let counter = Counter::open(url)?;
    counter.add(1)?;
    let bare = Connection::open(directory.join("s/bare.db"))?;
    bare.pragma_update(None, "journal_mode", "WAL")?;
    bare.pragma_update(None, "synchronous", "FULL")?;
    bare.execute_batch(
        "CREATE TABLE bare (id TEXT PRIMARY KEY, n INTEGER); INSERT INTO bare VALUES ('a', 0)",
    )?;
    let update = || {
        let mut update = bare.prepare_cached("UPDATE bare SET n = n + 1 WHERE id = 'a'")?;
        for _ in 0..TIMES {
            update.execute([])?;
        }
        Ok(())
    };
    let what = "SQLite: a record change against a bare durable update";
    let ours = || timed(TIMES, || counter.add(TIMES));
    let alone = compare(what, Some(1.5), ROUNDS, ours, || timed(TIMES, update))?;
    Ok(vec![alone, crowd("SQLite", url, &counter)?])
}

fn postgres(url: &str, database: &tenure_testkit::postgres::Database) -> Result<Vec<Measured>> {
    const UPDATE: &str = "UPDATE public.bare SET n = n + $1::bigint WHERE id = 'a'";
    database.psql("CREATE TABLE public.bare (id text PRIMARY KEY, n bigint); INSERT INTO public.bare VALUES ('a', 0)");
    let counter = Counter::open(url)?;
    counter.add(1)?;
    let bare = Bare::open(url, UPDATE, UPDATE)?;
    let update = || (0..TIMES).try_for_each(|_| bare.first(1));
    let what = "PostgreSQL: a record change against a bare durable update";
    let ours = || timed(TIMES, || counter.add(TIMES));
    let alone = compare(what, Some(1.5), ROUNDS, ours, || timed(TIMES, update))?;
    Ok(vec![alone, crowd("PostgreSQL", url, &counter)?])
}

/// Measures 16 processes on one record against one process that makes as many changes.
fn crowd(store: &str, url: &str, counter: &Counter) -> Result<Measured> {
    let times = PROCESSES * EACH;
    // Only the changes are timed: starting a process and opening a store costs as much as a hundred
    // of them.
    let together = || {
        let program = std::env::current_exe()?;
        let start = |_| {
            Command::new(&program)
                .args(["role", "records", url, &EACH.to_string()])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
        };
        let mut children = (0..PROCESSES).map(start).collect::<Result<Vec<_>, _>>()?;
        for child in &mut children {
            let said = child.stdout.as_mut().context("it is a pipe")?;
            BufReader::new(said).read_line(&mut String::new())?;
        }
        timed(times, || {
            children
                .iter_mut()
                .for_each(|child| drop(child.stdin.take()));
            for mut child in children {
                ensure!(child.wait()?.success(), "a child failed");
            }
            Ok(())
        })
    };
    compare(
        &format!("{store}: a change, 16 processes on one record against one (0.5)"),
        Some(2.0),
        TURNS,
        together,
        || timed(times, || counter.add(times)),
    )
}
