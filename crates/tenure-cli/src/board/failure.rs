//! Errors of a board, each with its remedy on the command line.

use std::time::Duration;

use tenure::{Error, duration};
use tenure_files::strangers;

use crate::people::visible;
use crate::report::Failure;

/// Returns the failure of a command on a board that waits this long for locks.
pub fn about(error: Error, wait: Duration) -> Failure {
    let remedy = match &error {
        Error::Timeout { .. } | Error::Busy { .. } => return timed_out(error, wait),
        Error::Corrupt { path, .. } => {
            format!("correct it, or put back an older one: {}", path.display())
        }
        Error::NotFound(problem) if problem.starts_with("there is no board") => {
            "make one with: tenure board init, or name another with --dir".into()
        }
        Error::NotFound(problem) if problem.starts_with("nothing is left") => {
            "add something with: tenure board add TITLE".into()
        }
        Error::NotFound(_) => "look at what there is with: tenure board ls".into(),
        _ => return Failure::Error(error),
    };
    Failure::with_remedy(error, remedy)
}

/// Says who has the lock, and three things to try.
fn timed_out(error: Error, wait: Duration) -> Failure {
    let (Error::Timeout {
        context, holders, ..
    }
    | Error::Busy { context, holders }) = &error
    else {
        return Failure::Error(error);
    };
    let lock = &context.location;
    // A program that uses flock by itself leaves no record; the kernel knows its process.
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
        format!("it is held by pid {}, \"{command}\"; ", stranger.pid)
    });
    let known: String = known.collect();
    let longer = 2 * wait.max(Duration::from_secs(1)).as_secs();
    let remedy = format!(
        "{known}this usually means that another program works on the board ({lock}). Try:\n  \
         1. wait a few seconds, and try again\n  \
         2. look for a stuck process: {look}\n  \
         3. allow more time than {}: TENURE_LOCK_TIMEOUT={longer} tenure board …",
        duration::show(wait)
    );
    Failure::with_remedy(error, remedy)
}
