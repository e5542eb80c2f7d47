//! The advisory lock that a command runs under.
//!
//! | what happened | SIGTERM | SIGKILL |
//! |---|---|---|
//! | the server has not answered for 2 s | at once | half a second later: before the lock counts as lost, at 3 s |
//! | the lock is lost: its connection ended | at once | half a second later |
//! | this process is stopped | | two and a half seconds after the last answer, by its watchdog |
//!
//! While the server is only silent, it still holds the lock for us. A connection that ended has
//! freed the lock: another session may have it already, and is told apart by its token.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tenure::{Class, Error, LockContext, Result};
use tenure_postgres::advisory::{Guard, GuardState};
use tenure_run::{Distrusted, Held, Outcome, RunsOut};
use tokio::time::{Instant, sleep};

use crate::Observer;

/// The interval of looks at the guard, which tells by the clock how far it can be trusted.
const LOOK: Duration = Duration::from_millis(50);
/// The time that a guard may be unknown, which it is after one second without an answer. Then the
/// command must stop.
const UNKNOWN_MAX: Duration = Duration::from_secs(1);
/// The time without an answer after which the command must be dead.
const UNPROVED_MAX_MS: u64 = 2500;
/// The time the command has to end by itself.
const GRACE: Duration = Duration::from_millis(500);

/// An advisory lock, and what describes it in errors.
pub struct AdvisoryLock {
    pub(super) guard: Guard,
    pub(super) context: Box<LockContext>,
    pub(super) observer: Arc<dyn Observer>,
}

impl Held for AdvisoryLock {
    async fn distrusted(&self) -> Distrusted<'_> {
        let reason = tokio::select! {
            error = self.guard.lost() => reason(error),
            () = silent(&self.guard) => "the server does not answer".into(),
        };
        Distrusted {
            context: self.context.clone(),
            reason,
            grace: GRACE,
            over: Box::pin(pending()),
        }
    }

    fn command_dies_with_us(&self) -> bool {
        true
    }

    fn runs_out(&self) -> Option<RunsOut> {
        Some(RunsOut {
            context: self.context.clone(),
            kill_at_ms: self.guard.proved_at_ms() + UNPROVED_MAX_MS,
        })
    }

    async fn release(self, outcome: Outcome) -> Result<()> {
        match self.guard.release().await {
            Err(error) if error.class() == Class::Lost => Err(error),
            // If this fails, the lock is freed with the connection, as this process ends.
            Err(error) if !matches!(outcome, Outcome::NotStarted) => {
                self.observer.word(&error.to_string());
                Ok(())
            }
            _ => Ok(()),
        }
    }
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
