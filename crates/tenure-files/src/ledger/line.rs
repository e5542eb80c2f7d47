//! Those of this process who append together.
//!
//! Everyone prepares an event alone, then joins the line. The first who finds nobody at its head
//! becomes the head: it waits a moment for those who are preparing theirs, locks the ledger and writes for
//! all who wait by then. The others sleep until they are answered, until their time is over, or until there is no
//! head.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tenure_core::poison::lock;
use tenure_core::{Error, Mode, Result};

use super::append::{Answer, Request};
use super::{Ledger, lock};

/// So many events are written together at most. A power loss leaves gaps among those alone.
pub(super) const TOGETHER_MAX: usize = 64;

/// The head waits so long at most for those who are preparing an event.
const GATHER_MAX: Duration = Duration::from_millis(1);

#[derive(Default)]
pub(super) struct Line {
    places: Mutex<Places>,
    changed: Condvar,
    /// How many are preparing an event.
    preparing: AtomicUsize,
    /// Tells the head that someone joined.
    joined: Condvar,
}

/// Someone who will join the line soon, until dropped.
pub(super) struct Preparing<'a>(&'a Line);

impl Drop for Preparing<'_> {
    fn drop(&mut self) {
        self.0.preparing.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Default)]
struct Places {
    waiting: VecDeque<Arc<Place>>,
    has_head: bool,
    /// How many sleep until they are answered or may be head. Waking nobody costs a call to the kernel, too.
    sleeping: usize,
}

struct Place {
    request: Mutex<Option<Request>>,
    answer: Mutex<Option<Result<Answer>>>,
}

impl Ledger {
    /// Tells the head of the line that a request is on its way.
    pub(super) fn preparing(&self) -> Preparing<'_> {
        self.line.preparing.fetch_add(1, Ordering::Relaxed);
        Preparing(&self.line)
    }

    /// Has a request written, together with those of other threads.
    pub(super) fn submit(&self, request: Request) -> Result<Answer> {
        self.submit_prepared(request, None)
    }

    /// Has a request written that was announced.
    pub(super) fn submit_prepared(
        &self,
        request: Request,
        preparing: Option<Preparing<'_>>,
    ) -> Result<Answer> {
        let (started, deadline) = (Instant::now(), lock::deadline(self));
        let place = Arc::new(Place {
            request: Mutex::new(Some(request)),
            answer: Mutex::default(),
        });
        let mut places = self.line.places();
        places.waiting.push_back(Arc::clone(&place));
        drop(preparing);
        if places.has_head {
            self.line.joined.notify_one();
        }
        loop {
            if let Some(answer) = place.take_answer() {
                return answer;
            }
            if !places.has_head {
                places.has_head = true;
                drop(places);
                let _head = Head(&self.line);
                return self.lead(&place, deadline);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let is_waiting = places.is_waiting(&place);
            if left.is_zero() && is_waiting {
                places.leave(&place);
                let timed_out = self
                    .locker
                    .timed_out(&self.names.queue(), Mode::Write, started);
                return Err(timed_out?);
            }
            places.sleeping += 1;
            places = match is_waiting {
                true => {
                    let woken = self.line.changed.wait_timeout(places, left);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
                // It is being written, and will be answered.
                false => {
                    let woken = self.line.changed.wait(places);
                    woken.unwrap_or_else(PoisonError::into_inner)
                }
            };
            places.sleeping -= 1;
        }
    }

    /// Writes for all who wait, until the own request is answered.
    fn lead(&self, own: &Arc<Place>, deadline: Instant) -> Result<Answer> {
        self.line.gather();
        let held = match self.lock(deadline) {
            Ok(held) => held,
            Err(error) => {
                self.line.places().leave(own);
                return Err(error);
            }
        };
        let mut written = Vec::new();
        while self.line.places().is_waiting(own) {
            let (places, requests) = self.line.places().take();
            let answers = self.write_together(&held, requests);
            written.extend(places.into_iter().zip(answers));
        }
        // Nobody is answered before the ledger is unlocked.
        drop(held);
        for (place, answer) in written {
            *lock(&place.answer) = Some(answer);
        }
        let lost = || Err(Error::Internal("a request was not answered".into()));
        own.take_answer().unwrap_or_else(lost)
    }
}

/// The head of the line. Dropped, it lets the next one be head, also if it panicked.
struct Head<'a>(&'a Line);

impl Drop for Head<'_> {
    fn drop(&mut self) {
        let mut places = self.0.places();
        places.has_head = false;
        if places.sleeping > 0 {
            self.0.changed.notify_all();
        }
    }
}

impl Line {
    /// Waits a moment for those who are preparing an event: one sync of the directory serves all.
    fn gather(&self) {
        let mut places = self.places();
        let began = Instant::now();
        while self.preparing.load(Ordering::Relaxed) > 0 && places.waiting.len() < TOGETHER_MAX {
            let left = GATHER_MAX.saturating_sub(began.elapsed());
            if left.is_zero() {
                return;
            }
            let woken = self.joined.wait_timeout(places, left);
            places = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        lock(&self.places)
    }
}

impl Places {
    fn is_waiting(&self, place: &Arc<Place>) -> bool {
        self.waiting.iter().any(|other| Arc::ptr_eq(other, place))
    }

    fn leave(&mut self, place: &Arc<Place>) {
        self.waiting.retain(|other| !Arc::ptr_eq(other, place));
    }

    /// Takes the first ones, as many as are written together.
    fn take(&mut self) -> (Vec<Arc<Place>>, Vec<Request>) {
        let (mut places, mut requests, mut events) = (Vec::new(), Vec::new(), 0);
        while let Some(place) = self.waiting.pop_front() {
            let request = lock(&place.request).take();
            let Some(request) = request else {
                continue;
            };
            events += request.events_max();
            if events > TOGETHER_MAX && !requests.is_empty() {
                *lock(&place.request) = Some(request);
                self.waiting.push_front(place);
                break;
            }
            places.push(place);
            requests.push(request);
        }
        (places, requests)
    }
}

impl Place {
    fn take_answer(&self) -> Option<Result<Answer>> {
        let mut answer = lock(&self.answer);
        answer.take()
    }
}
