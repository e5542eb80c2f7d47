//! The report of a wait to people. On a terminal: the holder, once, and below it one live line.
//! Elsewhere: sparse lines that say both.

mod document;
mod files;
mod interruption;
mod screen;
mod words;

use std::convert::Infallible;
use std::pin::pin;
use std::time::Duration;

use tenure::{Error, LockSet, Query, Result, Session};
use tenure_run::Signals;
use tenure_service::observer::WaitObserver;
pub use tenure_service::waiting::{Wait, what_blocks};
use tokio::time::{Instant, sleep_until, timeout};

pub use files::{FileWaits, WaitedFor};
pub use interruption::Interruption;
pub use screen::Screen;

/// The longest time that an interrupted wait takes to end.
const CLEANUP_MAX: Duration = Duration::from_secs(2);

/// Waits for the request, reports the wait to people, and gives up when interrupted.
///
/// A signal drops the request, which leaves neither lock nor waiter behind.
pub async fn wait<T>(
    asking: impl Future<Output = Result<T>>,
    wait: Wait<'_>,
    signals: &mut Signals,
) -> Result<T> {
    {
        let asking = pin!(asking);
        let telling = pin!(tell(wait));
        // In this order, so that a lock that is free costs neither timer nor listing.
        tokio::select! {
            biased;
            answer = asking => return answer,
            _ = signals.interruption() => {}
            never = telling => match never {},
        }
    }
    wait_for_cleanup(wait.session, signals).await;
    Err(interrupted(wait.set))
}

/// Lets a store finish the clean-up that the drop of a request left to its background: otherwise,
/// as this process ends now, the next in line would wait until a dead waiter is noticed. A look
/// waits for it. A second signal ends this wait.
async fn wait_for_cleanup(session: &Session, signals: &mut Signals) {
    let keeper = session.keeper();
    if keeper.store().capabilities().ttl.is_none() {
        return;
    }
    let query = Query::default().with_limit(1);
    tokio::select! {
        _ = timeout(CLEANUP_MAX, keeper.list(&query)) => {}
        _ = signals.interruption() => {}
    }
}

fn interrupted(set: &LockSet) -> Error {
    match set.iter().next() {
        Some((first, _)) => Error::interrupted(first.clone()),
        None => Error::Internal("a wait for nothing was interrupted".into()),
    }
}

/// Reports the wait until it is dropped, which also removes the live line.
async fn tell(wait: Wait<'_>) -> Infallible {
    let began = Instant::now();
    let mut screen = Screen::of_process();
    let mut told = 0;
    loop {
        sleep_until(began + screen.when(told)).await;
        told += 1;
        let blocked = what_blocks(&wait).await;
        screen.show(blocked.as_ref(), began.elapsed(), wait.limit);
    }
}
