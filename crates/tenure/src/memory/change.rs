//! Decides a request and makes the changes, in one step under the mutex.
//!
//! A waiter is told of its grant after the mutex is free: waking runs code of the waiter's runtime,
//! which may want the mutex itself.

use std::collections::HashMap;

use tenure_core::decide::{Ask, Change, Holder, HolderState, Millis, Outcome, decide};
use tenure_core::request::Awaited;
use tenure_core::{Lease, LeaseId, Mode, Resource, Token};
use tenure_os::clock;
use tokio::sync::oneshot;

use super::MemoryStore;
use super::tables::{Entry, Tables, Waiter};

/// The deadline of every request here. A caller that gives up drops its wait, which leaves the
/// line.
pub(super) const NEVER: Millis = Millis::MAX;
const NOW: Millis = 0;

/// A waiter to tell, and the lease it got.
type News = (oneshot::Sender<Lease>, Lease);

impl MemoryStore {
    /// Decides a request on a resource and makes the changes. `new_request` is the asker, if it may
    /// be granted or queued; it is told of a grant.
    pub(super) fn decide(
        &self,
        resource: &Resource,
        ask: &Ask,
        new_request: Option<Waiter>,
    ) -> Outcome {
        let (outcome, news) = self.tables().decide(resource, ask, new_request);
        for (waiter, lease) in news {
            // A waiter that is being dropped does not receive it: its drop finds that it is no
            // longer in line, and gives the lock back.
            drop(waiter.send(lease));
        }
        outcome
    }
}

impl Tables {
    fn decide(
        &mut self,
        resource: &Resource,
        ask: &Ask,
        new_request: Option<Waiter>,
    ) -> (Outcome, Vec<News>) {
        let newest = self.token_of(resource).unwrap_or(Token::NONE);
        let entry = self.entries.entry(resource.clone());
        let entry = entry.or_insert_with(|| Entry::new(newest));
        let decision = decide(&entry.state, ask, NOW);
        let mut step = Step {
            token: &mut self.token,
            entry,
            new_request,
            dequeued: HashMap::new(),
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
            self.newest.insert(resource.clone(), step.entry.token);
            self.entries.remove(resource);
        }
        (decision.outcome, news)
    }
}

/// Turns an offer into a lease that is held: a waiter in this same process either receives it or is
/// dropped, and its drop gives the lock back.
fn taken_up(change: Change) -> Change {
    match change {
        Change::Grant(holder) => Change::Grant(Holder {
            state: HolderState::Held,
            ..holder
        }),
        other => other,
    }
}

/// The changes of one decision, in progress.
struct Step<'a> {
    token: &'a mut Token,
    entry: &'a mut Entry,
    new_request: Option<Waiter>,
    /// Waiters that left the line in this decision; a grant or a new mode may follow.
    dequeued: HashMap<LeaseId, Waiter>,
    news: Vec<News>,
}

impl Step<'_> {
    fn make(&mut self, change: &Change) {
        self.entry.state.apply(change);
        match change {
            Change::Enqueue(waiter) => {
                let queued = self.new_request.take().expect("only who asks is queued");
                self.entry.waiters.insert(waiter.lease.clone(), queued);
            }
            Change::Dequeue(lease) => {
                if let Some(waiter) = self.entry.waiters.remove(lease) {
                    self.dequeued.insert(lease.clone(), waiter);
                }
            }
            Change::Grant(holder) => self.grant(holder),
            Change::SetMode { lease, mode, .. } => self.set_mode(lease, *mode),
            Change::Remove { lease, .. } => {
                self.entry.leases.remove(lease);
            }
            // No lease here expires or can be broken.
            Change::SetState { .. } | Change::SetBinding { .. } => {}
        }
    }

    fn grant(&mut self, holder: &Holder) {
        let waiter = self.dequeued_or_new(&holder.lease);
        let waiter = waiter.expect("who is granted asked now or waited");
        let Awaited::Lease(request) = &waiter.awaited else {
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
        let waiter = self.dequeued_or_new(lease);
        let token = self.entry.token;
        let held = self.entry.leases.get_mut(lease);
        let held = held.expect("only a lease that is held changes its mode");
        held.mode = mode;
        held.token = token;
        if let Some(waiter) = waiter {
            self.news.push((waiter.wake, held.clone()));
        }
    }

    fn dequeued_or_new(&mut self, lease: &LeaseId) -> Option<Waiter> {
        let dequeued = self.dequeued.remove(lease);
        dequeued.or_else(|| self.new_request.take())
    }

    fn draw(&mut self) {
        let next = self.token.next(0);
        *self.token = next.expect("2^53 grants do not happen within one process");
        self.entry.token = *self.token;
    }
}
