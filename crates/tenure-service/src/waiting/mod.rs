//! Waits: told to the observer of the caller, and ended early by its cancellation.

mod blocked;
mod files;

use std::convert::Infallible;
use std::future::{Future, pending};
use std::time::Duration;

use tenure::{Error, LeaseId, LockSet, Query, Result, Session};
use tokio::time::{Instant, sleep_until, timeout};

use crate::Caller;
pub use blocked::{BlockedRequest, ends, is_run_unseen, unrecorded, what_blocks};
pub use files::{FileWait, WaitTeller, blocking, for_files};

/// The longest time that a cancelled wait takes for its clean-up.
const CLEANUP_MAX: Duration = Duration::from_secs(2);

/// A wait for a set of locks.
#[derive(Debug, Clone, Copy)]
pub struct Wait<'a> {
    /// The session that waits.
    pub session: &'a Session,
    /// The locks that it waits for.
    pub set: &'a LockSet,
    /// The longest wait.
    pub limit: Duration,
    /// The number of slots, if the request is for a slot.
    pub slots: Option<u32>,
    /// The lease that is to become exclusive, which does not block itself.
    pub own: Option<&'a LeaseId>,
}

/// Waits for a request and tells the observer. A wait that the caller cancels leaves neither lock
/// nor waiter behind.
pub async fn wait<T>(
    asking: impl Future<Output = Result<T>>,
    wait: Wait<'_>,
    caller: &Caller,
) -> Result<T> {
    // In this order, so that a lock that is free costs neither timer nor listing.
    tokio::select! {
        biased;
        answer = asking => return answer,
        () = caller.cancel().cancelled() => {}
        never = tell(wait, caller) => match never {},
    }
    wait_for_cleanup(wait.session).await;
    Err(cancelled(wait.set))
}

/// Lets a store finish the clean-up that the drop of a request left to its background, by a
/// listing, which waits for it. Otherwise, if this process ends now, the next in line would wait
/// until the dead waiter is noticed.
async fn wait_for_cleanup(session: &Session) {
    let keeper = session.keeper();
    if keeper.capabilities().ttl.is_some() {
        let query = Query::default().with_limit(1);
        drop(timeout(CLEANUP_MAX, keeper.list(&query)).await);
    }
}

fn cancelled(set: &LockSet) -> Error {
    match set.iter().next() {
        Some((first, _)) => Error::interrupted(first.clone()),
        None => Error::Internal("a wait for nothing was cancelled".into()),
    }
}

/// Tells the observer of the wait until it is dropped, which ends the wait for the observer, too.
async fn tell(wait: Wait<'_>, caller: &Caller) -> Infallible {
    let Some(mut observer) = caller.observer().begin_wait() else {
        return pending().await;
    };
    let began = Instant::now();
    let mut told = 0;
    loop {
        sleep_until(began + observer.when(told)).await;
        told += 1;
        let blocked = blocked::what_blocks(&wait).await;
        observer.show(blocked.as_ref(), began.elapsed(), wait.limit);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use tenure::store::Asker;
    use tenure::{Lease, LeaseId, Mode, Owner, Resource, SessionId, Timestamp, Token};

    /// Returns a lease of another owner.
    pub fn lease(resource: &str) -> Lease {
        let asker = Asker {
            session: SessionId::parse("s1").unwrap(),
            owner: Owner::parse("ana@desk").unwrap(),
            pid: 4242,
            host: "desk".into(),
            command: "cargo test".into(),
            agent: None,
        };
        Lease::granted(
            LeaseId::parse("l1").unwrap(),
            Resource::parse(resource).unwrap(),
            Mode::Write,
            Token::new(7).unwrap(),
            Timestamp::from_millis(0),
            asker,
        )
    }
}
