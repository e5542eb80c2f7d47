//! An agent in this process: a thread with a runtime of its own, on a keeper it shares.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};

use tenure::Keeper;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::gate::Gate;
use super::obey::{Tell, obey};
use super::words::{Answer, Order, Reply};

/// The thread and the ways to it.
pub(super) struct Thread {
    orders: Option<UnboundedSender<Order>>,
    gate: Arc<Gate>,
    thread: Option<JoinHandle<()>>,
}

impl Thread {
    pub(super) fn start(keeper: Keeper) -> (Self, mpsc::Receiver<Reply>) {
        let (answers, answered) = mpsc::channel();
        let (orders, ordered) = unbounded_channel();
        let gate = Arc::<Gate>::default();
        let body = {
            let gate = Arc::clone(&gate);
            move || {
                let tell: Tell = Arc::new(move |reply| drop(answers.send(reply)));
                tell(Reply {
                    id: 0,
                    answer: Answer::Ready {
                        pid: std::process::id(),
                    },
                });
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .unwrap();
                let obeying = || runtime.block_on(obey(keeper, ordered, tell, gate));
                // The crash is intended. The message of a failed assertion was printed by its hook,
                // and the waiter for its answer finds the channel closed.
                drop(catch_unwind(AssertUnwindSafe(obeying)));
            }
        };
        let thread = Self {
            orders: Some(orders),
            gate,
            thread: Some(thread::spawn(body)),
        };
        (thread, answered)
    }

    pub(super) fn send(&self, order: Order) {
        let orders = self.orders.as_ref().expect("it has not ended");
        assert!(orders.send(order).is_ok(), "the agent has ended");
    }

    pub(super) fn resume(&self) {
        self.gate.open();
    }

    /// Waits until the thread has ended, by itself or for want of orders.
    pub(super) fn end(&mut self) {
        self.orders = None;
        self.gate.open();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.end();
    }
}
