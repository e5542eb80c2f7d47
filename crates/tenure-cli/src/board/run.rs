//! `tenure board run`: a command for the next issue.

use std::fs::File;
use std::io::{Seek, Write};
use std::mem;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::MemfdFlags;
use tenure::{Error, Result, clock};
use tenure_board::issue::Issue;
use tenure_board::{BOARD_CLAIM_TTL, Board, Next, Take};
use tenure_lockfile::resource_of;
use tenure_os::cancel::Cancel;
use tenure_run::{Signals, Watchdog};

use super::claims::NextWait;
use super::failure::about;
use super::held::{Claimed, IssueClaim};
use super::open_board::{SharedBoard, for_owner};
use crate::cli::{BoardRun, Global};
use crate::commands::supervise::{command, exit_code, run_under};
use crate::context::Context;
use crate::report::{Failure, Report};
use crate::runtime;

/// Claims the next issue, runs the command, and says that the issue is done, or releases it.
pub fn run(_: &Global, options: BoardRun, report: Report) -> Result<ExitCode, Failure> {
    let watchdog = Watchdog::start()?;
    runtime::block_on(async {
        let mut command = command(&options.command)?;
        let mut signals = Signals::listen()?;
        let (board, asker, limit) = for_owner(
            &Context::for_board()?,
            &options.terms,
            options.wait,
            options.ttl,
        )?;
        let board = Arc::new(board);
        let claimed = claim_unless_interrupted(&board, &options, &mut signals);
        let claimed = claimed.await.map_err(|error| about(error, limit))?;
        command
            .env("TENURE_ISSUE", claimed.issue.id.as_str())
            .env("TENURE_TOKEN", claimed.token.to_string())
            .env("TENURE_OWNER", asker.owner.as_str())
            .env("TENURE_RESOURCE", claimed.issue.id.resource().as_str())
            // The token is not one of a lease around this.
            .env("TENURE_LEASE", "")
            .stdin(input(&claimed.issue)?);
        let ttl = options.ttl.unwrap_or(BOARD_CLAIM_TTL);
        let held = IssueClaim::renewed(board, claimed, ttl);
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

/// Returns the issue as the command reads it: a file that needs no reader.
fn input(issue: &Issue) -> Result<File> {
    let failed = |source| Error::io("pass on", "the issue", source);
    let file = rustix::fs::memfd_create("issue", MemfdFlags::CLOEXEC);
    let mut file = File::from(file.map_err(|error| failed(error.into()))?);
    let text = format!("{}\n", issue.shown());
    let written = file.write_all(text.as_bytes());
    written.and_then(|()| file.rewind()).map_err(failed)?;
    Ok(file)
}

/// Claims the next issue in a thread, as that waits for locks. A signal cancels the waits, and what
/// is claimed all the same is released.
async fn claim_unless_interrupted(
    board: &SharedBoard,
    options: &BoardRun,
    signals: &mut Signals,
) -> Result<Claimed> {
    let cancel = Cancel::default();
    let waiting = Board::clone(board).cancelled_by(cancel.clone());
    let (label, ttl, wait) = (options.label.clone(), options.ttl, options.wait);
    let claim = move || claim(&waiting, label.as_deref(), ttl, wait);
    let mut claiming = tokio::task::spawn_blocking(claim);
    let died = |_| Error::Internal("the thread that claims died".into());
    tokio::select! {
        biased;
        claimed = &mut claiming => claimed.map_err(died)?,
        _ = signals.interruption() => {
            cancel.cancel();
            if let Ok(claimed) = claiming.await.map_err(died)? {
                board.release(&claimed.issue.id, Some(claimed.token))?;
            }
            Err(Error::interrupted(resource_of(board.directory())))
        }
    }
}

fn claim(
    board: &Board,
    label: Option<&str>,
    ttl: Option<Duration>,
    wait: Option<Duration>,
) -> Result<Claimed> {
    let mut waiting = NextWait::new(wait, label.map(str::to_owned));
    loop {
        let (length, asked_ms) = (board.events_length()?, clock::boot_now());
        match board.next(label, Take::Claim(ttl))? {
            Next::Issue(issue) => {
                let token = issue.claim.as_ref().map_or(0, |claim| claim.token);
                return Ok(Claimed {
                    issue: *issue,
                    token,
                    asked_ms,
                });
            }
            Next::Nothing(unready) => {
                board.wait_for_events(length, waiting.left(&unready)?)?;
            }
        }
    }
}
