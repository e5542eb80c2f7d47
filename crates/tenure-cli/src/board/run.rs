//! `tenure board run`: a command for the next issue.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Seek, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use rustix::fs::MemfdFlags;
use tenure::{Error, Result, clock};
use tenure_files::{BOARD_CLAIM_TTL, Issue, Next, Take, resource_of};

use super::claims::NextWait;
use super::failure::about;
use super::open_board::{SharedBoard, for_owner};
use super::renewing::Renewing;
use crate::cli::{BoardRun, Global};
use crate::report::{Failure, Report};
use crate::run::{Child, Ended, Launch};
use crate::signals::Signals;
use crate::{exit, runtime};

/// The longest time between two looks whether the wait was interrupted.
const INTERRUPTED_EVERY: Duration = Duration::from_millis(100);

/// An issue that was claimed for a command.
struct Claimed {
    issue: Issue,
    token: u64,
    /// The time when it was asked for, in milliseconds since boot.
    asked_ms: u64,
}

/// Claims the next issue, runs the command, and says that the issue is done, or releases it.
pub fn run(_: &Global, options: BoardRun, report: Report) -> Result<ExitCode, Failure> {
    runtime::block_on(async {
        let mut signals = Signals::listen()?;
        let (board, asker, limit) = for_owner(&options.terms, options.wait, options.ttl)?;
        let board = Arc::new(board);
        let claimed = claim_unless_interrupted(&board, &options, &mut signals);
        let claimed = claimed.await.map_err(|error| about(error, limit))?;
        let environment = [
            ("TENURE_ISSUE", OsString::from(claimed.issue.id.as_str())),
            ("TENURE_TOKEN", claimed.token.to_string().into()),
            ("TENURE_OWNER", asker.owner.as_str().into()),
            // The token is not one of a lease around this.
            (
                "TENURE_RESOURCE",
                claimed.issue.id.resource().as_str().into(),
            ),
            ("TENURE_LEASE", OsString::new()),
        ];
        let launch = Launch {
            command: &options.command,
            environment: &environment,
            guards: &[],
            // If we are killed, nobody renews the claim any more.
            close: true,
            input: Some(input(&claimed.issue)?),
        };
        let mut child = match Child::spawn(&launch) {
            Ok(child) => child,
            Err(failure) => {
                let note = "the command could not be started";
                let _ = board.release_with_note(&claimed.issue.id, claimed.token, note);
                return Err(failure);
            }
        };
        let ttl = options.ttl.unwrap_or(BOARD_CLAIM_TTL);
        let renewing =
            Renewing::start(&board, &claimed.issue, claimed.token, ttl, claimed.asked_ms);
        let ended = child
            .supervise(&mut signals, renewing.ending(), report)
            .await;
        // Nothing is renewed after this.
        drop(renewing);
        match finish(&board, &claimed, ended) {
            Err(error) if ended.code == 0 => {
                let failure = Failure::Error(error);
                report.late_failure(&failure);
                Ok(ExitCode::from(failure.code()))
            }
            finished => {
                if let Err(error) = finished {
                    report.late_failure(&Failure::Error(error));
                }
                Ok(child.conclude(ended, async { None }, report).await)
            }
        }
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

/// Says what became of the issue. One whose claim was lost is somebody else's.
fn finish(board: &SharedBoard, claimed: &Claimed, ended: Ended) -> Result<()> {
    let Claimed { issue, token, .. } = claimed;
    let release = |note: String| board.release_with_note(&issue.id, *token, &note).map(drop);
    if ended.lost {
        return Ok(());
    }
    if board
        .is_ended(&issue.id, *token)
        .is_ok_and(|is_ended| is_ended)
    {
        // The command itself said what becomes of it.
        return Ok(());
    }
    if ended.code != 0 {
        return release(match i32::from(ended.code) - exit::SIGNAL_BASE {
            signal if signal > 0 => format!("the command was ended by signal {signal}"),
            _ => format!("the command ended with {}", ended.code),
        });
    }
    let done = board.done(&issue.id, Some(*token)).map(drop);
    if let Err(error) = &done {
        let note = format!("the command ended well, but the issue is not done: {error}");
        // The error that is reported is the one that kept it from being done.
        let _ = release(note);
    }
    done
}

/// Claims the next issue in a thread, as that waits for locks.
async fn claim_unless_interrupted(
    board: &SharedBoard,
    options: &BoardRun,
    signals: &mut Signals,
) -> Result<Claimed> {
    let is_interrupted = Arc::new(AtomicBool::new(false));
    let (shared, stop) = (Arc::clone(board), Arc::clone(&is_interrupted));
    let (label, ttl, wait) = (options.label.clone(), options.ttl, options.wait);
    let claim = move || claim(&shared, label.as_deref(), ttl, wait, &stop);
    let mut claiming = tokio::task::spawn_blocking(claim);
    let died = |_| Error::Internal("the thread that claims died".into());
    tokio::select! {
        biased;
        claimed = &mut claiming => claimed.map_err(died)?,
        _ = signals.interruption() => {
            is_interrupted.store(true, Relaxed);
            if let Ok(claimed) = claiming.await.map_err(died)? {
                board.release(&claimed.issue.id, Some(claimed.token))?;
            }
            Err(interrupted(board))
        }
    }
}

fn claim(
    board: &SharedBoard,
    label: Option<&str>,
    ttl: Option<Duration>,
    wait: Option<Duration>,
    stop: &AtomicBool,
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
                let mut left = waiting.left(&unready)?;
                while !left.is_zero() && !stop.load(Relaxed) {
                    let step = left.min(INTERRUPTED_EVERY);
                    if board.wait_for_events(length, step)? {
                        break;
                    }
                    left -= step;
                }
            }
        }
        if stop.load(Relaxed) {
            return Err(interrupted(board));
        }
    }
}

fn interrupted(board: &SharedBoard) -> Error {
    let resource = resource_of(board.directory());
    Error::Interrupted {
        act: "waiting for",
        resource,
    }
}
