//! The questions that prove a lock: one task a connection, for as long as the connection lives.
//!
//! A task a lock would cost a short lock more than its two round trips. So the task of a connection
//! stays, and a grant only tells it what is held:
//!
//! 1. Nothing is held: it sleeps until told. It stays awake for half a second first, so that a connection which is
//!    used all the time never has to wake it.
//! 2. Something is held: it sleeps until the last good question is 500 ms old, and asks.
//! 3. A bad answer, none in time, or the end of the connection: the lock is lost, and the socket is closed, so that a
//!    server that can still be reached gives the lock to others.
//!
//! | race | what happens |
//! |---|---|
//! | told just before it sleeps | it says that it sleeps first, and looks again before it does |
//! | released while it asks | the answer is about a lock that nobody has any more, and is thrown away |
//! | the runtime ends | the driver of the connection ends with it: lost |

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tenure_files::clock;
use tokio::sync::{Notify, watch};
use tokio::time::sleep;
use tokio_postgres::{Client, Statement};

use super::since::Name;
use super::standing::{LOST_AFTER, PROBE_EVERY, Standing, no_answer};
use crate::connect::Connection;

/// Tells the task of a connection what is held on it. Dropped, the task ends.
pub(super) struct Prober {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    held: Mutex<Option<Arc<Standing>>>,
    asleep: AtomicBool,
    done: AtomicBool,
    told: Notify,
}

/// What the task needs.
struct Probe {
    client: std::sync::Weak<Client>,
    statement: Statement,
    pid: i32,
    name: Name,
    over: watch::Receiver<Option<String>>,
    cutter: Option<tokio::task::AbortHandle>,
}

impl Prober {
    /// Starts the task of a connection. The statement answers the backend.
    pub(super) fn start(connection: &Connection, statement: Statement, name: Name) -> Self {
        let shared = Arc::<Shared>::default();
        let probe = Probe {
            client: Arc::downgrade(connection.client()),
            statement,
            pid: connection.pid(),
            name,
            over: connection.over(),
            cutter: connection.cutter(),
        };
        connection
            .runtime()
            .spawn(watch_over(Arc::clone(&shared), probe));
        Self { shared }
    }

    /// From now on this is held.
    pub(super) fn hold(&self, standing: Arc<Standing>) {
        *self.shared.held() = Some(standing);
        if self.shared.asleep.load(Ordering::SeqCst) {
            self.shared.told.notify_one();
        }
    }

    /// From now on nothing is held.
    pub(super) fn let_go(&self) {
        *self.shared.held() = None;
    }
}

impl Drop for Prober {
    fn drop(&mut self) {
        self.let_go();
        self.shared.done.store(true, Ordering::SeqCst);
        self.shared.told.notify_one();
    }
}

impl Shared {
    fn held(&self) -> std::sync::MutexGuard<'_, Option<Arc<Standing>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is held, as soon as something is; None when the connection is to end.
    async fn next(&self) -> Option<Arc<Standing>> {
        let mut waited = false;
        loop {
            if self.done.load(Ordering::SeqCst) {
                return None;
            }
            let held = self.held().clone();
            if held.is_some() {
                return held;
            }
            if !waited {
                sleep(PROBE_EVERY).await;
                waited = true;
                continue;
            }
            self.asleep.store(true, Ordering::SeqCst);
            if self.held().is_none() && !self.done.load(Ordering::SeqCst) {
                self.told.notified().await;
            }
            self.asleep.store(false, Ordering::SeqCst);
        }
    }
}

async fn watch_over(shared: Arc<Shared>, probe: Probe) {
    let mut over = probe.over.clone();
    loop {
        let standing = tokio::select! {
            standing = shared.next() => standing,
            _ = ended(&mut over) => None,
        };
        let Some(standing) = standing else {
            return;
        };
        let due = PROBE_EVERY.saturating_sub(standing.age());
        tokio::select! {
            () = sleep(due) => {}
            reason = ended(&mut over) => return standing.lose(reason),
        }
        let still = shared
            .held()
            .as_ref()
            .is_some_and(|held| Arc::ptr_eq(held, &standing));
        if !still || standing.age() < PROBE_EVERY {
            continue;
        }
        if let Err(reason) = probe.ask(&standing, &mut over).await {
            let still = shared
                .held()
                .as_ref()
                .is_some_and(|held| Arc::ptr_eq(held, &standing));
            if !still {
                continue;
            }
            standing.lose(reason);
            if let Some(cutter) = &probe.cutter {
                cutter.abort();
            }
            return;
        }
    }
}

impl Probe {
    /// One question. An error is why the lock is lost.
    async fn ask(
        &self,
        standing: &Standing,
        over: &mut watch::Receiver<Option<String>>,
    ) -> Result<(), String> {
        let Some(client) = self.client.upgrade() else {
            return Err("the connection was closed".into());
        };
        let sent = clock::boot_now();
        let rest = LOST_AFTER.saturating_sub(standing.age());
        let answer = tokio::select! {
            answer = self.question(&client, standing) => answer,
            reason = ended(over) => return Err(reason),
            () = sleep(rest) => return Err(no_answer()),
        };
        match answer {
            Ok(pid) if pid == self.pid => standing.good(sent),
            Ok(pid) => return Err(format!("session {} became {pid}", self.pid)),
            Err(error) => return Err(crate::fault::message(&error)),
        }
        // A good answer that came too late is too late.
        standing.reason().map_or(Ok(()), Err)
    }

    /// Which session answers. The first time it is also told since when it holds.
    async fn question(
        &self,
        client: &Client,
        standing: &Standing,
    ) -> Result<i32, tokio_postgres::Error> {
        // Noted before it is sent: whoever finds it noted puts the name back.
        if !standing.show() {
            return self.name.show(client, standing.held_ms()).await;
        }
        let row = client.query_one(&self.statement, &[]).await?;
        Ok(row.get(0))
    }
}

async fn ended(over: &mut watch::Receiver<Option<String>>) -> String {
    match over.wait_for(Option::is_some).await {
        Ok(reason) => reason.clone().unwrap_or_default(),
        Err(_) => "the connection was closed".to_owned(),
    }
}
