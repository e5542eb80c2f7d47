//! The locks that a command runs under.
//!
//! | what happened | SIGTERM | SIGKILL |
//! |---|---|---|
//! | a lock is lost: broken, or taken away | at once | 5 s later, or when its lease is over |
//! | its lease could not be renewed for two thirds of its time | at once | at five sixths |
//! | both passed unseen, while the machine slept | | at once |
//! | this process is stopped | | at five sixths, by its watchdog |
//!
//! Until five sixths of its time no other session can have been granted the lock.

use std::future::{Future, pending, poll_fn};
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use tenure::{Class, Guard, GuardState, Result, Session};
use tenure_run::{Distrusted, GRACE, Held, Outcome, RunsOut};

use super::at_least::Kept;
use crate::Observer;

/// The locks of a command, and the sessions that hold them.
pub struct RunLocks {
    /// The locks, in the order in which they were acquired.
    pub(super) guards: Vec<Guard>,
    /// The holds that stay after the run, unless the command could not be started.
    pub(super) kept: Option<Kept>,
    /// The sessions of the locks. They are dropped after the guards, and so end after all that they
    /// hold.
    pub(super) sessions: Vec<Session>,
    /// True if the command dies with us, and does not inherit them.
    pub(super) close: bool,
    pub(super) observer: Arc<dyn Observer>,
}

impl Held for RunLocks {
    async fn distrusted(&self) -> Distrusted<'_> {
        let (at, doubt) = first(&self.guards, |guard| Box::pin(guard.in_doubt())).await;
        let guard = &self.guards[at];
        let (reason, grace) = match (guard.state(), guard.expires_in()) {
            (GuardState::Lost, None) => (doubt.problem, GRACE),
            (GuardState::Lost, Some(_)) => (doubt.problem, doubt.lost_in.min(GRACE)),
            _ => (doubt.to_string(), doubt.lost_in),
        };
        Distrusted {
            context: doubt.context,
            reason,
            grace,
            // The timer does not count sleep; the lease does.
            over: Box::pin(over(&self.guards)),
        }
    }

    fn command_dies_with_us(&self) -> bool {
        // A lease runs out by itself.
        self.close || self.guards.iter().any(|guard| guard.expires_in().is_some())
    }

    fn runs_out(&self) -> Option<RunsOut> {
        let runs_out = |guard: &Guard| {
            Some(RunsOut {
                context: guard.context(),
                kill_at_ms: guard.lost_at_ms()?,
            })
        };
        let all = self.guards.iter().filter_map(runs_out);
        all.min_by_key(|runs_out| runs_out.kill_at_ms)
    }

    fn descriptors(&self) -> impl Iterator<Item = Result<OwnedFd>> {
        let guards = self.guards.iter().filter(|_| !self.close);
        guards.filter_map(|guard| guard.descriptor().transpose())
    }

    async fn release(self, outcome: Outcome) -> Result<()> {
        let released = release(self.guards, &self.observer).await;
        if let (Outcome::NotStarted, Some(kept)) = (outcome, self.kept) {
            kept.give_back(&self.observer).await;
        }
        // The sessions end now, before this process may end itself by the signal that ended the
        // command.
        drop(self.sessions);
        released
    }
}

/// Waits until a lease that ends by itself is over.
async fn over(guards: &[Guard]) {
    let (at, _) = first(guards, |guard| Box::pin(guard.lost())).await;
    let guard = &guards[at];
    if guard.expires_in().is_none() || !guard.in_doubt().await.lost_in.is_zero() {
        // The lock was broken or taken away: the timer of the grace decides.
        pending::<()>().await;
    }
}

/// Resolves when `listen` first resolves for a lock, to the index of that lock and the value.
fn first<'a, T: 'a>(
    guards: &'a [Guard],
    listen: impl Fn(&'a Guard) -> Pin<Box<dyn Future<Output = T> + 'a>>,
) -> impl Future<Output = (usize, T)> {
    let mut heard: Vec<_> = guards.iter().map(listen).collect();
    poll_fn(move |context| {
        for (at, heard) in heard.iter_mut().enumerate() {
            if let Poll::Ready(said) = heard.as_mut().poll(context) {
                return Poll::Ready((at, said));
            }
        }
        Poll::Pending
    })
}

/// Releases the locks in reverse order. Fails if a lock turned out to be lost.
pub(super) async fn release(guards: Vec<Guard>, observer: &Arc<dyn Observer>) -> Result<()> {
    let mut released = Ok(());
    for guard in guards.into_iter().rev() {
        if let Err(failed) = guard.release().await {
            match failed.source.class() {
                Class::Lost | Class::NotAllowed => released = Err(failed.source),
                // Dropping the guard gives the lock up all the same.
                _ => observer.word(&failed.to_string()),
            }
        }
    }
    released
}
