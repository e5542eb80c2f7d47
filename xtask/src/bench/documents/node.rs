//! A durable transaction against one in Node, with proper-lockfile and write-file-atomic.
//!
//! One Node process does all rounds and times its own loop. So neither its start nor the way to it
//! counts, and its code is compiled by the time the first round counts.

use std::io::{BufRead, BufReader, Lines, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::document_directory::DocumentDirectory;
use super::{documents, time_each, transaction};
use crate::bench::{Measured, compare};

const TIMES: u32 = 20;
const ROUNDS: u32 = 60;

/// The packages that the Node side needs.
const PACKAGES: [&str; 2] = ["proper-lockfile", "write-file-atomic"];

/// Installs the packages of Node if they are missing. This is called before all measures: a missing
/// program is told at the start, not after minutes.
///
/// # Errors
///
/// Tells what is missing, for a line that is left out.
pub fn prepare() -> Result<()> {
    let mut node = Command::new("node");
    let runs = node.arg("--version").stdout(Stdio::null()).status();
    runs.context("node is missing; install the package nodejs")?;
    if is_ready() {
        return Ok(());
    }
    println!("installing the packages of Node");
    let mut npm = Command::new("npm");
    npm.args([
        "install",
        "--silent",
        "--no-package-lock",
        "--ignore-scripts",
    ]);
    npm.args(["--no-audit", "--no-fund"]).current_dir(peers());
    let installed = npm.status();
    let installed = installed.context("npm is missing; install the package npm")?;
    ensure!(installed.success(), "npm install failed");
    Ok(())
}

/// Returns true if the packages are installed.
pub fn is_ready() -> bool {
    let packages = peers().join("node_modules");
    PACKAGES
        .iter()
        .all(|package| packages.join(package).is_dir())
}

/// Returns the folder with the Node programs that documents are shared with.
fn peers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("crates/tenure-files/tests/node")
}

pub fn measure() -> Result<Measured> {
    let directory = DocumentDirectory::new()?;
    let (mine, theirs) = (directory.document("ours")?, directory.document("node")?);
    let documents = documents();
    let mut node = Node::start(&theirs)?;
    let measured = compare(
        "durable transaction against Node's (a third at most)",
        Some(1.0 / 3.0),
        ROUNDS,
        || time_each(TIMES, || transaction::ours(&documents, &mine)),
        || node.round(TIMES),
    )?;
    // The first round warms up. Neither side may have lost a transaction.
    let raised = u64::from(TIMES * (ROUNDS + 1));
    for path in [&mine, &theirs] {
        let value: Value = documents.read(path)?.parse()?;
        ensure!(value["n"] == 1_000_000 + raised, "{}: lost", path.display());
    }
    Ok(measured)
}

/// A Node process that raises the counter of a document as often as it is told.
struct Node {
    child: Child,
    orders: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Node {
    fn start(document: &Path) -> Result<Self> {
        let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
        let packages = peers().join("node_modules");
        let mut command = Command::new("node");
        command.arg(xtask.join("src/bench/documents/transaction.js"));
        command.arg(document).env("NODE_PATH", packages);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let started = command.spawn();
        let mut child = started.context("node is missing; install the package nodejs")?;
        let orders = child.stdin.take().context("it was piped")?;
        let answers = BufReader::new(child.stdout.take().context("it was piped")?).lines();
        Ok(Self {
            child,
            orders,
            answers,
        })
    }

    /// Returns the microseconds for one of so many transactions.
    fn round(&mut self, times: u32) -> Result<f64> {
        writeln!(self.orders, "{times}")?;
        let answer = self.answers.next().context("the Node process ended")??;
        answer
            .parse()
            .with_context(|| format!("Node said {answer:?}"))
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
