//! The ear of a process: one connection hears for all who wait, however many, and says that they are there.
//!
//! # Protocol
//!
//! 1. A waiter registers ([`Ear::join`]). The first starts the task of the ear, which borrows a connection, listens on
//!    the channel of this process, writes its row in `tenure.processes`, and gives the connection back: it
//!    hears while others use it.
//! 2. Only when both are done does `join` return, and the waiter takes its place in line. So whoever grants it something finds
//!    an ear, and nobody takes it for dead.
//! 3. A notification carries the id of a lease; its waiter is woken. One that nobody waits for is dropped.
//! 4. Every [`SHOW_EVERY`] the row is written again, while there is someone to wait for.
//! 5. If the connection ends, the task takes another, with growing pauses that differ between processes, and wakes
//!    the first waiter of every line, and whoever has something on offer: what was said meanwhile was said to nobody.
//!
//! A crash leaves a row that is not written any more: after [`PRESENT_FOR`] its waiters are passed over. A process that is
//! stopped, or cut off for longer than that, loses its places the same way, and asks anew.
//!
//! Of those that wait for one resource in this process one looks after the line: the first that came. When it leaves,
//! the next is woken and does. So a thousand waiters look as often as one.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use tenure_core::{LeaseId, Resource, Result, RetryPolicy};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};
use tokio_postgres::Notification;

use super::pool::Pool;
use super::row::column;
use super::sql::{Asked, values};
use crate::connect::spread;
use crate::fault::unreachable;

/// How often a process that waits says that it is there.
const SHOW_EVERY: Duration = Duration::from_secs(5);
/// How long it is believed. The statements that load a line have the same number.
pub(super) const PRESENT_FOR: Duration = Duration::from_secs(15);
/// How long a waiter waits for the ear before it fails.
const PATIENCE: Duration = Duration::from_secs(10);

/// Rows of processes that are long gone are taken along.
const SHOW: &str = "
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

/// Hears for all who wait in this process.
pub(super) struct Ear {
    shared: Arc<Shared>,
}

struct Shared {
    pool: Arc<Pool>,
    process: String,
    host: String,
    state: Mutex<State>,
    /// When it was last heard and seen; None while it is deaf.
    ready: watch::Sender<Option<Instant>>,
}

#[derive(Default)]
struct State {
    last: u64,
    waiters: BTreeMap<u64, Waiter>,
    lines: HashMap<Resource, BTreeSet<u64>>,
    leases: HashMap<LeaseId, BTreeSet<u64>>,
    stays: usize,
    task: Option<AbortHandle>,
}

struct Waiter {
    lease: LeaseId,
    resource: Resource,
    bell: Arc<Notify>,
}

/// A waiter that is heard for, until dropped.
pub(super) struct Hearing {
    shared: Arc<Shared>,
    number: u64,
    resource: Resource,
    bell: Arc<Notify>,
}

/// Presence without a wait, until dropped.
pub(super) struct Stay {
    shared: Arc<Shared>,
}

impl Ear {
    pub(super) fn new(pool: Arc<Pool>, process: String) -> Self {
        let host = rustix::system::uname();
        Self {
            shared: Arc::new(Shared {
                pool,
                process,
                host: host.nodename().to_string_lossy().into_owned(),
                state: Mutex::default(),
                ready: watch::Sender::new(None),
            }),
        }
    }

    /// Registers a waiter. Once this returns, no wake-up is missed and the process is seen.
    pub(super) async fn join(&self, lease: &LeaseId, resource: &Resource) -> Result<Hearing> {
        let hearing = self.shared.enter(lease, resource);
        self.shared.be_ready().await?;
        Ok(hearing)
    }

    /// Shows presence.
    pub(super) async fn stay(&self) -> Result<Stay> {
        self.shared.state().stays += 1;
        let stay = Stay {
            shared: Arc::clone(&self.shared),
        };
        self.shared.be_ready().await?;
        Ok(stay)
    }
}

impl Drop for Ear {
    fn drop(&mut self) {
        if let Some(task) = self.shared.state().task.take() {
            task.abort();
        }
    }
}

impl Hearing {
    /// Something happened that is worth a look: woken, connected anew, or the first of its line now.
    pub(super) async fn woken(&self) {
        self.bell.notified().await;
    }

    /// Whether it looks after the line: the first of this process that waits for the resource.
    pub(super) fn is_first(&self) -> bool {
        let state = self.shared.state();
        let first = state.lines.get(&self.resource).and_then(BTreeSet::first);
        first == Some(&self.number)
    }
}

impl Drop for Hearing {
    fn drop(&mut self) {
        self.shared.state().leave(self.number);
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        self.shared.state().stays -= 1;
    }
}

impl State {
    fn leave(&mut self, number: u64) {
        let Some(waiter) = self.waiters.remove(&number) else {
            return;
        };
        take_out(&mut self.leases, &waiter.lease, number);
        let was_first = self.lines.get(&waiter.resource).and_then(BTreeSet::first) == Some(&number);
        take_out(&mut self.lines, &waiter.resource, number);
        if was_first {
            self.wake_first(&waiter.resource);
        }
    }

    fn wake_first(&self, resource: &Resource) {
        let first = self.lines.get(resource).and_then(BTreeSet::first);
        if let Some(waiter) = first.and_then(|first| self.waiters.get(first)) {
            waiter.bell.notify_one();
        }
    }

    fn wake(&self, lease: &LeaseId) {
        let numbers = self.leases.get(lease).into_iter().flatten();
        for waiter in numbers.filter_map(|number| self.waiters.get(number)) {
            waiter.bell.notify_one();
        }
    }

    fn is_needed(&self) -> bool {
        !self.waiters.is_empty() || self.stays > 0
    }
}

fn take_out<K: Hash + Eq>(map: &mut HashMap<K, BTreeSet<u64>>, key: &K, number: u64) {
    if let Some(numbers) = map.get_mut(key) {
        numbers.remove(&number);
        if numbers.is_empty() {
            map.remove(key);
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(self: &Arc<Self>, lease: &LeaseId, resource: &Resource) -> Hearing {
        let bell = Arc::new(Notify::new());
        let mut state = self.state();
        state.last += 1;
        let number = state.last;
        state.waiters.insert(
            number,
            Waiter {
                lease: lease.clone(),
                resource: resource.clone(),
                bell: Arc::clone(&bell),
            },
        );
        state
            .leases
            .entry(lease.clone())
            .or_default()
            .insert(number);
        state
            .lines
            .entry(resource.clone())
            .or_default()
            .insert(number);
        Hearing {
            shared: Arc::clone(self),
            number,
            resource: resource.clone(),
            bell,
        }
    }

    /// Starts the task if there is none, and waits until it hears and was seen of late.
    async fn be_ready(self: &Arc<Self>) -> Result<()> {
        let mut ready = self.ready.subscribe();
        {
            let mut state = self.state();
            // A task is finished before its time if the runtime it lived in is gone.
            if state.task.as_ref().is_none_or(AbortHandle::is_finished) {
                self.ready.send_replace(None);
                let task = tokio::spawn(attend(Arc::downgrade(self)));
                state.task = Some(task.abort_handle());
            }
        }
        let seen = |seen: &Option<Instant>| seen.is_some_and(|at| at.elapsed() < SHOW_EVERY);
        let waited = async {
            let heard = ready.wait_for(Option::is_some).await.map(|at| *at);
            match heard {
                // Nobody waited for a while, so nobody said that this process is there.
                Ok(at) if !seen(&at) => self.show().await,
                _ => Ok(()),
            }
        };
        match timeout(PATIENCE, waited).await {
            Ok(ready) => ready,
            Err(_) => Err(unreachable(
                self.pool.address(),
                "no connection to hear notifications with",
            )),
        }
    }

    async fn show(&self) -> Result<()> {
        let asked = Instant::now();
        let sql = self.pool.lend_urgently().await?;
        sql.rows(&self.showing()).await?;
        drop(sql);
        // Deaf stays deaf: that it was seen does not make it hear.
        self.ready.send_if_modified(|ready| {
            let hears = ready.is_some();
            if hears {
                *ready = Some(asked);
            }
            hears
        });
        Ok(())
    }

    fn showing(&self) -> Asked<'_> {
        let pid = i64::from(std::process::id());
        Asked::new(
            SHOW,
            values![self.process.as_str(), pid, self.host.as_str()],
        )
    }

    /// Has a connection listen.
    async fn listen(&self) -> Result<Option<UnboundedReceiver<Notification>>> {
        let mut sql = self.pool.lend_urgently().await?;
        if sql.listens() {
            // Its notifications go to a task that is no more. It cannot hear again.
            sql.spoil();
            return Ok(None);
        }
        let asked = Instant::now();
        let heard = sql.listen(&channel(&self.process)).await?;
        let waiting = self.waiting();
        let answers = sql.in_order(&[self.showing(), offered(&waiting)]).await?;
        drop(sql);
        self.ready.send_replace(Some(asked));
        for row in answers.into_iter().skip(1).flatten() {
            if let Ok(lease) = LeaseId::parse(column(&row, 0)?) {
                self.state().wake(&lease);
            }
        }
        Ok(heard)
    }

    /// Whether anyone waits. If not the task is over: the next who comes starts another.
    fn goes_on(&self) -> bool {
        let mut state = self.state();
        let needed = state.is_needed();
        if !needed {
            state.task = None;
        }
        needed
    }

    /// Who waits.
    fn waiting(&self) -> Vec<String> {
        self.state().leases.keys().map(LeaseId::to_string).collect()
    }

    fn wake_all_firsts(&self) {
        let state = self.state();
        for resource in state.lines.keys() {
            state.wake_first(resource);
        }
    }
}

/// Which of these have something on offer.
fn offered(waiting: &[String]) -> Asked<'_> {
    const OFFERED: &str =
        "SELECT lock_id FROM tenure.dal_locks WHERE lock_id = ANY ($1) AND state = 'offered'";
    Asked::new(OFFERED, values![waiting])
}

/// The channel of a process. Whoever grants it something has the same in SQL.
fn channel(process: &str) -> String {
    format!("tenure_{process}")
}

/// The task of the ear. It keeps nothing alive.
async fn attend(shared: Weak<Shared>) {
    tokio::select! {
        () = hear(&shared) => {}
        () = keep_showing(&shared) => {}
    }
}

/// Hears for as long as someone waits, on one connection after the other.
async fn hear(shared: &Weak<Shared>) {
    let policy = RetryPolicy {
        attempts: u32::MAX,
        first: Duration::from_millis(50),
        longest: Duration::from_secs(2),
        ..RetryPolicy::default()
    };
    let mut failed = 0;
    while let Some(ear) = shared.upgrade() {
        if !ear.goes_on() {
            return;
        }
        match ear.listen().await {
            Ok(Some(heard)) => {
                failed = 0;
                // What was said while nobody heard is to be looked for.
                ear.wake_all_firsts();
                drop(ear);
                pass_on(shared, heard).await;
            }
            Ok(None) => {}
            Err(_) => {
                failed += 1;
                drop(ear);
                let pause = policy.pause(failed, spread()).unwrap_or(policy.longest);
                sleep(pause).await;
            }
        }
    }
}

/// Passes notifications on until the connection ends.
async fn pass_on(shared: &Weak<Shared>, mut heard: UnboundedReceiver<Notification>) {
    loop {
        let heard = heard.recv().await;
        let Some(ear) = shared.upgrade() else { return };
        let Some(notification) = heard else {
            ear.ready.send_replace(None);
            return;
        };
        if let Ok(lease) = LeaseId::parse(notification.payload()) {
            ear.state().wake(&lease);
        }
    }
}

/// Says that the process is there, while that matters to anyone.
async fn keep_showing(shared: &Weak<Shared>) {
    loop {
        sleep(SHOW_EVERY / 5).await;
        let Some(ear) = shared.upgrade() else { return };
        let is_due = |at: &Instant| at.elapsed() >= SHOW_EVERY;
        let is_due = ear.ready.borrow().as_ref().is_some_and(is_due);
        if is_due && ear.state().is_needed() {
            // Where it fails it is tried again before long, for as long as the process is believed.
            drop(timeout(SHOW_EVERY, ear.show()).await);
        }
    }
}
