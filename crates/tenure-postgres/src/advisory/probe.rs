//! The probes that prove a lock: one task per connection, for as long as the connection lives.
//!
//! A task per lock would cost a short lock more than its two round trips. The task of a connection
//! stays instead, and a grant only tells it which lock to watch:
//!
//! 1. While nothing is held it sleeps until it is woken. It stays awake for half a second first, so
//!    that a connection in constant use never has to wake it.
//! 2. While a lock is held it sleeps until the last good probe is 500 ms old, and sends another.
//! 3. After a bad answer, none in time, or the end of the connection, the lock is lost, and the
//!    socket is closed, so that a server that can still be reached gives the lock to others.
//!
//! | race | what happens |
//! |---|---|
//! | released during a probe | the answer is about a lock that is no longer held, and is dropped |
//! | the runtime ends | the driver of the connection ends with it, and the lock is lost |

use std::sync::Arc;

use tenure_os::clock;
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_postgres::{Client, Statement};

use super::liveness::{LOST_AFTER, Liveness, PROBE_EVERY, no_answer};
use super::since::Name;
use crate::connect::Connection;

/// Tells the task of a connection which lock is held on it. A drop ends the task.
pub(super) struct Prober {
    held: watch::Sender<Option<Arc<Liveness>>>,
}

/// The state of the task.
struct Probe {
    client: std::sync::Weak<Client>,
    statement: Statement,
    pid: i32,
    name: Name,
    over: watch::Receiver<Option<String>>,
    cutter: Option<tokio::task::AbortHandle>,
}

impl Prober {
    /// Starts the task of a connection. The statement returns the backend's process.
    pub(super) fn start(connection: &Connection, statement: Statement, name: Name) -> Self {
        let (sender, held) = watch::channel(None);
        let probe = Probe {
            client: Arc::downgrade(connection.client()),
            statement,
            pid: connection.pid,
            name,
            over: connection.over(),
            cutter: connection.cutter(),
        };
        connection.runtime.spawn(watch_over(held, probe));
        Self { held: sender }
    }

    /// Watches a lock from now on.
    pub(super) fn watch(&self, liveness: Arc<Liveness>) {
        self.held.send_replace(Some(liveness));
    }

    /// Watches no lock from now on.
    pub(super) fn unwatch(&self) {
        self.held.send_replace(None);
    }
}

impl Drop for Prober {
    fn drop(&mut self) {
        self.unwatch();
    }
}

type WatchedLock = watch::Receiver<Option<Arc<Liveness>>>;

/// Waits for a lock to watch. Returns `None` when the connection is to end.
async fn next(held: &mut WatchedLock) -> Option<Arc<Liveness>> {
    if held.borrow().is_none() {
        sleep(PROBE_EVERY).await;
    }
    held.wait_for(Option::is_some).await.ok()?.clone()
}

fn is_held(held: &WatchedLock, liveness: &Arc<Liveness>) -> bool {
    let held = held.borrow();
    held.as_ref()
        .is_some_and(|held| Arc::ptr_eq(held, liveness))
}

async fn watch_over(mut held: WatchedLock, probe: Probe) {
    let mut over = probe.over.clone();
    loop {
        let liveness = tokio::select! {
            liveness = next(&mut held) => liveness,
            _ = ended(&mut over) => None,
        };
        let Some(liveness) = liveness else {
            return;
        };
        let due = PROBE_EVERY.saturating_sub(liveness.age());
        tokio::select! {
            () = sleep(due) => {}
            reason = ended(&mut over) => return liveness.lose(reason),
        }
        if !is_held(&held, &liveness) || liveness.age() < PROBE_EVERY {
            continue;
        }
        let asked = probe.ask(&liveness, &mut over).await;
        if let Err(reason) = asked
            && is_held(&held, &liveness)
        {
            liveness.lose(reason);
            if let Some(cutter) = &probe.cutter {
                cutter.abort();
            }
            return;
        }
    }
}

impl Probe {
    /// Sends one probe. The error is the reason why the lock is lost.
    async fn ask(
        &self,
        liveness: &Liveness,
        over: &mut watch::Receiver<Option<String>>,
    ) -> Result<(), String> {
        let Some(client) = self.client.upgrade() else {
            return Err("the connection was closed".into());
        };
        let sent = clock::boot_now();
        let rest = LOST_AFTER.saturating_sub(liveness.age());
        let answer = tokio::select! {
            answer = self.question(&client, liveness) => answer,
            reason = ended(over) => return Err(reason),
            () = sleep(rest) => return Err(no_answer()),
        };
        match answer {
            Ok(pid) if pid == self.pid => liveness.good(sent),
            Ok(pid) => return Err(format!("session {} became {pid}", self.pid)),
            Err(error) => return Err(crate::fault::message(&error)),
        }
        // A good answer that comes too late does not count.
        liveness.reason().map_or(Ok(()), Err)
    }

    /// Returns the session that answers. The first probe also sets the name that shows since when
    /// the lock is held.
    async fn question(
        &self,
        client: &Client,
        liveness: &Liveness,
    ) -> Result<i32, tokio_postgres::Error> {
        // This is noted before the name is sent: a release that finds the note resets the name.
        if !liveness.mark_shown() {
            return self.name.set_held_since(client, liveness.held_ms()).await;
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
