//! Deciding a request and carrying out the changes, in one step under the mutex.
//!
//! Whoever is granted is told after the mutex is free: waking runs code of the waiter's
//! runtime, which may want the mutex itself.

use std::collections::HashMap;

use tenure_core::decide::{Ask, Change, Holder, Millis, Outcome, Standing, decide};
use tenure_core::{Lease, LeaseId, Mode, Resource, Token};
use tenure_files::clock;
use tokio::sync::oneshot;

use super::MemoryStore;
use super::shelf::{Asked, Entry, Shelf, Waiter};

/// No request has a deadline here: whoever gives up drops its wait, and that leaves the line.
pub(super) const NEVER: Millis = Millis::MAX;
const NOW: Millis = 0;

/// Who is to be told, and what it got.
type News = (oneshot::Sender<Lease>, Lease);

impl MemoryStore {
    /// Decides a request on a resource and makes the changes. `newcomer` is what is
    /// known of who asks, if that may be granted or queued; it is told of a grant.
    pub(super) fn decide(
        &self,
        resource: &Resource,
        ask: &Ask,
        newcomer: Option<Waiter>,
    ) -> Outcome {
        let (outcome, news) = self.shelf().decide(resource, ask, newcomer);
        for (waiter, lease) in news {
            // A waiter that is being dropped does not hear it: its drop finds that it
            // is no longer in line, and gives the lock back.
            drop(waiter.send(lease));
        }
        outcome
    }
}

impl Shelf {
    fn decide(
        &mut self,
        resource: &Resource,
        ask: &Ask,
        newcomer: Option<Waiter>,
    ) -> (Outcome, Vec<News>) {
        let token = self.token;
        let entry = self.entries.entry(resource.clone());
        let entry = entry.or_insert_with(|| Entry::new(token));
        let decision = decide(&entry.state, ask, NOW);
        let mut step = Step {
            token: &mut self.token,
            entry,
            newcomer,
            called: HashMap::new(),
            news: Vec::new(),
        };
        for change in decision.changes {
            let change = taken_up(change);
            step.make(&change);
            match change {
                Change::Grant(holder) => {
                    self.resources.insert(holder.lease, resource.clone());
                }
                Change::Remove { lease, .. } => {
                    self.resources.remove(&lease);
                }
                _ => {}
            }
        }
        let news = step.news;
        if step.entry.state.is_empty() {
            self.entries.remove(resource);
        }
        (decision.outcome, news)
    }
}

/// An offer counts as taken up in the instant it is made: who waits in this very process
/// either hears of it or is dropped, and its drop gives the lock back.
fn taken_up(change: Change) -> Change {
    match change {
        Change::Grant(holder) => Change::Grant(Holder {
            standing: Standing::Held,
            ..holder
        }),
        other => other,
    }
}

/// The changes of one decision, under way.
struct Step<'a> {
    token: &'a mut Token,
    entry: &'a mut Entry,
    newcomer: Option<Waiter>,
    /// Who left the line in this decision; a grant or a mode may follow.
    called: HashMap<LeaseId, Waiter>,
    news: Vec<News>,
}

impl Step<'_> {
    fn make(&mut self, change: &Change) {
        self.entry.state.apply(change);
        match change {
            Change::Enqueue(waiter) => {
                let queued = self.newcomer.take().expect("only who asks is queued");
                self.entry.waiters.insert(waiter.lease.clone(), queued);
            }
            Change::Dequeue(lease) => {
                if let Some(waiter) = self.entry.waiters.remove(lease) {
                    self.called.insert(lease.clone(), waiter);
                }
            }
            Change::Grant(holder) => self.grant(holder),
            Change::SetMode { lease, mode, .. } => self.set_mode(lease, *mode),
            Change::Remove { lease, .. } => {
                self.entry.leases.remove(lease);
            }
            // No lease here has time of its own, or can be broken.
            Change::SetStanding { .. } | Change::SetBinding { .. } => {}
        }
    }

    fn grant(&mut self, holder: &Holder) {
        let waiter = self.called_or_new(&holder.lease);
        let waiter = waiter.expect("who is granted asked now or waited");
        let Asked::Lease(request) = waiter.asked else {
            unreachable!("a new lease is only granted to who asked for one");
        };
        if holder.mode.is_exclusive() {
            self.draw();
        }
        let lease = request.granted(self.entry.token, clock::now());
        let leases = &mut self.entry.leases;
        leases.insert(holder.lease.clone(), lease.clone());
        self.news.push((waiter.wake, lease));
    }

    fn set_mode(&mut self, lease: &LeaseId, mode: Mode) {
        if mode.is_exclusive() {
            self.draw();
        }
        let waiter = self.called_or_new(lease);
        let token = self.entry.token;
        let held = self.entry.leases.get_mut(lease);
        let held = held.expect("only a lease that is held changes its mode");
        held.mode = mode;
        held.token = token;
        if let Some(waiter) = waiter {
            self.news.push((waiter.wake, held.clone()));
        }
    }

    fn called_or_new(&mut self, lease: &LeaseId) -> Option<Waiter> {
        let called = self.called.remove(lease);
        called.or_else(|| self.newcomer.take())
    }

    fn draw(&mut self) {
        let next = self.token.next(0);
        *self.token = next.expect("2^53 grants do not happen within one process");
        self.entry.token = *self.token;
    }
}
