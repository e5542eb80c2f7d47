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
use tokio::time::{Instant, sleep, sleep_until};

use crate::run::{EndWatch, Order};

/// The interval of looks at the guard, which tells by the clock how far it can be trusted.
const LOOK: Duration = Duration::from_millis(50);
/// A guard is unknown after one second without an answer. After another one the command must stop.
const UNKNOWN_MAX: Duration = Duration::from_secs(1);
/// The time the command has to end by itself.
const GRACE: Duration = Duration::from_millis(500);

/// Watches the lock of a command.
pub struct Ending<'a> {
    guard: &'a Guard,
    lock_context: Box<LockContext>,
    state: State,
}

enum State {
    Held,
    Stopping { kill_at: Instant, reason: String },
    Killed,
}

impl<'a> Ending<'a> {
    /// Starts to watch; `lock_context` describes the lock in errors.
    pub fn of(guard: &'a Guard, lock_context: Box<LockContext>) -> Self {
        let state = State::Held;
        Self {
            guard,
            lock_context,
            state,
        }
    }

    /// Waits until the lock cannot be relied on any more, and returns the reason.
    async fn distrusted(&self) -> String {
        tokio::select! {
            error = self.guard.lost() => reason(error),
            () = self.silent() => "the server does not answer".into(),
        }
    }

    async fn silent(&self) {
        let mut since = None;
        loop {
            sleep(LOOK).await;
            since = match self.guard.state() {
                GuardState::Unknown => since.or(Some(Instant::now())),
                GuardState::Held | GuardState::Lost => None,
            };
            if since.is_some_and(|since| since.elapsed() >= UNKNOWN_MAX) {
                return;
            }
        }
    }

    fn lost(&self, reason: &str, done: &str) -> Error {
        Error::lost(
            self.lock_context.clone(),
            format!("{reason}; the command {done}"),
        )
    }
}

impl EndWatch for Ending<'_> {
    fn has_begun(&self) -> bool {
        !matches!(self.state, State::Held)
    }

    async fn next(&mut self) -> Order {
        match &self.state {
            State::Held => {
                let reason = self.distrusted().await;
                let done = "was told to end (SIGTERM), and is killed in 500ms";
                let order = Order::Stop(self.lost(&reason, done));
                let kill_at = Instant::now() + GRACE;
                self.state = State::Stopping { kill_at, reason };
                order
            }
            State::Stopping { kill_at, reason } => {
                let reason = reason.clone();
                sleep_until(*kill_at).await;
                self.state = State::Killed;
                Order::Kill(self.lost(&reason, "was killed (SIGKILL)"))
            }
            State::Killed => pending().await,
        }
    }
}

fn reason(error: Error) -> String {
    match error {
        Error::Lost { reason, .. } => reason,
        other => other.to_string(),
    }
}
