//! Ends the command when its lock cannot be relied on any more.
//!
//! | what happened | SIGTERM | SIGKILL |
//! |---|---|---|
//! | the lock is lost: broken, or taken away | at once | 5 s later, or when its lease is over |
//! | its lease could not be renewed for two thirds of its time | at once | at five sixths |
//! | both passed unseen, while this process was stopped or the machine slept | | at once |
//!
//! Until five sixths of its time nobody else can have been granted the lock. Once begun, the end is
//! completed even if the lease can be renewed after all: half a command is of no use.

use std::future::{Future, pending, poll_fn};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use tenure::{Doubt, Error, Guard, GuardState, LockContext, duration};
use tokio::time::{Instant, sleep_until};

/// The time the command has to end by itself once its lock is lost.
const GRACE: Duration = Duration::from_secs(5);

/// An action on the command, and its reason.
#[derive(Debug)]
pub enum Order {
    /// The command gets SIGTERM.
    Stop(Error),
    /// The command gets SIGKILL.
    Kill(Error),
}

/// Watches for the moment a command must end because its lock cannot be relied on.
pub trait EndWatch {
    /// Returns true if the command was told to end.
    fn has_begun(&self) -> bool;

    /// Waits until something must happen to the command. Dropping the future loses nothing.
    fn next(&mut self) -> impl Future<Output = Order>;
}

/// Resolves to the index of the first lock with a problem, and the problem.
type First<'a, T> = Pin<Box<dyn Future<Output = (usize, T)> + 'a>>;

/// Watches the locks of a command.
pub struct Ending<'a> {
    guards: &'a [Guard],
    state: State<'a>,
}

enum State<'a> {
    /// All locks are held.
    Held(First<'a, Doubt>),
    /// The command was told to end for this reason, and is killed at `kill_at`.
    Stopping {
        kill_at: Instant,
        context: Box<LockContext>,
        reason: String,
        /// `None` once a loss was seen that leaves the timer as it is.
        losses: Option<First<'a, Error>>,
    },
    /// Nothing is left to be done.
    Killed,
}

impl<'a> Ending<'a> {
    /// Starts to watch.
    pub fn of(guards: &'a [Guard]) -> Self {
        let doubts = first(guards, |guard| Box::pin(guard.in_doubt()));
        let state = State::Held(doubts);
        Self { guards, state }
    }

    fn begin(&mut self, at: usize, doubt: Doubt) -> Order {
        let guard = &self.guards[at];
        let (reason, left) = match (guard.state(), guard.expires_in()) {
            (GuardState::Lost, None) => (doubt.problem, GRACE),
            (GuardState::Lost, Some(_)) => (doubt.problem, doubt.lost_in.min(GRACE)),
            _ => (doubt.to_string(), doubt.lost_in),
        };
        self.state = State::Stopping {
            kill_at: Instant::now() + left,
            context: doubt.context.clone(),
            reason: reason.clone(),
            losses: Some(first(self.guards, |guard| Box::pin(guard.lost()))),
        };
        if left.is_zero() {
            return self.kill();
        }
        let left = duration::show(left);
        let reason =
            format!("{reason}; the command was told to end (SIGTERM), and is killed in {left}");
        Order::Stop(Error::lost(doubt.context, reason))
    }

    fn kill(&mut self) -> Order {
        match std::mem::replace(&mut self.state, State::Killed) {
            State::Stopping {
                context, reason, ..
            } => Order::Kill(Error::lost(
                context,
                format!("{reason}; the command was killed (SIGKILL)"),
            )),
            _ => Order::Kill(Error::Internal("a command was killed for no reason".into())),
        }
    }
}

impl EndWatch for Ending<'_> {
    fn has_begun(&self) -> bool {
        !matches!(self.state, State::Held(_))
    }

    async fn next(&mut self) -> Order {
        match &mut self.state {
            State::Held(doubts) => {
                let (at, doubt) = doubts.await;
                self.begin(at, doubt)
            }
            State::Stopping {
                kill_at, losses, ..
            } => {
                tokio::select! {
                    () = sleep_until(*kill_at) => {}
                    // The timer does not count sleep; the lease does.
                    () = over(self.guards, losses) => {}
                }
                self.kill()
            }
            State::Killed => pending().await,
        }
    }
}

/// Waits until a lease that ends by itself is over.
async fn over(guards: &[Guard], losses: &mut Option<First<'_, Error>>) {
    let Some(first) = losses else {
        return pending().await;
    };
    let (at, _) = first.await;
    *losses = None;
    let guard = &guards[at];
    if guard.expires_in().is_none() || !guard.in_doubt().await.lost_in.is_zero() {
        // Broken, or taken away: the timer runs.
        pending::<()>().await;
    }
}

/// Returns a future of the first lock that `listen` resolves for.
fn first<'a, T: 'a>(
    guards: &'a [Guard],
    listen: impl Fn(&'a Guard) -> Pin<Box<dyn Future<Output = T> + 'a>>,
) -> First<'a, T> {
    let mut heard: Vec<_> = guards.iter().map(listen).collect();
    Box::pin(poll_fn(move |context| {
        for (at, heard) in heard.iter_mut().enumerate() {
            if let Poll::Ready(said) = heard.as_mut().poll(context) {
                return Poll::Ready((at, said));
            }
        }
        Poll::Pending
    }))
}
