//! Errors of a board, each with its remedy on the command line.

use std::io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
use std::path::Path;

use tenure::{Error, Remedy, duration};
use tenure_board::BoardError;
use tenure_lockfile::strangers;

use crate::people::visible;
use crate::report::Failure;

/// Returns the failure of a command on a board, with its remedy. `asked` is the directory that the
/// user named.
pub fn about(failure: Failure, asked: Option<&Path>) -> Failure {
    let Failure::Error(error) = failure else {
        return failure;
    };
    let remedy = match &error {
        Error::Timeout { .. } => return timed_out(error),
        Error::Corrupt { problem, .. } if is_of_another_program(problem) => {
            "if another program made it, it is only listed here, and changed there; if not, correct \
             it, or use a board in another place: --dir DIR"
                .into()
        }
        Error::Corrupt { path, .. } if path.parent().is_some_and(|above| above.ends_with(".pending")) => {
            format!(
                "move it away, and the board is usable; the change in it is lost then: {}",
                path.display()
            )
            .into()
        }
        Error::Corrupt { path, problem } if problem.contains("conflict markers") => {
            match path.parent().filter(|_| path.ends_with("index.json")) {
                Some(board) => Remedy::of(
                    "put both sides together with: {board.verify repair=true board}",
                    &[&board.to_string_lossy()],
                ),
                None => format!("take one side, or put both together: {}", path.display()).into(),
            }
        }
        Error::Corrupt { path, .. } => {
            format!("correct it, or put back an older one: {}", path.display()).into()
        }
        // The board could not be made.
        Error::Io { action, path, .. }
            if *action == "make the directory" && !path.ends_with(".pending") =>
        {
            return Failure::Error(error);
        }
        Error::Io { source, .. }
            if matches!(source.kind(), PermissionDenied | ReadOnlyFilesystem) =>
        {
            "give this user write access to it; or use a board in another place, the same for all \
             who share it: --dir DIR, or store = \"user:\" in tenure.toml"
                .into()
        }
        Error::NotFound(_) => "look at what there is with: {board.ls}".into(),
        _ => match (error.fault(), asked) {
            (Some(BoardError::Missing { .. }), Some(asked)) => Remedy::of(
                "make one with: {board.init board}",
                &[&asked.to_string_lossy()],
            ),
            _ => return Failure::Error(error),
        },
    };
    Failure::with_remedy(error, remedy)
}

/// Returns true for the problem of an issue that another program wrote.
pub fn is_of_another_program(problem: &str) -> bool {
    problem.contains("it has another shape")
}

/// Returns a failure that names the holder of the lock, and three things to try.
fn timed_out(error: Error) -> Failure {
    let Error::Timeout {
        context,
        holders,
        limit,
        ..
    } = &error
    else {
        return Failure::Error(error);
    };
    let lock = &context.location;
    // A program that uses flock by itself leaves no record, but the kernel knows its process.
    let strangers = match holders.is_empty() {
        true => strangers(lock.as_ref()),
        false => Vec::new(),
    };
    let pid = holders.first().map(|holder| holder.pid);
    let pid = pid.or(strangers.first().map(|stranger| stranger.pid));
    let look = match pid {
        Some(pid) => format!("ps -fp {pid}"),
        None => context.without_record().unwrap_or_default(),
    };
    let known = strangers.iter().map(|stranger| {
        let command = visible(&stranger.command);
        format!("the kernel names it: pid {}, \"{command}\"; ", stranger.pid)
    });
    let known: String = known.collect();
    let longer = 2 * limit.as_secs().max(1);
    let remedy = format!(
        "{known}this usually means that another program works on the board ({lock}). Try:\n  \
         1. wait a few seconds, and try again\n  \
         2. look for a stuck process: {look}\n  \
         3. allow more time than {}: TENURE_LOCK_TIMEOUT={longer} tenure board …",
        duration::show(*limit)
    );
    Failure::with_remedy(error, remedy)
}
