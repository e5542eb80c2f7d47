//! Ends the command when its hold cannot be relied on any more.
//!
//! | what happened | SIGTERM | SIGKILL |
//! |---|---|---|
//! | it cannot be relied on | at once | when its grace or its own time is over |
//! | it cannot, and there is no grace: this process was stopped, or the machine slept | | at once |
//!
//! Once begun, the end is completed even if all is well again: half a command is of no use.

use std::future::{Future, pending};
use std::pin::Pin;

use rustix::process::Signal;
use tenure_core::{Error, duration};
use tokio::time::{Instant, sleep_until};

use crate::held::Distrusted;

/// A watch for the moment at which a command must end because its hold cannot be relied on.
pub enum Ending<'a> {
    /// All is held.
    Held(Pin<Box<dyn Future<Output = Distrusted<'a>> + 'a>>),
    /// The command was told to end, and is killed at `kill_at`.
    Stopping {
        kill_at: Instant,
        distrusted: Distrusted<'a>,
    },
    /// The command was killed: nothing is left to be done.
    Killed,
}

impl<'a> Ending<'a> {
    /// Watches until `distrusted` resolves, and then ends the command.
    pub fn when(distrusted: impl Future<Output = Distrusted<'a>> + 'a) -> Self {
        Self::Held(Box::pin(distrusted))
    }

    /// Returns true if the command was told to end.
    pub fn has_begun(&self) -> bool {
        !matches!(self, Self::Held(_))
    }

    /// Waits until the command must get a signal; returns the signal, and the loss that is its
    /// reason. Dropping the future loses nothing.
    pub async fn next(&mut self) -> (Signal, Error) {
        if let Self::Held(distrusted) = self {
            let distrusted = distrusted.await;
            let (grace, kill_at) = (distrusted.grace, Instant::now() + distrusted.grace);
            let left = duration::show(grace);
            let told = format!("was told to end (SIGTERM), and is killed in {left}");
            let stop = (Signal::TERM, lost(&distrusted, &told));
            *self = Self::Stopping {
                kill_at,
                distrusted,
            };
            if !grace.is_zero() {
                return stop;
            }
        }
        let Self::Stopping {
            kill_at,
            distrusted,
        } = self
        else {
            return pending().await;
        };
        tokio::select! {
            () = sleep_until(*kill_at) => {}
            () = &mut distrusted.over => {}
        }
        let kill = (Signal::KILL, lost(distrusted, "was killed (SIGKILL)"));
        *self = Self::Killed;
        kill
    }
}

fn lost(distrusted: &Distrusted<'_>, done: &str) -> Error {
    let reason = format!("{}; the command {done}", distrusted.reason);
    Error::lost(distrusted.context.clone(), reason)
}
