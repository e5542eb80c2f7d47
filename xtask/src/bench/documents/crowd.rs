//! Sixteen processes work on one document without a pause: they read while one writes, or all
//! write.
//!
//! The whole call is timed; its part that waits is the wait for the lock. A writer changes the
//! document durably again and again, so the lock is held nearly always.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tenure_files::document::Documents;

use super::document_directory::DocumentDirectory;
use super::{documents, transaction};
use crate::bench::{Measured, micros};

const MEMBERS: u32 = 16;
const SECONDS: u64 = 10;
const READS_MIN: usize = 5_000;
/// The longest time to a lock, at the 99th percentile, that the specification of documents allows.
const P99_MS_MAX: f64 = 500.0;
/// The number of changes below which the writer was not at work.
const CHANGES_MIN: usize = 100;

/// Measures sixteen readers while one process writes.
pub fn measure_readers() -> Result<Measured> {
    let mut roles = vec!["reader"; MEMBERS as usize];
    roles.push("writer");
    let mut times = times_of(&roles)?;
    let changes = times.pop().context("there is a writer")?;
    let reads = times.concat();
    ensure!(reads.len() >= READS_MIN, "only {} reads", reads.len());
    ensure!(
        changes.len() >= CHANGES_MIN,
        "the writer was kept from writing: {} changes",
        changes.len()
    );
    let (reads, changes) = (Times::of(reads), Times::of(changes));
    Ok(Measured {
        what: format!("{MEMBERS} processes read while one writes, p99 in ms"),
        sides: format!("reads: {reads}; changes: {changes}"),
        ratio: reads.quantile(0.99) / 1000.0,
        limit: Some(P99_MS_MAX),
    })
}

/// Measures sixteen writers.
pub fn measure_writers() -> Result<Measured> {
    let times = times_of(&["writer"; MEMBERS as usize])?;
    let fewest = times.iter().map(Vec::len).min().unwrap_or(0);
    let changes = times.concat();
    ensure!(
        changes.len() >= CHANGES_MIN,
        "only {} changes",
        changes.len()
    );
    let changes = Times::of(changes);
    Ok(Measured {
        what: format!("{MEMBERS} processes change one document, p99 in ms"),
        sides: format!("changes: {changes}; the fewest of one process: {fewest}"),
        ratio: changes.quantile(0.99) / 1000.0,
        limit: Some(P99_MS_MAX),
    })
}

/// Returns the times of all pieces of work, for each process.
fn times_of(roles: &[&str]) -> Result<Vec<Vec<f64>>> {
    let directory = DocumentDirectory::new()?;
    let path = directory.document("crowd")?;
    transaction::ours(&documents(), &path)?;
    let mut members = Vec::new();
    for role in roles {
        members.push(Member::start(&path, role)?);
    }
    // All members start at once, when all are there.
    members.iter_mut().try_for_each(Member::go)?;
    let mut all = Vec::new();
    for member in members {
        let own = member.times()?;
        ensure!(!own.is_empty(), "a process never came to its turn");
        all.push(own);
    }
    Ok(all)
}

/// Runs one member of the crowd: it says that it is there, waits for the start, works, and says how
/// long each piece of work took, in microseconds.
pub fn child(documents: &Documents, path: &Path, role: &str) -> Result<()> {
    println!("ready");
    if std::io::stdin().lines().next().is_none() {
        bail!("the parent went away");
    }
    let mut times = String::new();
    let end = Instant::now() + Duration::from_secs(SECONDS);
    let mut started = Instant::now();
    while started < end {
        match role {
            "reader" => drop(documents.read(path)?),
            "writer" => transaction::ours(documents, path)?,
            _ => bail!("no role of the crowd is called {role:?}"),
        }
        let now = Instant::now();
        times += &format!("{:.1}\n", micros(now - started));
        started = Instant::now();
    }
    Ok(std::io::stdout().write_all(times.as_bytes())?)
}

struct Member {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Member {
    fn start(path: &Path, role: &str) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["role", "documents"]).arg(path);
        command.args(["crowd", role]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let orders = child.stdin.take().context("it was piped")?;
        let answers = BufReader::new(child.stdout.take().context("it was piped")?);
        let mut member = Self {
            child,
            orders,
            answers,
        };
        let mut answer = String::new();
        member.answers.read_line(&mut answer)?;
        ensure!(answer == "ready\n", "a {role} says {answer:?}");
        Ok(member)
    }

    fn go(&mut self) -> Result<()> {
        Ok(writeln!(self.orders, "go")?)
    }

    /// Waits until all is done, and returns how long each piece of work took.
    fn times(mut self) -> Result<Vec<f64>> {
        let mut text = String::new();
        self.answers.read_to_string(&mut text)?;
        let status = self.child.wait()?;
        ensure!(status.success(), "one of the crowd failed: {status}");
        text.lines().map(|line| Ok(line.parse()?)).collect()
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Times in microseconds, sorted.
struct Times(Vec<f64>);

impl Times {
    fn of(mut times: Vec<f64>) -> Self {
        times.sort_by(f64::total_cmp);
        Self(times)
    }

    /// Returns the time that this part of all did not exceed.
    fn quantile(&self, part: f64) -> f64 {
        let at = (self.0.len() as f64 * part).ceil() as usize;
        let time = self.0.get(at.saturating_sub(1));
        time.copied().unwrap_or(f64::NAN)
    }
}

impl std::fmt::Display for Times {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ms = |part| self.quantile(part) / 1000.0;
        let (half, most, all) = (ms(0.5), ms(0.99), ms(1.0));
        let count = self.0.len();
        write!(
            f,
            "{count}, median {half:.2} ms, p99 {most:.1} ms, max {all:.1} ms"
        )
    }
}
