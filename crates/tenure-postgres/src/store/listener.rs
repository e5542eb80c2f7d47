//! Wake-ups for the waiters of this process.
//!
//! One connection listens for all of them and keeps this process's row in `tenure.processes` fresh,
//! so that other processes know that its waiters are alive.
//!
//! # Protocol
//!
//! 1. A waiter registers ([`Listener::register`]). The first one starts the task, which borrows a
//!    connection, listens on the channel of this process, writes its row in `tenure.processes`, and
//!    returns the connection: it receives notifications while others use it.
//! 2. `register` returns only when the channel is listened to and the row is written. Only then the
//!    waiter takes its place in line, so a notification for it is received, and no other process
//!    takes it for dead.
//! 3. A notification carries the id of a lease; its waiter is woken. A notification without a
//!    waiter is dropped.
//! 4. The row is written again every [`PRESENCE_EVERY`], for as long as a waiter or a session of
//!    this process needs it.
//! 5. If the connection ends, the task takes another, with growing pauses and jitter, and wakes the
//!    first waiter of every line, and every waiter that has an offer: notifications sent meanwhile
//!    are lost.
//!
//! A crash leaves a row that is no longer written: after [`PRESENT_FOR`] the waiters of its process
//! are passed over. A process that is stopped, or cut off for longer than that, loses its places
//! the same way, and asks again.
//!
//! One of this process's waiters for a resource looks after the line: the first that registered.
//! When it leaves, the next is woken and takes over. A thousand waiters therefore look as often as
//! one.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use tenure_core::internal::lock;
use tenure_core::{LeaseId, Resource, Result, RetryPolicy};
use tenure_os::platform::host_name;
use tenure_os::random;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};
use tokio_postgres::Notification;

use super::pool::Pool;
use super::row::column;
use super::sql::{Statement, values};
use crate::fault::unreachable;

/// The interval at which a process with waiters writes its row.
const PRESENCE_EVERY: Duration = Duration::from_secs(5);
/// The time that a row counts after it was written. The statements that load a line repeat this
/// number.
pub(super) const PRESENT_FOR: Duration = Duration::from_secs(15);
/// The time that a waiter waits for the listening connection before it fails.
const READY_WITHIN: Duration = Duration::from_secs(10);

/// Writes the row of this process, and deletes rows of processes that are long gone.
const WRITE_PRESENCE: &str = "
    WITH gone AS (
        DELETE FROM tenure.processes
        WHERE process IN (
            SELECT process FROM tenure.processes
            WHERE seen_at < pg_catalog.clock_timestamp() - interval '1 hour' AND process <> $1
            LIMIT 100 FOR UPDATE SKIP LOCKED
        )
    )
    INSERT INTO tenure.processes AS p (process, seen_at, pid, host)
    VALUES ($1, pg_catalog.clock_timestamp(), $2, $3)
    ON CONFLICT (process) DO UPDATE SET seen_at = pg_catalog.clock_timestamp()";

/// Listens for all waiters of this process.
pub(super) struct Listener {
    shared: Arc<Shared>,
}

struct Shared {
    pool: Arc<Pool>,
    process: String,
    host: String,
    state: Mutex<State>,
    /// The time when the connection last proved to be alive, or `None` while there is none.
    last_alive: watch::Sender<Option<Instant>>,
}

#[derive(Default)]
struct State {
    last: u64,
    /// The waiters in the order they registered. A search goes through all of them, which costs
    /// little beside a wake-up.
    waiters: BTreeMap<u64, Waiter>,
    presences: usize,
    task: Option<AbortHandle>,
}

struct Waiter {
    lease: LeaseId,
    resource: Resource,
    wake: Arc<Notify>,
}

/// A registered waiter, until dropped.
pub(super) struct Registration {
    shared: Arc<Shared>,
    number: u64,
    resource: Resource,
    wake: Arc<Notify>,
}

/// Keeps the row of this process fresh without a waiter, until dropped.
pub(super) struct Presence {
    shared: Arc<Shared>,
}

impl Listener {
    pub(super) fn new(pool: Arc<Pool>, process: String) -> Self {
        Self {
            shared: Arc::new(Shared {
                pool,
                process,
                host: host_name(),
                state: Mutex::default(),
                last_alive: watch::Sender::new(None),
            }),
        }
    }

    /// Registers a waiter. Once this returns, it misses no wake-up and the row of the process is
    /// fresh.
    pub(super) async fn register(
        &self,
        lease: &LeaseId,
        resource: &Resource,
    ) -> Result<Registration> {
        let registration = self.shared.add(lease, resource);
        self.shared.ensure_listening().await?;
        Ok(registration)
    }

    /// Keeps the row of this process fresh for as long as the result lives.
    pub(super) async fn show_presence(&self) -> Result<Presence> {
        lock(&self.shared.state).presences += 1;
        let presence = Presence {
            shared: Arc::clone(&self.shared),
        };
        self.shared.ensure_listening().await?;
        Ok(presence)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(task) = lock(&self.shared.state).task.take() {
            task.abort();
        }
    }
}

impl Registration {
    /// Resolves when the waiter should look at its place again: it was notified, the connection was
    /// replaced, or it became the first of this process for its resource.
    pub(super) async fn notified(&self) {
        self.wake.notified().await;
    }

    /// Returns true if this waiter looks after the line, as the first of this process for the
    /// resource.
    pub(super) fn is_first(&self) -> bool {
        lock(&self.shared.state).first(&self.resource) == Some(self.number)
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        lock(&self.shared.state).remove(self.number);
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        lock(&self.shared.state).presences -= 1;
    }
}

impl State {
    fn remove(&mut self, number: u64) {
        let Some(waiter) = self.waiters.remove(&number) else {
            return;
        };
        let mut waiters = self.waiters.iter();
        let next = waiters.find(|(_, other)| other.resource == waiter.resource);
        if let Some((_, next)) = next.filter(|(other, _)| **other > number) {
            next.wake.notify_one();
        }
    }

    /// Returns the first waiter for a resource.
    fn first(&self, resource: &Resource) -> Option<u64> {
        let mut waiters = self.waiters.iter();
        let first = waiters.find(|(_, waiter)| waiter.resource == *resource);
        first.map(|(number, _)| *number)
    }

    fn wake_all_firsts(&self) {
        let mut seen = HashSet::new();
        for waiter in self.waiters.values() {
            if seen.insert(&waiter.resource) {
                waiter.wake.notify_one();
            }
        }
    }

    fn wake(&self, lease: &LeaseId) {
        for waiter in self.waiters.values() {
            if waiter.lease == *lease {
                waiter.wake.notify_one();
            }
        }
    }

    fn is_needed(&self) -> bool {
        !self.waiters.is_empty() || self.presences > 0
    }
}

impl Shared {
    fn add(self: &Arc<Self>, lease: &LeaseId, resource: &Resource) -> Registration {
        let wake = Arc::new(Notify::new());
        let mut state = lock(&self.state);
        state.last += 1;
        let number = state.last;
        state.waiters.insert(
            number,
            Waiter {
                lease: lease.clone(),
                resource: resource.clone(),
                wake: Arc::clone(&wake),
            },
        );
        Registration {
            shared: Arc::clone(self),
            number,
            resource: resource.clone(),
            wake,
        }
    }

    /// Starts the task if there is none, and waits until it listens and the row is fresh.
    async fn ensure_listening(self: &Arc<Self>) -> Result<()> {
        let mut last_alive = self.last_alive.subscribe();
        {
            let mut state = lock(&self.state);
            // A task ends early if its runtime is gone. A task that is no longer needed ends by
            // itself, and is then forgotten.
            if state.task.as_ref().is_none_or(AbortHandle::is_finished) {
                self.last_alive.send_replace(None);
                let earlier = state
                    .task
                    .as_ref()
                    .map_or(Earlier::Heard, |_| Earlier::Lost);
                let task = tokio::spawn(run(Arc::downgrade(self), earlier));
                state.task = Some(task.abort_handle());
            }
        }
        let is_recent = |at: &Option<Instant>| at.is_some_and(|at| at.elapsed() < PRESENCE_EVERY);
        let waited = async {
            let alive_at = last_alive.wait_for(Option::is_some).await.map(|at| *at);
            match alive_at {
                // The row of this process was not written for a while, as nothing waited.
                Ok(at) if !is_recent(&at) => self.write_presence().await,
                _ => Ok(()),
            }
        };
        match timeout(READY_WITHIN, waited).await {
            Ok(done) => done,
            Err(_) => Err(unreachable(
                self.pool.address(),
                "no connection to hear notifications with",
            )),
        }
    }

    async fn write_presence(&self) -> Result<()> {
        let asked = Instant::now();
        let sql = self.pool.lend_urgently().await?;
        sql.rows(&self.presence_statement()).await?;
        drop(sql);
        // Without a listening connection it stays `None`: writing the row does not make it listen.
        self.last_alive.send_if_modified(|last_alive| {
            let listens = last_alive.is_some();
            if listens {
                *last_alive = Some(asked);
            }
            listens
        });
        Ok(())
    }

    fn presence_statement(&self) -> Statement<'_> {
        let pid = i64::from(std::process::id());
        Statement::new(
            WRITE_PRESENCE,
            values![self.process.as_str(), pid, self.host.as_str()],
        )
    }

    /// Makes a connection listen. Returns `None` if it listened for an earlier task.
    async fn listen(&self) -> Result<Option<UnboundedReceiver<Notification>>> {
        let mut sql = self.pool.lend_urgently().await?;
        if sql.listens() {
            // The notifications of this connection go to a task that has ended, and cannot be
            // redirected.
            sql.mark_dirty();
            return Ok(None);
        }
        let asked = Instant::now();
        let notifications = sql.listen(&channel(&self.process)).await?;
        let waiting = self.waiting();
        let answers = sql
            .in_order(&[self.presence_statement(), offered(&waiting)])
            .await?;
        drop(sql);
        self.last_alive.send_replace(Some(asked));
        for row in answers.into_iter().skip(1).flatten() {
            if let Ok(lease) = LeaseId::parse(column(&row, 0)?) {
                lock(&self.state).wake(&lease);
            }
        }
        Ok(notifications)
    }

    /// Returns true if the task is needed. Else forgets the task: the next registration starts
    /// another.
    fn keeps_running(&self) -> bool {
        let mut state = lock(&self.state);
        let needed = state.is_needed();
        if !needed {
            state.task = None;
        }
        needed
    }

    /// Returns the leases that are waited for.
    fn waiting(&self) -> Vec<String> {
        let state = lock(&self.state);
        let leases = state.waiters.values();
        leases.map(|waiter| waiter.lease.to_string()).collect()
    }
}

/// Selects the leases that are on offer, of these.
fn offered(waiting: &[String]) -> Statement<'_> {
    const OFFERED: &str =
        "SELECT lock_id FROM tenure.dal_locks WHERE lock_id = ANY ($1) AND state = 'offered'";
    Statement::new(OFFERED, values![waiting])
}

/// Returns the channel of a process. The statements that notify it build this name in SQL.
fn channel(process: &str) -> String {
    format!("tenure_{process}")
}

/// The fate of notifications before a task of the listener began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Earlier {
    /// None was lost, as no waiter had a place in line.
    Heard,
    /// Some may be lost.
    Lost,
}

/// Runs the task of the listener, which keeps nothing alive.
async fn run(shared: Weak<Shared>, earlier: Earlier) {
    tokio::select! {
        () = listen_while_needed(&shared, earlier) => {}
        () = keep_presence(&shared) => {}
    }
}

/// Listens for as long as that is needed, on one connection after the other.
async fn listen_while_needed(shared: &Weak<Shared>, mut earlier: Earlier) {
    let policy = RetryPolicy {
        attempts: u32::MAX,
        first: Duration::from_millis(50),
        longest: Duration::from_secs(2),
        ..RetryPolicy::default()
    };
    let mut failed = 0;
    while let Some(listener) = shared.upgrade() {
        if !listener.keeps_running() {
            return;
        }
        match listener.listen().await {
            Ok(Some(notifications)) => {
                failed = 0;
                // Notifications sent while nothing listened are lost, so the waiters look.
                if earlier == Earlier::Lost {
                    lock(&listener.state).wake_all_firsts();
                }
                drop(listener);
                forward_notifications(shared, notifications).await;
                earlier = Earlier::Lost;
            }
            Ok(None) => {}
            Err(_) => {
                failed += 1;
                drop(listener);
                let pause = policy
                    .pause(failed, random::fraction())
                    .unwrap_or(policy.longest);
                sleep(pause).await;
            }
        }
    }
}

/// Wakes the waiters that notifications name, until the connection ends.
async fn forward_notifications(
    shared: &Weak<Shared>,
    mut notifications: UnboundedReceiver<Notification>,
) {
    loop {
        let received = notifications.recv().await;
        let Some(listener) = shared.upgrade() else {
            return;
        };
        let Some(notification) = received else {
            listener.last_alive.send_replace(None);
            return;
        };
        if let Ok(lease) = LeaseId::parse(notification.payload()) {
            lock(&listener.state).wake(&lease);
        }
    }
}

/// Writes the row of the process regularly while it is needed.
async fn keep_presence(shared: &Weak<Shared>) {
    loop {
        sleep(PRESENCE_EVERY / 5).await;
        let Some(listener) = shared.upgrade() else {
            return;
        };
        let is_due = |at: &Instant| at.elapsed() >= PRESENCE_EVERY;
        let is_due = listener.last_alive.borrow().as_ref().is_some_and(is_due);
        if is_due && lock(&listener.state).is_needed() {
            // A failure is tried again soon, several times before the row is too old.
            drop(timeout(PRESENCE_EVERY, listener.write_presence()).await);
        }
    }
}
