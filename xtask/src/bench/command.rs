//! The whole command `tenure run x -- true`, against util-linux `flock x true`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use super::{Measured, compare, median, micros};

/// The most that one call of the command may take.
pub struct Limits {
    /// The time of the command against that of util-linux.
    pub ratio: f64,
    /// The page faults, those of its command included.
    pub faults: f64,
    /// The system calls of its own process.
    pub calls: f64,
    /// The instructions of its own process.
    pub instructions: f64,
}

/// The number of times that faults and calls are counted. On a database they vary with the length
/// of its log.
const COUNTS: usize = 9;

pub fn measure() -> Result<Vec<Measured>> {
    let directory = tempfile::tempdir()?;
    let store = format!("file:{}", directory.path().join("store").display());
    let limits = Limits {
        ratio: 1.5,
        faults: 250.0,
        calls: 120.0,
        instructions: 800_000.0,
    };
    against_flock("tenure run x -- true", &store, &limits)
}

/// Measures the command with a store: its time against util-linux, and its cost for the machine.
pub fn against_flock(what: &str, store: &str, limits: &Limits) -> Result<Vec<Measured>> {
    let tenure = build()?;
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("x");
    let ours = || {
        let mut command = Command::new(&tenure);
        command.env("TENURE_STORE", store);
        command.args(["run", "x", "--", "true"]);
        command
    };
    let bare = || {
        let mut command = Command::new("flock");
        command.arg(&file).arg("true");
        command
    };
    let time = compare(
        &format!("{what}, the whole command"),
        Some(limits.ratio),
        1000,
        || run(&mut ours()),
        || run(&mut bare()),
    )?;
    let counted = |unit: &str, count: fn(Command) -> Result<f64>, limit| {
        let ours = median_of(COUNTS, || count(ours()))?;
        let bare = median_of(COUNTS, || count(bare()))?;
        anyhow::Ok(Measured {
            what: format!("{what}: {unit}"),
            sides: format!("{ours:.0} against {bare:.0}"),
            ratio: ours,
            limit: Some(limit),
        })
    };
    let mut all = vec![
        time,
        counted(
            "page faults, with its command's",
            page_faults,
            limits.faults,
        )?,
        counted("system calls, without", system_calls, limits.calls)?,
    ];
    match counted("instructions, without", instructions, limits.instructions) {
        Ok(measured) => all.push(measured),
        Err(missing) => println!("  instructions are not counted: {missing:#}"),
    }
    Ok(all)
}

fn median_of(times: usize, mut count: impl FnMut() -> Result<f64>) -> Result<f64> {
    let counts = (0..times).map(|_| count()).collect::<Result<_>>()?;
    Ok(median(counts))
}

/// Returns the page faults of a command and of the processes that it waits for.
fn page_faults(mut command: Command) -> Result<f64> {
    let before = faults_of_children()?;
    run(&mut command)?;
    Ok(faults_of_children()? - before)
}

/// Returns the page faults of all children of this process that have ended.
fn faults_of_children() -> Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let after_name = stat.rsplit_once(')').map(|(_, fields)| fields);
    let fields = after_name.map(str::split_ascii_whitespace);
    let faults = fields.and_then(|mut fields| fields.nth(8));
    Ok(faults.context("/proc/self/stat has no faults")?.parse()?)
}

/// Returns the system calls of the process of a command alone.
fn system_calls(command: Command) -> Result<f64> {
    let text = traced("strace", &["-c", "-U", "calls,name"], &command)?;
    let total = text.lines().rev().find(|line| line.ends_with("total"));
    let total = total.and_then(|line| line.split_whitespace().next());
    Ok(total.context("strace counted nothing")?.parse()?)
}

/// Returns the instructions of the process of a command alone.
fn instructions(command: Command) -> Result<f64> {
    let how = ["--tool=callgrind", "--callgrind-out-file=/dev/null"];
    let text = traced("valgrind", &how, &command)?;
    let counted = text
        .lines()
        .find_map(|line| line.split_once("Collected : "));
    let (_, counted) = counted.context("valgrind counted nothing")?;
    Ok(counted.trim().parse()?)
}

/// Runs a command under another program. Returns the report of that program.
fn traced(program: &str, options: &[&str], command: &Command) -> Result<String> {
    let mut traced = Command::new(program);
    traced.args(options).arg(command.get_program());
    let set = command.get_envs();
    traced.args(command.get_args());
    traced.envs(set.filter_map(|(name, value)| Some((name, value?))));
    let output = as_in_a_shell(&mut traced)
        .output()
        .with_context(|| format!("{program} is missing; install the package {program}"))?;
    if !output.status.success() {
        bail!("{traced:?} failed: {}", output.status);
    }
    Ok(String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Takes out the variable that cargo sets for the programs it starts: with it, every library is
/// looked for in folders of the build first.
fn as_in_a_shell(command: &mut Command) -> &mut Command {
    command.env_remove("LD_LIBRARY_PATH")
}

fn run(command: &mut Command) -> Result<f64> {
    as_in_a_shell(command).stdin(Stdio::null());
    let started = Instant::now();
    let status = command
        .status()
        .context("cannot start; util-linux flock is needed, too")?;
    let took = micros(started.elapsed());
    if !status.success() {
        bail!("{command:?} failed: {status}");
    }
    Ok(took)
}

/// Builds the command as users have it.
pub fn build() -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or("cargo".into());
    let arguments = ["build", "--quiet", "--release", "--package", "tenure-cli"];
    let status = Command::new(cargo).args(arguments).status()?;
    if !status.success() {
        bail!("the command does not build");
    }
    // This program is an example, which cargo puts into a folder of its own beside the command.
    let examples = std::env::current_exe()?;
    let release = examples.parent().and_then(Path::parent);
    Ok(release.context("the folder of the command")?.join("tenure"))
}
