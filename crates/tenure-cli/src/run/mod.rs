//! `tenure run`: takes locks, runs a command under them, releases them.
//!
//! # Invariants
//!
//! - From the first grant to the end of the command the locks are held by this process, and by
//!   the command too unless `--close` says otherwise: it never runs unprotected.
//! - Signals are listened to before the first lock is asked for, so that none is lost between
//!   the grant and the start of the command.
//! - Whatever happens after the grant, the locks are released before this process ends.

mod acquire;
mod child;
mod environment;
mod job_control;
mod nesting;
mod signals;
mod waiting;

use std::process::ExitCode;
use std::time::Duration;

use tenure::request::command_line;
use tenure::{Guard, LockSet, Options, SessionOptions};

use crate::cli::{self, Global};
use crate::context::{Context, owner};
use crate::exit;
use crate::report::{Failure, Report, word};
use child::{Child, Launch};
use nesting::Ancestors;
use signals::Signals;
pub use signals::unavailable;

/// How long `run` waits unless something says otherwise.
const WAIT_DEFAULT: Duration = Duration::from_secs(600);

/// Runs a command under locks.
///
/// One thread: the command is a child of this very thread, as `--close` needs it.
pub fn run(global: &Global, options: cli::Run, report: Report) -> Result<ExitCode, Failure> {
    let context = Context::new(global)?;
    signals::require_descriptors()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(signals::unavailable)?;
    runtime.block_on(under_locks(&context, options, report))
}

async fn under_locks(
    context: &Context,
    options: cli::Run,
    report: Report,
) -> Result<ExitCode, Failure> {
    let mut signals = Signals::listen()?;
    let keeper = context.keeper(WAIT_DEFAULT).await?;
    let ancestors = Ancestors::of_process(&keeper).await?;
    let wanted = options.resources.into_iter();
    let wanted = wanted.map(|wanted| (wanted.resource, wanted.mode.unwrap_or(options.mode)));
    let wanted = LockSet::new(&keeper.settings().ranking, wanted);
    let plan = match options.reuse {
        true => ancestors.reuse(&wanted, &keeper)?,
        false => nesting::Plan::take_all(wanted.clone()),
    };
    let session = keeper.session(SessionOptions {
        owner: owner(options.owner)?,
        command: Some(command_line(&options.command)),
        ancestors: ancestors.held(),
    });
    let session = session.await?;
    let asked = Options {
        wait: if options.no_wait {
            Some(Duration::ZERO)
        } else {
            options.wait
        },
        purpose: options.purpose,
        metadata: options.meta,
    };
    let guards = acquire::acquire(&session, &plan.missing, &asked, &mut signals).await;
    let guards = guards.map_err(|error| match error.class() {
        tenure::Class::Busy => Failure::BusyAs(error, options.busy_exit),
        _ => Failure::Error(error),
    })?;
    let environment = environment::of_command(&session, &wanted, &guards, &plan.reused, &ancestors);
    let child = Child::spawn(&Launch {
        command: &options.command,
        environment: &environment,
        guards: &guards,
        close: options.close,
    });
    let mut child = match child {
        Ok(child) => child,
        Err(failure) => {
            release(guards).await;
            return Err(failure);
        }
    };
    let on_loss = |error| report.late_failure(&Failure::Error(error));
    let ended = child.supervise(&mut signals, &guards, on_loss).await;
    let lost_late = release(guards).await;
    if let Some(error) = lost_late.filter(|_| !ended.lost) {
        on_loss(error);
        return Ok(ExitCode::from(exit::LOST));
    }
    if ended.lost {
        return Ok(ExitCode::from(exit::LOST));
    }
    child.follow(ended);
    Ok(ExitCode::from(ended.code))
}

/// Releases in reverse order, and says whether a lock turned out to be lost.
async fn release(guards: Vec<Guard>) -> Option<tenure::Error> {
    let mut lost = None;
    for guard in guards.into_iter().rev() {
        if let Err(failed) = guard.release().await {
            match failed.source.class() {
                tenure::Class::Lost | tenure::Class::NotAllowed => lost = Some(failed.source),
                // Dropping the guard gives the lock up all the same.
                _ => word(&failed.to_string()),
            }
        }
    }
    lost
}
