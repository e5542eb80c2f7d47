//! What a drop leaves behind: work that goes on, and what it owes.
//!
//! # A dropped future
//!
//! Whoever drops an acquire in the middle of a statement does not know whether it is granted. Ending the connection
//! would not tell either. So the work goes on where it is ([`carry`]), now in a task of its own, and when it has
//! its answer it takes back what nobody wants any more. It is never done twice, and no statement is
//! left behind that could still be granted after everything was taken back.
//!
//! A crash leaves what was granted: an offer or a waiter ends with its process, a lease when its time is over.
//!
//! # Asked again meanwhile
//!
//! What is owed may be asked for again, under the same id, before it is paid: a caller that met a passing error does. The
//! payment must not end what the second request gets:
//!
//! 1. Whoever asks strikes out what its session owes of the lease, then makes its step.
//! 2. Whoever pays looks when it has the row of the resource locked whether it is still owed, and only then takes back.
//!
//! If 2 comes first, 1 waits for its row and finds nothing; if 1 comes first, 2 leaves all as it is.
//!
//! # In the way of its own process
//!
//! Whoever drops a guard and asks again expects it to be free. So a request that would be told busy, or re-entry, because
//! of something that this process is about to take back, waits for that and asks once more.
//!
//! # A release without an answer
//!
//! Whoever asked for a release and got no answer asks again, and finds the lease gone. That it asked before is known here, so
//! that it is told of a release, and not of a lease that it lost. Only the last [`UNANSWERED_MAX`] are remembered.

use std::collections::{HashMap, HashSet, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tenure_core::{Error, LeaseId, Result, SessionId};
use tokio::sync::oneshot;

use super::inner::Inner;

/// So many releases without an answer are remembered.
const UNANSWERED_MAX: usize = 1000;

/// What is owed: of each lease and session the number of the last debt. While a step is made its debt is noted
/// already, so that it is there whenever that is dropped.
#[derive(Debug, Default)]
pub(super) struct Debts {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    last: u64,
    owed: HashMap<(LeaseId, SessionId), u64>,
    /// Leases that were let go of, and may still be there.
    let_go: HashSet<LeaseId>,
    /// Leases whose release had no answer, the latest last.
    unanswered: VecDeque<LeaseId>,
}

/// One debt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Debt {
    of: (LeaseId, SessionId),
    number: u64,
}

impl Debts {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that something of a lease is to be taken back.
    pub(super) fn owe(&self, lease: &LeaseId, session: &SessionId) -> Debt {
        let mut state = self.state();
        state.last += 1;
        let number = state.last;
        let of = (lease.clone(), session.clone());
        state.owed.insert(of.clone(), number);
        Debt { of, number }
    }

    pub(super) fn is_owed(&self, debt: &Debt) -> bool {
        self.state().owed.get(&debt.of) == Some(&debt.number)
    }

    pub(super) fn paid(&self, debt: &Debt) {
        let mut state = self.state();
        if state.owed.get(&debt.of) == Some(&debt.number) {
            state.owed.remove(&debt.of);
        }
    }

    /// Notes that a lease was let go of.
    pub(super) fn let_go(&self, lease: &LeaseId) {
        self.state().let_go.insert(lease.clone());
    }

    /// It is gone.
    pub(super) fn went(&self, lease: &LeaseId) {
        self.state().let_go.remove(lease);
    }

    /// Notes that the release of a lease had no answer.
    pub(super) fn unanswered(&self, lease: &LeaseId) {
        let mut state = self.state();
        if !state.unanswered.contains(lease) {
            state.unanswered.push_back(lease.clone());
        }
        if state.unanswered.len() > UNANSWERED_MAX {
            state.unanswered.pop_front();
        }
    }

    /// Whether the release of a lease was asked for and had no answer.
    pub(super) fn is_unanswered(&self, lease: &LeaseId) -> bool {
        self.state().unanswered.contains(lease)
    }

    /// It has its answer.
    pub(super) fn answered(&self, lease: &LeaseId) {
        self.state().unanswered.retain(|other| other != lease);
    }

    /// Whether this process is about to end any of these.
    pub(super) fn has_any<'a>(&self, leases: impl IntoIterator<Item = &'a LeaseId>) -> bool {
        let state = self.state();
        let mut leases = leases.into_iter();
        let owed = |lease: &LeaseId| state.owed.keys().any(|(of, _)| of == lease);
        leases.any(|lease| state.let_go.contains(lease) || owed(lease))
    }

    /// Strikes out what is owed of a lease that is asked for again. Whether there was anything.
    pub(super) fn strike(&self, lease: &LeaseId, session: &SessionId) -> bool {
        let of = (lease.clone(), session.clone());
        self.state().owed.remove(&of).is_some()
    }
}

/// Does something that has to come to its end. If this is dropped it goes on in a task, and what it came to is undone.
pub(super) async fn carry<T, U>(
    store: &Inner,
    work: impl Future<Output = Result<T>> + Send + 'static,
    undo: impl FnOnce(Result<T>) -> U + Send + 'static,
) -> Result<T>
where
    T: Send + 'static,
    U: Future<Output = ()> + Send + 'static,
{
    let (tell, told) = oneshot::channel();
    let rest = async move {
        if let Err(unwanted) = tell.send(work.await) {
            undo(unwanted).await;
        }
    };
    let carried = Carried {
        store,
        rest: Some(Box::pin(rest)),
        told,
        begun: false,
    };
    carried.await
}

struct Carried<'a, T> {
    store: &'a Inner,
    rest: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    told: oneshot::Receiver<Result<T>>,
    /// Nothing was done before the first poll.
    begun: bool,
}

impl<T> Future for Carried<'_, T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T>> {
        self.begun = true;
        if let Some(rest) = &mut self.rest {
            if rest.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            self.rest = None;
        }
        let told = self.told.try_recv();
        Poll::Ready(told.unwrap_or_else(|_| Err(Error::Internal("it came to nothing".into()))))
    }
}

impl<T> Drop for Carried<'_, T> {
    fn drop(&mut self) {
        let Some(rest) = self.rest.take().filter(|_| self.begun) else {
            return;
        };
        // Before the task begins: it may have its answer at once, and nobody hears of it any more.
        self.told.close();
        self.store.leave_behind(rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_again_is_owed_no_more_and_a_later_debt_is_another() {
        let (lease, session) = (LeaseId::parse("a").unwrap(), SessionId::parse("s").unwrap());
        let debts = Debts::default();
        let first = debts.owe(&lease, &session);
        assert!(debts.is_owed(&first));
        assert!(debts.strike(&lease, &session));
        assert!(!debts.is_owed(&first) && !debts.strike(&lease, &session));
        let second = debts.owe(&lease, &session);
        debts.paid(&first);
        assert!(debts.is_owed(&second), "the first is not the second");
        debts.paid(&second);
        assert!(!debts.is_owed(&second));
    }

    #[test]
    fn only_the_last_releases_without_an_answer_are_remembered() {
        let lease = |number| LeaseId::parse(&format!("l{number}")).unwrap();
        let debts = Debts::default();
        for number in 0..=UNANSWERED_MAX {
            debts.unanswered(&lease(number));
            debts.unanswered(&lease(number));
        }
        assert!(!debts.is_unanswered(&lease(0)) && debts.is_unanswered(&lease(1)));
        debts.answered(&lease(1));
        assert!(!debts.is_unanswered(&lease(1)) && debts.is_unanswered(&lease(2)));
    }

    #[test]
    fn what_one_session_owes_another_does_not_strike_out() {
        let session = |name| SessionId::parse(name).unwrap();
        let lease = LeaseId::parse("a").unwrap();
        let debts = Debts::default();
        let debt = debts.owe(&lease, &session("one"));
        assert!(!debts.strike(&lease, &session("two")));
        assert!(debts.is_owed(&debt));
    }
}
