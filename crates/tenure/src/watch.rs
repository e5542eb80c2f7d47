//! The background check that notices a lost lock.
//!
//! Where a store can lose a lock, one task a session proves every lock of it at the
//! store's interval. It begins with the first guard, and ends with the session or when it finds
//! nothing to check: whoever locks and unlocks in a row does not start it each time. The task only
//! has weak references: it keeps neither session nor lock alive.

use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tenure_core::{Error, Store};
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

use crate::guard::Hold;
use crate::poison::lock;

pub(crate) struct Watch {
    store: Arc<dyn Store>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    holds: Vec<Weak<Hold>>,
    task: Option<AbortHandle>,
}

impl Watch {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            state: Mutex::default(),
        }
    }

    /// Begins to check a lock, in the runtime it was granted in.
    pub(crate) fn add(self: &Arc<Self>, hold: &Arc<Hold>) {
        let Some(every) = self.store.capabilities().check_every else {
            return;
        };
        let mut state = lock(&self.state);
        state.holds.push(Arc::downgrade(hold));
        // A task is finished before its time if the runtime it lived in is gone.
        let runs = state.task.as_ref().is_some_and(|task| !task.is_finished());
        if !runs {
            let task = tokio::spawn(check_all(Arc::downgrade(self), every));
            state.task = Some(task.abort_handle());
        }
    }

    /// Ends the checks of a lock.
    pub(crate) fn remove(&self, hold: &Arc<Hold>) {
        let other = |held: &Weak<Hold>| !std::ptr::eq(held.as_ptr(), Arc::as_ptr(hold));
        lock(&self.state).holds.retain(other);
    }

    /// What there is to check; None, and the end of the task, if it is nothing.
    fn due(&self) -> Option<Vec<Weak<Hold>>> {
        let mut state = lock(&self.state);
        if state.holds.is_empty() {
            state.task = None;
            return None;
        }
        Some(state.holds.clone())
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(task) = lock(&self.state).task.take() {
            task.abort();
        }
    }
}

async fn check_all(watch: Weak<Watch>, every: Duration) {
    loop {
        sleep(every).await;
        let Some((store, holds)) = watch
            .upgrade()
            .and_then(|watch| Some((Arc::clone(&watch.store), watch.due()?)))
        else {
            return;
        };
        for hold in holds {
            check_one(&*store, &hold, every).await;
        }
    }
}

async fn check_one(store: &dyn Store, hold: &Weak<Hold>, every: Duration) {
    // The id is taken out first, so that the wait for the answer keeps nothing alive.
    let Some(id) = hold.upgrade().map(|hold| hold.id.clone()) else {
        return;
    };
    // A store that does not answer must not keep the other locks from being checked.
    let answer = timeout(every, store.renew(&id)).await;
    let Some(hold) = hold.upgrade() else { return };
    match answer {
        Ok(answer) => hold.note(answer.as_ref().err()),
        Err(_) => hold.note(Some(&Error::Internal("no answer in time".into()))),
    }
}
