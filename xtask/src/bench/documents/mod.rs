//! Documents: the cost of the lock, of the checks and of the durable write.
//!
//! | file | what is compared |
//! |---|---|
//! | `transaction` | a durable transaction against the bare write, and the system calls of each |
//! | `node` | a durable transaction against Node with proper-lockfile and write-file-atomic |
//! | `read` | a shared read against reading and parsing without a lock |
//! | `crowd` | sixteen processes that read while one writes, or that all write |
//! | `whole_command` | `tenure doc read` and `tenure doc write`, from start to end |
//! | `document_directory` | the document, and a directory on a real disk |
//!
//! Everything happens on the disk this program was built on: where syncing costs nothing, a
//! comparison of durable writes says nothing.

mod crowd;
mod document_directory;
mod node;
mod read;
mod transaction;
mod whole_command;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use tenure_files::document::Documents;

pub use node::prepare;

use super::{Measured, micros};

pub fn measure() -> Result<Vec<Measured>> {
    let mut measured = vec![transaction::measure()?];
    if node::is_ready() {
        measured.push(node::measure()?);
    }
    measured.push(read::measure()?);
    measured.push(crowd::measure_readers()?);
    measured.push(crowd::measure_writers()?);
    measured.extend(whole_command::measure()?);
    Ok(measured)
}

/// Runs a child of this program: one side many times, for `strace`, or one member of a crowd.
pub fn child(path: &Path, rest: &[&str]) -> Result<()> {
    let documents = documents();
    match rest {
        ["transaction", times] => times_over(times, || transaction::ours(&documents, path)),
        ["bare-transaction", times] => times_over(times, || transaction::bare(path)),
        ["read", times] => times_over(times, || read::ours(&documents, path)),
        ["bare-read", times] => times_over(times, || read::bare(path)),
        ["crowd", role] => crowd::child(&documents, path, role),
        _ => bail!("no role of documents is called {rest:?}"),
    }
}

fn documents() -> Documents {
    Documents::new(Duration::from_secs(60))
}

fn times_over(times: &str, mut work: impl FnMut() -> Result<()>) -> Result<()> {
    (0..times.parse()?).try_for_each(|_: u32| work())
}

/// Returns the microseconds for one of many times.
fn time_each(times: u32, mut work: impl FnMut() -> Result<()>) -> Result<f64> {
    let started = Instant::now();
    for _ in 0..times {
        work()?;
    }
    Ok(micros(started.elapsed()) / f64::from(times))
}
