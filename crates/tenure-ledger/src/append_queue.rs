//! The queue of the threads of this process that append, and the leader that writes for all of
//! them.
//!
//! Each thread prepares its event alone, then joins the queue. The first that finds no leader
//! becomes the leader: it waits for threads that are preparing an event, at most twice as long as
//! its own took. Then it locks the ledger and writes for all that wait by then. Syncs of events
//! that run side by side share one commit of the journal, and one sync of the directory then serves
//! all.
//!
//! The other threads sleep until they are answered, until their time is over or their wait is
//! cancelled, or until there is no leader. A leader whose wait is over leaves, and another one
//! leads.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Wake;
use std::time::{Duration, Instant};

use tenure_core::internal::lock;
use tenure_core::{Error, Mode, Result};
use tenure_os::cancel::Ended;

use super::append::{Appended, Request};
use super::{Ledger, lock};

/// The most events that are written together.
pub(super) const TOGETHER_MAX: usize = 64;

/// The limits of the time that the leader waits for threads that are preparing an event.
const GATHER_MIN: Duration = Duration::from_millis(1);
const GATHER_MAX: Duration = Duration::from_millis(50);

#[derive(Default)]
pub(super) struct AppendQueue {
    state: Mutex<QueueState>,
    changed: Condvar,
    /// The number of threads that are preparing an event.
    preparing: AtomicUsize,
    /// Tells the leader that a thread joined.
    joined: Condvar,
}

/// A thread that will join the queue soon, until dropped.
pub(super) struct Preparing<'a> {
    queue: &'a AppendQueue,
    began: Instant,
}

impl Preparing<'_> {
    /// Returns how long a leader that took as long as this one waits for others.
    fn patience(&self) -> Duration {
        (2 * self.began.elapsed()).clamp(GATHER_MIN, GATHER_MAX)
    }
}

impl Drop for Preparing<'_> {
    fn drop(&mut self) {
        self.queue.preparing.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Default)]
struct QueueState {
    waiting: VecDeque<Arc<QueuedAppend>>,
    has_leader: bool,
    /// The number of threads that sleep until they are answered or may lead. A wake-up is a call to
    /// the kernel even if no thread sleeps, so it is left out at zero.
    sleeping: usize,
}

/// A request in the queue, and its answer.
struct QueuedAppend {
    request: Mutex<Option<Request>>,
    answer: Mutex<Option<Result<Appended>>>,
}

impl Ledger {
    /// Tells the leader that a request is on its way.
    pub(super) fn preparing(&self) -> Preparing<'_> {
        self.append_queue.preparing.fetch_add(1, Ordering::Relaxed);
        Preparing {
            queue: &self.append_queue,
            began: Instant::now(),
        }
    }

    /// Has a request written, together with those of other threads, and returns the answer.
    pub(super) fn submit(&self, request: Request) -> Result<Appended> {
        self.submit_prepared(request, None)
    }

    /// Has a request written whose preparation was announced.
    pub(super) fn submit_prepared(
        &self,
        request: Request,
        preparing: Option<Preparing<'_>>,
    ) -> Result<Appended> {
        let (started, deadline) = (Instant::now(), lock::deadline(self));
        let queued = Arc::new(QueuedAppend {
            request: Mutex::new(Some(request)),
            answer: Mutex::default(),
        });
        let cancel = self.locker.cancel();
        let _registration = cancel.register(Arc::clone(&self.append_queue).into());
        let patience = preparing.as_ref().map_or(GATHER_MIN, Preparing::patience);
        let mut state = self.append_queue.state();
        state.waiting.push_back(Arc::clone(&queued));
        drop(preparing);
        if state.has_leader {
            self.append_queue.joined.notify_one();
        }
        loop {
            if let Some(answer) = queued.take_answer() {
                return answer;
            }
            if !state.has_leader {
                state.has_leader = true;
                drop(state);
                let _leader = Leader(&self.append_queue);
                self.append_queue.gather(patience);
                return self.write_for_all(&queued, deadline);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let is_waiting = state.is_waiting(&queued);
            let ended = match cancel.is_cancelled() {
                true => Some(Ended::Cancelled),
                false => left.is_zero().then_some(Ended::Deadline),
            };
            if let Some(ended) = ended.filter(|_| is_waiting) {
                state.leave(&queued);
                let queue = self.names.queue();
                return Err(self.locker.ended(ended, &queue, Mode::Write, started)?);
            }
            state.sleeping += 1;
            state = if is_waiting {
                let woken = self.append_queue.changed.wait_timeout(state, left);
                woken.unwrap_or_else(PoisonError::into_inner).0
            } else {
                // The request is being written, and will be answered.
                let woken = self.append_queue.changed.wait(state);
                woken.unwrap_or_else(PoisonError::into_inner)
            };
            state.sleeping -= 1;
        }
    }

    /// Writes for all who wait, the own request among them, and returns the own answer.
    fn write_for_all(&self, own: &Arc<QueuedAppend>, deadline: Instant) -> Result<Appended> {
        let held = match self.lock(deadline) {
            Ok(held) => held,
            Err(error) => {
                self.append_queue.state().leave(own);
                return Err(error);
            }
        };
        let mut written = Vec::new();
        while self.append_queue.state().is_waiting(own) {
            let (taken, requests) = self.append_queue.state().take();
            let answers = self.write_together(&held, requests);
            written.extend(taken.into_iter().zip(answers));
        }
        // The ledger is unlocked before any request is answered.
        drop(held);
        for (queued, answer) in written {
            *lock(&queued.answer) = Some(answer);
        }
        let lost = || Err(Error::Internal("a request was not answered".into()));
        own.take_answer().unwrap_or_else(lost)
    }
}

/// A cancellation wakes all sleepers. Those whose wait goes on sleep again.
impl Wake for AppendQueue {
    fn wake(self: Arc<Self>) {
        // The mutex keeps the wake-up from falling between a sleeper's check and its sleep.
        let _state = self.state();
        self.changed.notify_all();
    }
}

/// The thread that writes for all. Dropping it lets another thread lead, also after a panic.
struct Leader<'a>(&'a AppendQueue);

impl Drop for Leader<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.has_leader = false;
        if state.sleeping > 0 {
            self.0.changed.notify_all();
        }
    }
}

impl AppendQueue {
    /// Waits for threads that are preparing an event: one sync of the directory serves all.
    fn gather(&self, patience: Duration) {
        let mut state = self.state();
        let began = Instant::now();
        while self.preparing.load(Ordering::Relaxed) > 0 && state.waiting.len() < TOGETHER_MAX {
            let left = patience.saturating_sub(began.elapsed());
            if left.is_zero() {
                return;
            }
            let woken = self.joined.wait_timeout(state, left);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    #[cfg(test)]
    pub(super) fn has_leader(&self) -> bool {
        self.state().has_leader
    }

    #[cfg(test)]
    pub(super) fn sleeping(&self) -> usize {
        self.state().sleeping
    }

    fn state(&self) -> MutexGuard<'_, QueueState> {
        lock(&self.state)
    }
}

impl QueueState {
    fn is_waiting(&self, queued: &Arc<QueuedAppend>) -> bool {
        self.waiting.iter().any(|other| Arc::ptr_eq(other, queued))
    }

    fn leave(&mut self, queued: &Arc<QueuedAppend>) {
        self.waiting.retain(|other| !Arc::ptr_eq(other, queued));
    }

    /// Takes the first requests, as many as are written together.
    fn take(&mut self) -> (Vec<Arc<QueuedAppend>>, Vec<Request>) {
        let (mut taken, mut requests, mut events) = (Vec::new(), Vec::new(), 0);
        while let Some(queued) = self.waiting.pop_front() {
            let request = lock(&queued.request).take();
            let Some(request) = request else {
                continue;
            };
            events += request.events_max();
            if events > TOGETHER_MAX && !requests.is_empty() {
                *lock(&queued.request) = Some(request);
                self.waiting.push_front(queued);
                break;
            }
            taken.push(queued);
            requests.push(request);
        }
        (taken, requests)
    }
}

impl QueuedAppend {
    fn take_answer(&self) -> Option<Result<Appended>> {
        let mut answer = lock(&self.answer);
        answer.take()
    }
}
