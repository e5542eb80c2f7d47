//! The background task that notices a lost lock, and renews leases that expire.
//!
//! If a store can lose a lock, one task per session checks all its locks. The task begins with the
//! first guard, and ends with the session or when it finds nothing to check, so that locking and
//! unlocking in a row does not start it each time. The task has only weak references: it keeps
//! neither session nor lock alive.
//!
//! The task lives in the runtime of a grant, and ends with that runtime. A caller that waits for a
//! loss starts the task again in its own runtime: otherwise it would never be told.
//!
//! # A look
//!
//! 1. The clock is read. It counts time asleep, which the timers do not.
//! 2. Each lock that is due is checked on its own, so that one slow answer takes no time from the
//!    others. At most [`CHECKS_MAX`] checks are under way, and each is given up after a while.
//! 3. A lease that has used up two thirds of its time is in doubt, and one that has used up five
//!    sixths is lost. Both are reported even while a check is under way: an answer that has not
//!    come does not count.
//!
//! # After a sleep
//!
//! If the process was stopped or the machine slept, the lease was good at the last look and is over
//! at this one. Perhaps no other holder has taken the lock over, so the store is asked once more,
//! for a short while, before the lock is given up.

mod check;
mod schedule;

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, Weak};

use tenure_core::Store;
use tenure_core::decide::Millis;
use tenure_core::internal::lock;
use tenure_os::clock;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::sleep;

use crate::guard::{Checks, Hold, Phase};
use check::Check;
use schedule::CheckSchedule;

/// The largest number of checks of a session that are under way at once.
const CHECKS_MAX: usize = 16;

pub(crate) struct Renewal {
    store: Arc<dyn Store>,
    schedule: Option<CheckSchedule>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    holds: Vec<Weak<Hold>>,
    task: Option<AbortHandle>,
    /// The time of the last look, in milliseconds since boot.
    looked: Millis,
}

impl Renewal {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self {
            schedule: CheckSchedule::of(&store.capabilities()),
            store,
            state: Mutex::default(),
        }
    }

    /// Begins to check a lock, in the runtime it was granted in.
    pub(crate) fn add(self: &Arc<Self>, hold: &Arc<Hold>) {
        let Some(schedule) = self.schedule else {
            return;
        };
        let mut state = lock(&self.state);
        if state.holds.is_empty() && !state.is_running() {
            // The time to the first look counts from here: the machine may sleep before the task
            // runs.
            state.looked = clock::boot_now();
        }
        state.holds.push(Arc::downgrade(hold));
        self.run(&mut state, schedule, &Handle::current());
    }

    /// Waits for news of a lock, and keeps the task that reports it running.
    pub(crate) async fn watching<T>(self: &Arc<Self>, wait: impl Future<Output = T>) -> T {
        let (Some(schedule), Ok(runtime)) = (self.schedule, Handle::try_current()) else {
            return wait.await;
        };
        let mut wait = pin!(wait);
        loop {
            self.run(&mut lock(&self.state), schedule, &runtime);
            tokio::select! {
                biased;
                told = &mut wait => return told,
                () = sleep(schedule.look) => {}
            }
        }
    }

    /// Starts the task if there is something to check and none runs.
    fn run(self: &Arc<Self>, state: &mut State, schedule: CheckSchedule, runtime: &Handle) {
        if state.holds.is_empty() || state.is_running() {
            return;
        }
        for hold in state.holds.iter().filter_map(Weak::upgrade) {
            // Checks that were under way ended with the runtime.
            *lock(&hold.checks) = Checks::default();
        }
        let task = runtime.spawn(look_after(Arc::downgrade(self), schedule, state.looked));
        state.task = Some(task.abort_handle());
    }

    /// Ends the checks of a lock.
    pub(crate) fn remove(&self, hold: &Arc<Hold>) {
        let other = |held: &Weak<Hold>| !std::ptr::eq(held.as_ptr(), Arc::as_ptr(hold));
        lock(&self.state).holds.retain(other);
    }

    /// Returns the locks to look at. Returns `None`, and ends the task, if there are none.
    fn holds(&self, now: Millis) -> Option<Vec<Weak<Hold>>> {
        let mut state = lock(&self.state);
        state.looked = now;
        if state.holds.is_empty() {
            state.task = None;
            return None;
        }
        Some(state.holds.clone())
    }
}

impl State {
    /// Returns true if the task runs. It is finished early if its runtime is gone.
    fn is_running(&self) -> bool {
        self.task.as_ref().is_some_and(|task| !task.is_finished())
    }
}

impl Drop for Renewal {
    fn drop(&mut self) {
        if let Some(task) = lock(&self.state).task.take() {
            task.abort();
        }
    }
}

async fn look_after(renewal: Weak<Renewal>, schedule: CheckSchedule, mut last_look: Millis) {
    // Dropped with this task, which ends the checks under way.
    let mut checks = JoinSet::new();
    let places = Arc::new(Semaphore::new(CHECKS_MAX));
    loop {
        sleep(schedule.look).await;
        while checks.try_join_next().is_some() {}
        let now = clock::boot_now();
        let Some((store, holds)) = renewal
            .upgrade()
            .and_then(|renewal| Some((Arc::clone(&renewal.store), renewal.holds(now)?)))
        else {
            return;
        };
        for hold in holds {
            let check = hold
                .upgrade()
                .and_then(|hold| look_at(&hold, &schedule, last_look, now));
            if let Some(check) = check {
                let (store, places) = (Arc::clone(&store), Arc::clone(&places));
                checks.spawn(check::make(check, store, hold, places));
            }
        }
        last_look = now;
    }
}

/// Notes the phase of a lock, and returns the check that is due.
fn look_at(hold: &Hold, schedule: &CheckSchedule, last_look: Millis, now: Millis) -> Option<Check> {
    let asleep = now.saturating_sub(last_look) >= schedule.asleep;
    match (hold.phase(last_look), hold.phase(now)) {
        (_, Phase::Good) => {}
        (Phase::Good, Phase::Doubt) if asleep => {}
        (_, Phase::Doubt) => hold.note_doubt(),
        (Phase::Good, Phase::Over) => return check::last_try(hold, schedule, now),
        (_, Phase::Over) => {
            if !lock(&hold.checks).last_try {
                hold.note_over();
            }
            return None;
        }
    }
    check::due(hold, schedule, now)
}
