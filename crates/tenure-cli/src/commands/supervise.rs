//! A command that the user named, run while something is held.

use std::ffi::OsString;
use std::process::{Command, ExitCode};

use tenure::Error;
use tenure_run::{Ended, Held, Signals, Watchdog};

use crate::exit;
use crate::report::{Failure, Report};

/// Returns the command that the user wants to be run.
pub fn command(words: &[OsString]) -> tenure::Result<Command> {
    let [program, arguments @ ..] = words else {
        return Err(Error::BadInput("there is no command to run".into()));
    };
    let mut command = Command::new(program);
    command.args(arguments);
    Ok(command)
}

/// Runs a command while something is held, and reports at once if that is lost meanwhile.
pub async fn run_under(
    command: Command,
    held: impl Held,
    watchdog: Option<Watchdog>,
    signals: &mut Signals,
    report: Report,
) -> Result<Ended, Failure> {
    let on_loss = |error| report.late_failure(&Failure::Error(error));
    Ok(tenure_run::run(command, held, watchdog, signals, on_loss).await?)
}

/// Returns the exit code of a command that has ended. If the keyboard ended the command, it ends
/// this process, too, by the same signal.
pub fn exit_code(ended: Ended, report: Report) -> ExitCode {
    if ended.is_lost {
        return ExitCode::from(exit::LOST);
    }
    if let Err(error) = ended.released {
        report.late_failure(&Failure::Error(error));
        return ExitCode::from(exit::LOST);
    }
    if let Some(signal) = ended.keyboard {
        signal.repeat();
    }
    ExitCode::from(exit::of_command(ended.status))
}
