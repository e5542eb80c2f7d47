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

use tenure::{Error, Guard, GuardState, LockContext, duration};
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

/// A lock that cannot be relied on any more.
pub struct Distrusted<'a> {
    /// The lock.
    pub context: Box<LockContext>,
    /// The reason.
    pub reason: String,
    /// The time the command has to end by itself.
    pub grace: Duration,
    /// Resolves if the command must be killed before that.
    pub over: Pin<Box<dyn Future<Output = ()> + 'a>>,
}

/// Watches for the moment a command must end because its lock cannot be relied on.
pub struct Ending<'a> {
    state: State<'a>,
}

enum State<'a> {
    /// All locks are held.
    Held(Pin<Box<dyn Future<Output = Distrusted<'a>> + 'a>>),
    /// The command was told to end, and is killed at `kill_at`.
    Stopping {
        kill_at: Instant,
        distrusted: Distrusted<'a>,
    },
    /// Nothing is left to be done.
    Killed,
}

impl<'a> Ending<'a> {
    /// Watches until this resolves, and ends the command then.
    pub fn when(distrusted: impl Future<Output = Distrusted<'a>> + 'a) -> Self {
        let state = State::Held(Box::pin(distrusted));
        Self { state }
    }

    /// Watches the locks of a command.
    pub fn of(guards: &'a [Guard]) -> Self {
        Self::when(in_doubt(guards))
    }

    /// Returns true if the command was told to end.
    pub fn has_begun(&self) -> bool {
        !matches!(self.state, State::Held(_))
    }

    /// Waits until something must happen to the command. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Order {
        let order = match &mut self.state {
            State::Held(distrusted) => {
                let distrusted = distrusted.await;
                let (grace, kill_at) = (distrusted.grace, Instant::now() + distrusted.grace);
                let left = duration::show(grace);
                let told = format!("was told to end (SIGTERM), and is killed in {left}");
                let stop = Order::Stop(lost(&distrusted, &told));
                let kill = kill(&distrusted);
                self.state = State::Stopping {
                    kill_at,
                    distrusted,
                };
                if !grace.is_zero() {
                    return stop;
                }
                kill
            }
            State::Stopping {
                kill_at,
                distrusted,
            } => {
                tokio::select! {
                    () = sleep_until(*kill_at) => {}
                    () = &mut distrusted.over => {}
                }
                kill(distrusted)
            }
            State::Killed => pending().await,
        };
        self.state = State::Killed;
        order
    }
}

fn kill(distrusted: &Distrusted<'_>) -> Order {
    Order::Kill(lost(distrusted, "was killed (SIGKILL)"))
}

fn lost(distrusted: &Distrusted<'_>, done: &str) -> Error {
    let reason = format!("{}; the command {done}", distrusted.reason);
    Error::lost(distrusted.context.clone(), reason)
}

/// Waits until one of the locks is in doubt, or lost.
async fn in_doubt(guards: &[Guard]) -> Distrusted<'_> {
    let (at, doubt) = first(guards, |guard| Box::pin(guard.in_doubt())).await;
    let guard = &guards[at];
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
        over: Box::pin(over(guards)),
    }
}

/// Waits until a lease that ends by itself is over.
async fn over(guards: &[Guard]) {
    let (at, _) = first(guards, |guard| Box::pin(guard.lost())).await;
    let guard = &guards[at];
    if guard.expires_in().is_none() || !guard.in_doubt().await.lost_in.is_zero() {
        // Broken, or taken away: the timer runs.
        pending::<()>().await;
    }
}

/// Resolves to the index of the first lock that `listen` resolves for, and what it resolves to.
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
