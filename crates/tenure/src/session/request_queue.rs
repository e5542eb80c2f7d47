//! The queue of requests within one session: one of them asks the store at a time.
//!
//! Without the queue, one task could be granted `b` while another still awaits `a`. The session
//! would hold a resource while it awaits one that is ordered before it, and would deadlock with a
//! holder of `a` that awaits `b`.
//!
//! # Invariant
//!
//! The queue is in the order in which the requests were checked against each other, so it is
//! sorted, too: each request asks for resources ordered after those of all requests before it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use tenure_core::internal::lock;
use tokio::sync::Notify;
use tokio::time::timeout_at;

use super::{Deadline, GaveUp};

/// The requests of a session that are under way, first come first.
#[derive(Default)]
pub(super) struct RequestQueue {
    tickets: Mutex<Tickets>,
    moved: Notify,
}

#[derive(Default)]
struct Tickets {
    last: u64,
    under_way: VecDeque<u64>,
}

/// A place in the queue, until dropped.
pub(crate) struct QueuePlace {
    queue: Arc<RequestQueue>,
    ticket: u64,
}

impl QueuePlace {
    /// Joins the queue at its end.
    pub(super) fn join(queue: &Arc<RequestQueue>) -> QueuePlace {
        let mut tickets = lock(&queue.tickets);
        tickets.last += 1;
        let ticket = tickets.last;
        tickets.under_way.push_back(ticket);
        let queue = Arc::clone(queue);
        QueuePlace { queue, ticket }
    }

    /// Waits until no other request of the session is before this one.
    pub(crate) async fn wait_until_first(&self, deadline: &Deadline) -> Result<(), GaveUp> {
        if self.is_first() {
            return Ok(());
        }
        if !deadline.waits() {
            return Err(deadline.gave_up(0));
        }
        let first = timeout_at(deadline.instant(), self.become_first());
        first.await.map_err(|_| deadline.gave_up(0))
    }

    async fn become_first(&self) {
        loop {
            // Created before the check, so that a move in between is not missed.
            let moved = self.queue.moved.notified();
            if self.is_first() {
                return;
            }
            moved.await;
        }
    }

    fn is_first(&self) -> bool {
        lock(&self.queue.tickets).under_way.front() == Some(&self.ticket)
    }
}

impl Drop for QueuePlace {
    fn drop(&mut self) {
        let mut tickets = lock(&self.queue.tickets);
        tickets.under_way.retain(|ticket| *ticket != self.ticket);
        drop(tickets);
        self.queue.moved.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn turns_come_in_the_order_of_joining_whoever_leaves_in_between() {
        let queue = Arc::default();
        let [first, second, third] = [(); 3].map(|()| QueuePlace::join(&queue));
        let short = || Deadline::new(Duration::from_millis(10));
        assert!(first.wait_until_first(&short()).await.is_ok());
        assert!(third.wait_until_first(&short()).await.is_err());
        drop(second);
        assert!(
            third.wait_until_first(&short()).await.is_err(),
            "the first is under way"
        );
        let deadline = Deadline::new(Duration::from_secs(10));
        let leave = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            drop(first);
        };
        let (come, ()) = tokio::join!(third.wait_until_first(&deadline), leave);
        assert!(come.is_ok());
    }

    #[tokio::test]
    async fn who_does_not_wait_is_told_at_once() {
        let queue = Arc::default();
        let (_first, second) = (QueuePlace::join(&queue), QueuePlace::join(&queue));
        assert!(
            second
                .wait_until_first(&Deadline::new(Duration::ZERO))
                .await
                .is_err()
        );
    }
}
