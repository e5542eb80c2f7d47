//! Ends the command when its advisory lock cannot be relied on any more.
//!
//! | what happened | SIGTERM | SIGKILL |
//! |---|---|---|
//! | the server has not answered for 2 s | at once | half a second later: before the lock counts as lost, at 3 s |
//! | the lock is lost: its connection ended | at once | half a second later |
//!
//! While the server has only gone silent it still holds the lock for us. A connection that ended has freed
//! it: another may have it already, and is told apart by its token.

use std::future::pending;
use std::time::Duration;

use tenure::{Error, LockContext};
use tenure_postgres::advisory::{Guard, GuardState};
use tokio::time::{Instant, sleep};

use crate::run::{Distrusted, Ending};

/// The interval of looks at the guard, which tells by the clock how far it can be trusted.
const LOOK: Duration = Duration::from_millis(50);
/// A guard is unknown after one second without an answer. After another one the command must stop.
const UNKNOWN_MAX: Duration = Duration::from_secs(1);
/// The time the command has to end by itself.
const GRACE: Duration = Duration::from_millis(500);

/// Watches the lock of a command; `context` describes the lock in errors.
pub fn ending(guard: &Guard, context: Box<LockContext>) -> Ending<'_> {
    Ending::when(async {
        let reason = tokio::select! {
            error = guard.lost() => reason(error),
            () = silent(guard) => "the server does not answer".into(),
        };
        Distrusted {
            context,
            reason,
            grace: GRACE,
            over: Box::pin(pending()),
        }
    })
}

async fn silent(guard: &Guard) {
    let mut since = None;
    loop {
        sleep(LOOK).await;
        since = match guard.state() {
            GuardState::Unknown => since.or(Some(Instant::now())),
            GuardState::Held | GuardState::Lost => None,
        };
        if since.is_some_and(|since| since.elapsed() >= UNKNOWN_MAX) {
            return;
        }
    }
}

fn reason(error: Error) -> String {
    match error {
        Error::Lost { reason, .. } => reason,
        other => other.to_string(),
    }
}
