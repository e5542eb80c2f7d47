//! `tenure board run`: a command for the next issue.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Seek, Write};
use std::mem;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use rustix::fs::MemfdFlags;
use tenure::{Error, Result};
use tenure_api::board::{NextIssue, ShownIssue};
use tenure_api::text::Span;
use tenure_run::{Signals, Watchdog};

use super::{BoardSurface, BoardTerms};
use crate::cli::Global;
use crate::cli::values::{parse_ttl, parse_wait};
use crate::commands::supervise::{command, exit_code, run_under};
use crate::report::{Failure, Report};
use crate::runtime;
use crate::surface::cancelled_by_signals;

#[derive(Debug, Args)]
pub struct Run {
    /// Only issues with this label
    #[arg(long)]
    pub label: Option<String>,
    /// How long to wait for one to become ready (default: not at all)
    #[arg(long, value_name = "DURATION", value_parser = parse_wait)]
    pub wait: Option<Duration>,
    /// How long the claim lasts if this process is gone, from 1s to 24h (default: 15m)
    #[arg(long, value_name = "DURATION", value_parser = parse_ttl)]
    pub ttl: Option<Duration>,
    #[command(flatten)]
    pub terms: BoardTerms,
    /// The command; it gets TENURE_ISSUE, TENURE_TOKEN, and the issue on standard input
    #[arg(last = true, required = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

/// Shown after the options.
pub const HELP: &str = "\
Examples:
  tenure board run -- ./agent
  while tenure board run --wait 10m -- ./agent; do :; done
  tenure board run --label web -- sh -c 'jq -r .title; make test'

The command gets TENURE_ISSUE, TENURE_TOKEN, and the issue as JSON on standard
input. The claim is renewed while it runs. If it exits with 0 the issue is done;
else it is released with a note. If this process is killed, so is the command,
but not what the command started, and the claim ends by itself.

Exit codes: that of the command; 65 an issue cannot be read, and nothing else is
left; 66 nothing is left to do; 75 nothing is ready; 79 the claim was lost while
it ran.";

/// Claims the next issue and runs the command. Then marks the issue as done, or releases it.
pub fn run(global: &Global, options: Run, report: Report) -> Result<ExitCode, Failure> {
    let watchdog = Watchdog::start()?;
    runtime::block_on(async {
        let mut command = command(&options.command)?;
        let mut signals = Signals::listen()?;
        let on = BoardSurface::open(global, options.terms)?;
        let request = NextIssue {
            board: on.dir.clone(),
            label: options.label,
            claim: true,
            ttl: options.ttl.map(Span),
            wait: options.wait.map(Span),
        };
        let holding = on.surface.service.hold_next_issue(request, &on.caller);
        let holding = cancelled_by_signals(holding, &on.caller, &mut signals);
        let held = holding.await.map_err(|error| on.failure(error.into()));
        let (issue, held) = held?;
        let token = issue.claim.as_ref().map_or(0, |claim| claim.token);
        command
            .env("TENURE_ISSUE", issue.id.as_str())
            .env("TENURE_TOKEN", token.to_string())
            .env("TENURE_OWNER", on.caller.owner().as_str())
            .env("TENURE_RESOURCE", issue.id.resource().as_str())
            // The token belongs to no lease around this process.
            .env("TENURE_LEASE", "")
            .stdin(input(&issue)?);
        let mut ended = run_under(command, held, Some(watchdog), &mut signals, report).await?;
        if let Err(error) = mem::replace(&mut ended.released, Ok(())) {
            let failure = Failure::Error(error);
            report.late_failure(&failure);
            if ended.status.success() {
                return Ok(ExitCode::from(failure.code()));
            }
        }
        Ok(exit_code(ended, report))
    })
}

/// Returns the issue as the command's standard input: a file, which needs no process to feed it.
fn input(issue: &ShownIssue) -> Result<File> {
    let failed = |source| Error::io("pass on", "the issue", source);
    let file = rustix::fs::memfd_create("issue", MemfdFlags::CLOEXEC);
    let mut file = File::from(file.map_err(|error| failed(error.into()))?);
    let mut text = serde_json::to_string(issue).expect("an issue is always serialisable");
    text.push('\n');
    let written = file.write_all(text.as_bytes());
    written.and_then(|()| file.rewind()).map_err(failed)?;
    Ok(file)
}
