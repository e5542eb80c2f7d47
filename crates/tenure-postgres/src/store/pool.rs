//! The connections of a store: one as a rule, more while several requests are made at once.
//!
//! A process that only waits has one connection: the listening one (`listener`) is lent like any
//! other, as a step is short and a notification can wait for its end. More are opened when all are
//! in use, and closed after they were idle for a while.
//!
//! # Invariants
//!
//! - A connection here is clean: nothing is under way on it, and it is in no transaction.
//! - Never more than [`CONNECTIONS_MAX`] are open: each counts until it is here, or ended at the
//!   server.
//! - Some of them are reserved for urgent work ([`Pool::lend_urgently`]): renewals, and the row of
//!   the process. Leases are renewed however many requests wait for the row of one resource.
//! - A transaction that its process abandons half-way, because it was stopped or is cut off, is
//!   ended by the server after [`IDLE_IN_TRANSACTION`], and with it its locks on rows. No statement
//!   waits longer than that for a row, so statements of such a process that wait for a row have
//!   ended by then, too.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tenure_core::Result;
use tenure_core::internal::lock;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::sleep;

use super::sql::{Flush, Frame, Sql, Statement};
use crate::Address;
use crate::connect::{ConnectPauses, Connection, permit};

/// The largest number of connections of a process.
pub(super) const CONNECTIONS_MAX: usize = 8;
/// The number of connections that are reserved for urgent work.
const URGENT: usize = 2;
/// The time that a caller waits for a connection.
const LEND_WAIT_MAX: Duration = Duration::from_secs(10);
/// The time that a caller waits for a connection if it has no time of its own.
const LEND_WAIT_MIN: Duration = Duration::from_secs(1);
/// The time that an unused connection is kept.
const IDLE: Duration = Duration::from_secs(5);
/// The longest time that the server lets a transaction idle.
const IDLE_IN_TRANSACTION: Duration = Duration::from_secs(5);
/// The shortest limit on an idle transaction: a machine may be busy for a moment between two round
/// trips.
const IDLE_IN_TRANSACTION_MIN: Duration = Duration::from_millis(500);

pub(super) struct Pool {
    address: Arc<Address>,
    /// The statements that set a session up.
    settings: String,
    idle: Mutex<Vec<Idle>>,
    permits: Arc<Semaphore>,
    /// The further permits, for urgent work.
    urgent: Arc<Semaphore>,
    /// True while a task closes idle connections.
    closing_idle: AtomicBool,
}

struct Idle {
    sql: Sql,
    since: Instant,
}

/// A connection in use, outside a transaction. A drop returns it to the pool if it is clean.
pub(super) struct PooledConnection {
    /// `None` only while it is being returned.
    sql: Option<Sql>,
    permit: Option<OwnedSemaphorePermit>,
    pool: Arc<Pool>,
}

/// A transaction. A drop before its end ends its connection, and the transaction with it.
pub(super) struct Transaction {
    /// `None` only when the transaction has ended.
    connection: Option<PooledConnection>,
}

impl Pool {
    /// Makes a pool for leases that last for `ttl`. A process that is stopped in the middle of a
    /// step keeps the row of its resource, and so keeps a holder from renewing: for a small part of
    /// `ttl` at most.
    pub(super) fn new(address: Arc<Address>, ttl: Duration) -> Arc<Self> {
        Arc::new(Self {
            address,
            settings: settings((ttl / 6).clamp(IDLE_IN_TRANSACTION_MIN, IDLE_IN_TRANSACTION)),
            idle: Mutex::default(),
            permits: Arc::new(Semaphore::new(CONNECTIONS_MAX - URGENT)),
            urgent: Arc::new(Semaphore::new(URGENT)),
            closing_idle: AtomicBool::new(false),
        })
    }

    pub(super) fn address(&self) -> &Arc<Address> {
        &self.address
    }

    /// Returns a connection, within the caller's time. Asks again while the server is full.
    pub(super) async fn lend(self: &Arc<Self>, wait: Duration) -> Result<PooledConnection> {
        let deadline = Instant::now() + wait.clamp(LEND_WAIT_MIN, LEND_WAIT_MAX);
        let permit = self.permit(&self.permits, deadline).await?;
        self.lend_with(permit, deadline).await
    }

    /// Returns a connection for work that cannot wait until others are done.
    pub(super) async fn lend_urgently(self: &Arc<Self>) -> Result<PooledConnection> {
        let deadline = Instant::now() + LEND_WAIT_MAX;
        let permit = match Arc::clone(&self.permits).try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => self.permit(&self.urgent, deadline).await?,
        };
        self.lend_with(permit, deadline).await
    }

    async fn permit(
        &self,
        permits: &Arc<Semaphore>,
        deadline: Instant,
    ) -> Result<OwnedSemaphorePermit> {
        permit(permits, (&self.address, CONNECTIONS_MAX), deadline).await
    }

    async fn lend_with(
        self: &Arc<Self>,
        permit: OwnedSemaphorePermit,
        deadline: Instant,
    ) -> Result<PooledConnection> {
        let mut pauses = ConnectPauses::default();
        loop {
            while let Some(sql) = self.pop() {
                if sql.is_clean() {
                    return Ok(self.pooled(sql, permit));
                }
            }
            match Connection::try_open(&self.address, &self.settings, deadline).await {
                Ok(connection) => {
                    let sql = Sql::new(connection, Arc::clone(&self.address));
                    return Ok(self.pooled(sql, permit));
                }
                Err(refusal) => pauses.pause(refusal, deadline).await?,
            }
        }
    }

    /// Adds a connection that is not in use.
    pub(super) fn adopt(self: &Arc<Self>, connection: Connection) {
        self.give_back(Sql::new(connection, Arc::clone(&self.address)));
    }

    /// Returns the statements that set a session of the pool up.
    pub(super) fn settings(&self) -> &str {
        &self.settings
    }

    fn pooled(self: &Arc<Self>, sql: Sql, permit: OwnedSemaphorePermit) -> PooledConnection {
        PooledConnection {
            sql: Some(sql),
            permit: Some(permit),
            pool: Arc::clone(self),
        }
    }

    /// Takes the listening connection before all others, so that the others become idle and end;
    /// else the one used last.
    fn pop(&self) -> Option<Sql> {
        let mut idle = lock(&self.idle);
        let last = idle.len().checked_sub(1)?;
        let listening = idle.iter().position(|one| one.sql.listens());
        Some(idle.remove(listening.unwrap_or(last)).sql)
    }

    fn give_back(self: &Arc<Self>, sql: Sql) {
        let mut idle = lock(&self.idle);
        idle.push(Idle {
            sql,
            since: Instant::now(),
        });
        let several = idle.len() > 1;
        drop(idle);
        if several && !self.closing_idle.swap(true, Ordering::Relaxed) {
            match tokio::runtime::Handle::try_current() {
                Ok(runtime) => drop(runtime.spawn(close_idle_regularly(Arc::downgrade(self)))),
                Err(_) => self.closing_idle.store(false, Ordering::Relaxed),
            }
        }
    }

    /// Ends connections that were idle for a while, but keeps the listening one, or any one if none
    /// listens. Returns true if some are left to close later.
    fn close_idle(&self) -> bool {
        let mut idle = lock(&self.idle);
        let listening = idle.iter().any(|idle| idle.sql.listens());
        let mut kept_one = false;
        let mut over = Vec::new();
        for one in std::mem::take(&mut *idle) {
            let keep = if listening {
                one.sql.listens()
            } else {
                !std::mem::replace(&mut kept_one, true)
            };
            if keep || one.since.elapsed() < IDLE {
                idle.push(one);
            } else {
                over.push(one);
            }
        }
        let more = idle.len() > 1;
        if !more {
            self.closing_idle.store(false, Ordering::Relaxed);
        }
        drop(idle);
        drop(over);
        more
    }
}

async fn close_idle_regularly(pool: std::sync::Weak<Pool>) {
    loop {
        sleep(IDLE).await;
        match pool.upgrade() {
            Some(pool) if pool.close_idle() => {}
            _ => return,
        }
    }
}

impl PooledConnection {
    /// Begins a transaction with these statements, in one round trip.
    pub(super) async fn begin(
        self,
        first: &[Statement<'_>],
    ) -> Result<(Transaction, Vec<Vec<tokio_postgres::Row>>)> {
        // It is a transaction from the first moment on: after a failure the connection is not
        // returned to the pool inside one.
        let transaction = Transaction {
            connection: Some(self),
        };
        match transaction.framed(Frame::Begin, first).await {
            Ok(rows) => Ok((transaction, rows)),
            Err(error) => {
                transaction.give_up().await;
                Err(error)
            }
        }
    }
}

impl Deref for PooledConnection {
    type Target = Sql;

    fn deref(&self) -> &Sql {
        self.sql.as_ref().expect("taken only when dropped")
    }
}

impl DerefMut for PooledConnection {
    fn deref_mut(&mut self) -> &mut Sql {
        self.sql.as_mut().expect("taken only when dropped")
    }
}

impl Drop for PooledConnection {
    fn drop(&mut self) {
        let (Some(sql), Some(permit)) = (self.sql.take(), self.permit.take()) else {
            return;
        };
        if sql.is_clean() {
            self.pool.give_back(sql);
        } else {
            sql.end(permit);
        }
    }
}

impl Transaction {
    /// Sends these statements and the end of the transaction in one round trip. An error means that
    /// nothing was done, or, if the connection was lost, that the outcome is unknown.
    pub(super) async fn commit(mut self, writes: &[Statement<'_>], flush: Flush) -> Result<()> {
        match self.framed(Frame::Commit(flush), writes).await {
            Ok(_) => {
                self.connection = None;
                Ok(())
            }
            Err(error) => {
                // A statement that cannot be prepared fails before the commit is sent. Without an
                // answer the connection is dirty, and ended.
                if self.is_clean() {
                    self.give_up().await;
                }
                Err(error)
            }
        }
    }

    /// Rolls the transaction back.
    pub(super) async fn roll_back(mut self) -> Result<()> {
        let taken = self.sql().roll_back().await;
        if taken.is_ok() {
            self.connection = None;
        }
        taken
    }

    /// Rolls the transaction back where the answer does not matter.
    pub(super) async fn give_up(self) {
        // A failure ends the connection, and the transaction with it.
        drop(self.roll_back().await);
    }

    fn sql(&self) -> &Sql {
        self.connection
            .as_ref()
            .expect("taken only when it has ended")
    }
}

impl Deref for Transaction {
    type Target = Sql;

    fn deref(&self) -> &Sql {
        self.sql()
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        if let Some(connection) = &self.connection {
            connection.mark_dirty();
        }
    }
}

/// Returns the statements that set a session up: a commit is on disk before the caller is told,
/// whatever the administrator set, and statements are planned once, by their indexes: a plan made
/// while a table is empty is still used when it has a million rows.
fn settings(idle_in_transaction: Duration) -> String {
    let idle = idle_in_transaction.as_millis();
    format!(
        "SET idle_in_transaction_session_timeout TO {idle}; SET lock_timeout TO {idle}; \
         SET plan_cache_mode TO force_generic_plan; SET enable_seqscan TO off; SET jit TO off; \
         SELECT pg_catalog.set_config('synchronous_commit', 'on', false) \
         WHERE pg_catalog.current_setting('synchronous_commit') IN ('off', 'local')"
    )
}
