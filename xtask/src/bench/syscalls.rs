//! Counts the system calls of one side.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Prints how often each system call is made for one piece of work: the difference between many
/// times and none, so that the start of the process does not count.
pub fn print(side: &str, role: &[&str], path: &Path, times: u32) -> Result<()> {
    let with = count(role, path, times)?;
    let without = count(role, path, 0)?;
    let mut calls = Vec::new();
    for (call, number) in with {
        let base = without
            .iter()
            .find(|(other, _)| *other == call)
            .map_or(0, |found| found.1);
        let each = number.saturating_sub(base) as f64 / f64::from(times);
        if each >= 0.01 {
            calls.push(format!("{call} {each:.2}"));
        }
    }
    println!("  system calls, {side}: {}", calls.join(", "));
    Ok(())
}

fn count(role: &[&str], path: &Path, times: u32) -> Result<Vec<(String, u64)>> {
    let (name, rest) = role.split_first().context("a role has a name")?;
    let mut command = Command::new("strace");
    command.args(["-f", "-c", "-U", "calls,name"]);
    command
        .arg(std::env::current_exe()?)
        .args(["role", name])
        .arg(path)
        .args(rest);
    command.arg(times.to_string());
    let output = command
        .output()
        .context("strace is missing; install the package strace")?;
    let text = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        bail!("strace failed: {text}");
    }
    let mut calls = Vec::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        if let [number, call] = fields.as_slice()
            && let Ok(number) = number.parse()
            && *call != "total"
        {
            calls.push(((*call).to_owned(), number));
        }
    }
    Ok(calls)
}
