//! The whole command `tenure run x -- true`, against util-linux `flock x true`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use super::{Measured, compare, micros};

pub fn measure() -> Result<Vec<Measured>> {
    let directory = tempfile::tempdir()?;
    let store = format!("file:{}", directory.path().join("store").display());
    let what = "tenure run x -- true, the whole command";
    Ok(vec![against_flock(what, &store, 1.5)?])
}

/// The command with a store, against util-linux.
pub fn against_flock(what: &str, store: &str, limit: f64) -> Result<Measured> {
    let tenure = build()?;
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("x");
    let command = compare(
        what,
        Some(limit),
        400,
        || {
            let mut command = Command::new(&tenure);
            command.env("TENURE_STORE", store);
            run(command.args(["run", "x", "--", "true"]))
        },
        || run(Command::new("flock").arg(&file).arg("true")),
    )?;
    for (side, mut traced) in [
        ("tenure run", traced(&tenure, &["run", "x", "--", "true"])),
        (
            "flock",
            traced(
                Path::new("flock"),
                &[file.to_string_lossy().as_ref(), "true"],
            ),
        ),
    ] {
        traced.env("TENURE_STORE", store);
        let output = traced
            .output()
            .context("strace is missing; install the package strace")?;
        let text = String::from_utf8_lossy(&output.stderr);
        let total = text.lines().rev().find(|line| line.ends_with("total"));
        let total = total.and_then(|line| line.split_whitespace().next());
        println!(
            "  system calls, {side}, without its command: {}",
            total.unwrap_or("?")
        );
    }
    Ok(command)
}

fn traced(program: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("strace");
    command
        .args(["-c", "-U", "calls,name"])
        .arg(program)
        .args(arguments);
    as_in_a_shell(&mut command);
    command
}

/// Takes out what cargo sets for the programs it starts: with it, every library is looked for in folders of the build first.
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

/// Builds the command as people have it.
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
