//! Work of a dropped future that runs on, and clean-up that is pending.
//!
//! # A dropped future
//!
//! If an acquire is dropped in the middle of a statement, its outcome is unknown, and ending the
//! connection would not tell it either. So the work runs on ([`run_to_end`]), now in a task of its
//! own, and when it has its answer it takes back a grant that no caller wants any more. It is never
//! done twice, and no statement is left behind that could still be granted after everything was
//! taken back.
//!
//! After a crash the grant stays: an offer or a waiter ends with its process, a lease when it
//! expires.
//!
//! # Asked again meanwhile
//!
//! A caller that met a passing error may ask again under the same id, before the clean-up is done.
//! The clean-up must not end the grant of the second request:
//!
//! 1. A request cancels the pending clean-up of its session and lease, then makes its step.
//! 2. A clean-up checks, once it has the row of the resource locked, that it is still pending, and
//!    only then takes back.
//!
//! If 2 comes first, 1 waits for its row and finds nothing; if 1 comes first, 2 changes nothing.
//!
//! # In the way of its own process
//!
//! A caller that drops a guard and asks again expects the resource to be free. A request that would
//! be told busy, or re-entry, because of a lease that this process is about to take back therefore
//! waits for that and asks once more.
//!
//! # A release without an answer
//!
//! A caller that got no answer to a release asks again, and finds the lease gone. The earlier try
//! is remembered here, so that the caller learns of a release, and not of a lost lease. Only the
//! last [`UNANSWERED_MAX`] are remembered.

use std::collections::{HashMap, HashSet, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::Mutex;
use std::task::{Context, Poll};

use tenure_core::internal::lock;
use tenure_core::{Error, LeaseId, Result, SessionId};
use tokio::sync::oneshot;

use super::inner::Inner;

/// The number of releases without an answer that are remembered.
const UNANSWERED_MAX: usize = 1000;

/// The clean-up that is pending: for each lease and session the number of the last ticket. A step
/// adds its ticket before it begins, so that the ticket is there whenever the step is dropped.
#[derive(Debug, Default)]
pub(super) struct PendingCleanup {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    last: u64,
    pending: HashMap<(LeaseId, SessionId), u64>,
    /// Leases that were abandoned, and may still be there.
    abandoned: HashSet<LeaseId>,
    /// Leases whose release had no answer, the latest last.
    unanswered: VecDeque<LeaseId>,
}

/// One clean-up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CleanupTicket {
    key: (LeaseId, SessionId),
    number: u64,
}

impl PendingCleanup {
    /// Adds a clean-up of a lease.
    pub(super) fn add(&self, lease: &LeaseId, session: &SessionId) -> CleanupTicket {
        let mut state = lock(&self.state);
        state.last += 1;
        let number = state.last;
        let key = (lease.clone(), session.clone());
        state.pending.insert(key.clone(), number);
        CleanupTicket { key, number }
    }

    pub(super) fn is_pending(&self, ticket: &CleanupTicket) -> bool {
        lock(&self.state).pending.get(&ticket.key) == Some(&ticket.number)
    }

    pub(super) fn done(&self, ticket: &CleanupTicket) {
        let mut state = lock(&self.state);
        if state.pending.get(&ticket.key) == Some(&ticket.number) {
            state.pending.remove(&ticket.key);
        }
    }

    /// Notes that a lease was abandoned.
    pub(super) fn abandon(&self, lease: &LeaseId) {
        lock(&self.state).abandoned.insert(lease.clone());
    }

    /// Notes that an abandoned lease is gone.
    pub(super) fn forget_abandoned(&self, lease: &LeaseId) {
        lock(&self.state).abandoned.remove(lease);
    }

    /// Notes that the release of a lease had no answer.
    pub(super) fn unanswered(&self, lease: &LeaseId) {
        let mut state = lock(&self.state);
        if !state.unanswered.contains(lease) {
            state.unanswered.push_back(lease.clone());
        }
        if state.unanswered.len() > UNANSWERED_MAX {
            state.unanswered.pop_front();
        }
    }

    /// Returns true if the release of a lease had no answer.
    pub(super) fn is_unanswered(&self, lease: &LeaseId) -> bool {
        lock(&self.state).unanswered.contains(lease)
    }

    /// Notes that the release of a lease has its answer.
    pub(super) fn answered(&self, lease: &LeaseId) {
        lock(&self.state).unanswered.retain(|other| other != lease);
    }

    /// Returns true if this process is about to end any of these leases.
    pub(super) fn has_any<'a>(&self, leases: impl IntoIterator<Item = &'a LeaseId>) -> bool {
        let state = lock(&self.state);
        let mut leases = leases.into_iter();
        let pending = |lease: &LeaseId| state.pending.keys().any(|(of, _)| of == lease);
        leases.any(|lease| state.abandoned.contains(lease) || pending(lease))
    }

    /// Cancels the clean-up of a lease that is asked for again. Returns true if there was one.
    pub(super) fn cancel(&self, lease: &LeaseId, session: &SessionId) -> bool {
        let key = (lease.clone(), session.clone());
        lock(&self.state).pending.remove(&key).is_some()
    }
}

/// Does work that has to run to its end. If this future is dropped the work continues in a task,
/// and its result is undone.
pub(super) async fn run_to_end<T, U>(
    store: &Inner,
    work: impl Future<Output = Result<T>> + Send + 'static,
    undo: impl FnOnce(Result<T>) -> U + Send + 'static,
) -> Result<T>
where
    T: Send + 'static,
    U: Future<Output = ()> + Send + 'static,
{
    let (tell, told) = oneshot::channel();
    let remaining = async move {
        if let Err(unwanted) = tell.send(work.await) {
            undo(unwanted).await;
        }
    };
    let running = RunToEnd {
        store,
        remaining: Some(Box::pin(remaining)),
        told,
        begun: false,
    };
    running.await
}

struct RunToEnd<'a, T> {
    store: &'a Inner,
    remaining: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    told: oneshot::Receiver<Result<T>>,
    /// False before the first poll, when nothing was done yet.
    begun: bool,
}

impl<T> Future for RunToEnd<'_, T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T>> {
        self.begun = true;
        if let Some(remaining) = &mut self.remaining {
            if remaining.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            self.remaining = None;
        }
        let told = self.told.try_recv();
        Poll::Ready(told.unwrap_or_else(|_| Err(Error::Internal("it came to nothing".into()))))
    }
}

impl<T> Drop for RunToEnd<'_, T> {
    fn drop(&mut self) {
        let Some(remaining) = self.remaining.take().filter(|_| self.begun) else {
            return;
        };
        // The channel is closed before the task begins: the work may end at once, and its result
        // would never be received.
        self.told.close();
        self.store.run_in_background(remaining);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_again_is_owed_no_more_and_a_later_debt_is_another() {
        let (lease, session) = (LeaseId::parse("a").unwrap(), SessionId::parse("s").unwrap());
        let pending_cleanup = PendingCleanup::default();
        let first = pending_cleanup.add(&lease, &session);
        assert!(pending_cleanup.is_pending(&first));
        assert!(pending_cleanup.cancel(&lease, &session));
        assert!(!pending_cleanup.is_pending(&first) && !pending_cleanup.cancel(&lease, &session));
        let second = pending_cleanup.add(&lease, &session);
        pending_cleanup.done(&first);
        assert!(
            pending_cleanup.is_pending(&second),
            "the first is not the second"
        );
        pending_cleanup.done(&second);
        assert!(!pending_cleanup.is_pending(&second));
    }

    #[test]
    fn only_the_last_releases_without_an_answer_are_remembered() {
        let lease = |number| LeaseId::parse(&format!("l{number}")).unwrap();
        let pending_cleanup = PendingCleanup::default();
        for number in 0..=UNANSWERED_MAX {
            pending_cleanup.unanswered(&lease(number));
            pending_cleanup.unanswered(&lease(number));
        }
        assert!(
            !pending_cleanup.is_unanswered(&lease(0)) && pending_cleanup.is_unanswered(&lease(1))
        );
        pending_cleanup.answered(&lease(1));
        assert!(
            !pending_cleanup.is_unanswered(&lease(1)) && pending_cleanup.is_unanswered(&lease(2))
        );
    }

    #[test]
    fn what_one_session_owes_another_does_not_strike_out() {
        let session = |name| SessionId::parse(name).unwrap();
        let lease = LeaseId::parse("a").unwrap();
        let pending_cleanup = PendingCleanup::default();
        let ticket = pending_cleanup.add(&lease, &session("one"));
        assert!(!pending_cleanup.cancel(&lease, &session("two")));
        assert!(pending_cleanup.is_pending(&ticket));
    }
}
