//! The background check that notices a lost lock, and renews what runs out by itself.
//!
//! Where a store can lose a lock, one task a session looks after every lock of it. It begins with
//! the first guard, and ends with the session or when it finds nothing to check: whoever locks
//! and unlocks in a row does not start it each time. The task only has weak references: it
//! keeps neither session nor lock alive.
//!
//! It lives in the runtime of a grant, and ends when that is gone. Whoever waits to hear of a loss
//! has it begin again in its own: else nobody would tell.
//!
//! # A look
//!
//! 1. The clock is read. It counts time asleep, which the timers do not.
//! 2. A lock that is due is checked, each on its own, so that one slow answer takes no time from the
//!    others. At most [`CHECKS_MAX`] are under way, and each is given up after a while.
//! 3. A lease that has used up two thirds of its time is in doubt, and one that has used up five
//!    sixths is lost. Both are told although a check may be under way: an answer that has not
//!    come does not count.
//!
//! # After a sleep
//!
//! The process was stopped, or the machine slept: the last look was in good time, and this
//! one is past it. Nobody may have taken over, so the store is asked once more, for a
//! short while, before the lock is given up.

mod check;
mod rhythm;

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, Weak};

use tenure_core::Store;
use tenure_core::decide::Millis;
use tenure_files::clock;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::sleep;

use crate::guard::{Checks, Hold, Phase};
use crate::poison::lock;
use check::Check;
use rhythm::Rhythm;

/// More checks of a session than this are not under way at once.
const CHECKS_MAX: usize = 16;

pub(crate) struct Watch {
    store: Arc<dyn Store>,
    rhythm: Option<Rhythm>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    holds: Vec<Weak<Hold>>,
    task: Option<AbortHandle>,
    /// When the last look was, in milliseconds since boot.
    looked: Millis,
}

impl Watch {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self {
            rhythm: Rhythm::of(&store.capabilities()),
            store,
            state: Mutex::default(),
        }
    }

    /// Begins to check a lock, in the runtime it was granted in.
    pub(crate) fn add(self: &Arc<Self>, hold: &Arc<Hold>) {
        let Some(rhythm) = self.rhythm else {
            return;
        };
        let mut state = lock(&self.state);
        if state.holds.is_empty() && !state.runs() {
            // The first look counts from here: a sleep may come before the task does.
            state.looked = clock::boot_now();
        }
        state.holds.push(Arc::downgrade(hold));
        self.run(&mut state, rhythm, &Handle::current());
    }

    /// Waits for what is told of a lock, and sees to it that there is somebody to tell.
    pub(crate) async fn watching<T>(self: &Arc<Self>, wait: impl Future<Output = T>) -> T {
        let (Some(rhythm), Ok(runtime)) = (self.rhythm, Handle::try_current()) else {
            return wait.await;
        };
        let mut wait = pin!(wait);
        loop {
            self.run(&mut lock(&self.state), rhythm, &runtime);
            tokio::select! {
                biased;
                told = &mut wait => return told,
                () = sleep(rhythm.look) => {}
            }
        }
    }

    /// Begins to look, where there is something to look at and nobody does.
    fn run(self: &Arc<Self>, state: &mut State, rhythm: Rhythm, runtime: &Handle) {
        if state.holds.is_empty() || state.runs() {
            return;
        }
        for hold in state.holds.iter().filter_map(Weak::upgrade) {
            // What was under way ended with the runtime.
            *lock(&hold.checks) = Checks::default();
        }
        let task = runtime.spawn(look_after(Arc::downgrade(self), rhythm, state.looked));
        state.task = Some(task.abort_handle());
    }

    /// Ends the checks of a lock.
    pub(crate) fn remove(&self, hold: &Arc<Hold>) {
        let other = |held: &Weak<Hold>| !std::ptr::eq(held.as_ptr(), Arc::as_ptr(hold));
        lock(&self.state).holds.retain(other);
    }

    /// What there is to look at; None, and the end of the task, if it is nothing.
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
    /// A task is finished before its time if the runtime it lived in is gone.
    fn runs(&self) -> bool {
        self.task.as_ref().is_some_and(|task| !task.is_finished())
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(task) = lock(&self.state).task.take() {
            task.abort();
        }
    }
}

async fn look_after(watch: Weak<Watch>, rhythm: Rhythm, mut last_look: Millis) {
    // Dropped with this task, which ends what is under way.
    let mut checks = JoinSet::new();
    let places = Arc::new(Semaphore::new(CHECKS_MAX));
    loop {
        sleep(rhythm.look).await;
        while checks.try_join_next().is_some() {}
        let now = clock::boot_now();
        let Some((store, holds)) = watch
            .upgrade()
            .and_then(|watch| Some((Arc::clone(&watch.store), watch.holds(now)?)))
        else {
            return;
        };
        for hold in holds {
            let check = hold
                .upgrade()
                .and_then(|hold| look_at(&hold, &rhythm, last_look, now));
            if let Some(check) = check {
                let (store, places) = (Arc::clone(&store), Arc::clone(&places));
                checks.spawn(check::carry_out(check, store, hold, places));
            }
        }
        last_look = now;
    }
}

/// Says of a lock what its time is, and which check is due.
fn look_at(hold: &Hold, rhythm: &Rhythm, last_look: Millis, now: Millis) -> Option<Check> {
    let asleep = now.saturating_sub(last_look) >= rhythm.asleep;
    match (hold.phase(last_look), hold.phase(now)) {
        (_, Phase::Good) => {}
        (Phase::Good, Phase::Doubt) if asleep => {}
        (_, Phase::Doubt) => hold.note_doubt(),
        (Phase::Good, Phase::Over) => return check::last_try(hold, rhythm, now),
        (_, Phase::Over) => {
            if !lock(&hold.checks).last_try {
                hold.note_over();
            }
            return None;
        }
    }
    check::due(hold, rhythm, now)
}
