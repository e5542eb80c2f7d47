//! The line of requests within one session: one of them asks the store at a time.
//!
//! Without it, one task could be granted `b` while another still awaits `a`: the session
//! would hold something while it awaits what is ordered before it, and a circle with a
//! holder of `a` that awaits `b` would be closed.
//!
//! # Invariant
//!
//! The line is in the order in which the requests were checked against each other, so what
//! stands in it is ordered, too: each request asks for what comes after all before it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;
use tokio::time::timeout_at;

use super::{GaveUp, Patience};
use crate::poison::lock;

/// Requests of a session that are under way, first come first.
#[derive(Default)]
pub(super) struct Line {
    tickets: Mutex<Tickets>,
    moved: Notify,
}

#[derive(Default)]
struct Tickets {
    last: u64,
    under_way: VecDeque<u64>,
}

/// A place in the line, until dropped.
pub(crate) struct Turn {
    line: Arc<Line>,
    ticket: u64,
}

impl Turn {
    /// Joins at the end.
    pub(super) fn join(line: &Arc<Line>) -> Turn {
        let mut tickets = lock(&line.tickets);
        tickets.last += 1;
        let ticket = tickets.last;
        tickets.under_way.push_back(ticket);
        let line = Arc::clone(line);
        Turn { line, ticket }
    }

    /// Waits until no other request of the session is before this one.
    pub(crate) async fn come(&self, patience: &Patience) -> Result<(), GaveUp> {
        if self.is_first() {
            return Ok(());
        }
        if !patience.waits() {
            return Err(patience.gave_up(0));
        }
        let come = timeout_at(patience.deadline(), self.first());
        come.await.map_err(|_| patience.gave_up(0))
    }

    async fn first(&self) {
        loop {
            // Created before the look: a move in between is not missed.
            let moved = self.line.moved.notified();
            if self.is_first() {
                return;
            }
            moved.await;
        }
    }

    fn is_first(&self) -> bool {
        lock(&self.line.tickets).under_way.front() == Some(&self.ticket)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut tickets = lock(&self.line.tickets);
        tickets.under_way.retain(|ticket| *ticket != self.ticket);
        drop(tickets);
        self.line.moved.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn turns_come_in_the_order_of_joining_whoever_leaves_in_between() {
        let line = Arc::default();
        let [first, second, third] = [(); 3].map(|()| Turn::join(&line));
        let short = || Patience::new(Duration::from_millis(10));
        assert!(first.come(&short()).await.is_ok());
        assert!(third.come(&short()).await.is_err());
        drop(second);
        assert!(
            third.come(&short()).await.is_err(),
            "the first is under way"
        );
        let patience = Patience::new(Duration::from_secs(10));
        let leave = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            drop(first);
        };
        let (come, ()) = tokio::join!(third.come(&patience), leave);
        assert!(come.is_ok());
    }

    #[tokio::test]
    async fn who_does_not_wait_is_told_at_once() {
        let line = Arc::default();
        let (_first, second) = (Turn::join(&line), Turn::join(&line));
        assert!(second.come(&Patience::new(Duration::ZERO)).await.is_err());
    }
}
