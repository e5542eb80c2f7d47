//! The guard of an advisory lock.
//!
//! # The ways out
//!
//! | way | the lock | the connection |
//! |---|---|---|
//! | [`release`](Guard::release) | given back | kept, if the server says that it was held by this session |
//! | dropped, also by a panic | given back in the background | as with `release` |
//! | `release` dropped half-way | freed with the connection | ended |
//! | lost | freed, or still held at the server | ended |

use std::fmt;
use std::sync::Arc;

use tenure_core::{Error, Mode, Result, Token};
use tokio::time::timeout;

use super::Key;
use super::acquire::Ask;
use super::liveness::{GuardState, LOST_AFTER, Liveness};
use super::pool::Pool;
use super::reentry::Reservation;
use super::sql::Prepared;
use crate::fault::{message, unreachable};

/// Holds an advisory lock until released or dropped.
///
/// A drop gives the lock back in the background; [`release`](Guard::release) does so at once, and
/// returns the outcome.
#[must_use = "dropping the guard releases the lock"]
pub struct Guard {
    /// `None` once the lock is being given back.
    locked: Option<LockedConnection>,
    lock: Lock,
    token: Token,
}

/// A lock that was granted: its key, and how it was granted.
#[derive(Clone)]
struct Lock {
    pool: Arc<Pool>,
    liveness: Arc<Liveness>,
    key: Key,
    mode: Mode,
    pid: i32,
}

/// The connection that holds the lock, with what a release needs.
struct LockedConnection {
    prepared: Prepared,
    lock: Lock,
    /// Keeps the session from asking for the key again, until dropped.
    reservation: Option<Reservation>,
}

impl Guard {
    /// Makes the guard of a grant. `sent` is when the last statement that proved it was sent, in
    /// milliseconds since boot.
    pub(super) fn new(
        pool: &Arc<Pool>,
        ask: Ask,
        prepared: Prepared,
        token: Token,
        sent: u64,
    ) -> Guard {
        let connection = &prepared.connection;
        let lock = Lock {
            pool: Arc::clone(pool),
            liveness: Arc::new(Liveness::new(sent, connection.over())),
            key: ask.key,
            mode: ask.mode,
            pid: connection.pid,
        };
        prepared.prober.watch(Arc::clone(&lock.liveness));
        Guard {
            locked: Some(LockedConnection {
                prepared,
                lock: lock.clone(),
                reservation: Some(ask.reservation),
            }),
            lock,
            token,
        }
    }

    /// Returns the key that is held.
    pub fn key(&self) -> Key {
        self.lock.key
    }

    /// Returns the mode: read is shared, write is exclusive.
    pub fn mode(&self) -> Mode {
        self.lock.mode
    }

    /// Returns the fencing token. A shared grant carries the token of the last exclusive one, or
    /// none.
    pub fn token(&self) -> Token {
        self.token
    }

    /// Returns the process at the server that holds the lock, as in `pg_locks`.
    pub fn backend_pid(&self) -> i32 {
        self.lock.pid
    }

    /// Returns how far the lock can be trusted now.
    pub fn state(&self) -> GuardState {
        self.lock.liveness.state()
    }

    /// Returns when the last proof that the server gave was asked for, in milliseconds since boot.
    /// Three seconds later the lock counts as lost.
    pub fn proved_at_ms(&self) -> u64 {
        self.lock.liveness.proved_at_ms()
    }

    /// Waits until the lock is lost, and returns why. Any number of tasks may wait.
    pub async fn lost(&self) -> Error {
        let reason = self.lock.liveness.lost().await;
        self.lock.loss(reason)
    }

    /// Fails if the lock is lost.
    ///
    /// # Errors
    ///
    /// `Lost`, with the reason.
    pub fn check(&self) -> Result<()> {
        match self.lock.liveness.reason() {
            None => Ok(()),
            Some(reason) => Err(self.lock.loss(reason)),
        }
    }

    /// Gives the lock back. When this returns, others can have it, unless the server could not be
    /// reached: it then frees the lock when it notices that the connection is gone.
    ///
    /// # Errors
    ///
    /// `Lost` if it was not held to the end; `Unreachable` if that is not known.
    pub async fn release(mut self) -> Result<()> {
        self.check()?;
        let Some(locked) = self.locked.take() else {
            return Ok(());
        };
        locked.release().await
    }
}

impl Lock {
    fn loss(&self, reason: String) -> Error {
        match self.key.context(self.mode, self.pool.address.to_string()) {
            Ok(context) => Error::lost(context, reason),
            Err(error) => error,
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let Some(mut locked) = self.locked.take() else {
            return;
        };
        // The session may ask again, and then waits for the release like every other session.
        locked.reservation = None;
        // A lock that is lost is not given back: its connection ends here.
        if self.lock.liveness.reason().is_some() {
            return;
        }
        let runtime = locked.prepared.connection.runtime.clone();
        // A lock that cannot be given back is freed with its connection, which ends.
        runtime.spawn(locked.release());
    }
}

impl LockedConnection {
    /// Unlocks, and resets the name of the connection. Returns whether the lock was held, and the
    /// session that answered.
    async fn unlock(&mut self) -> Result<(bool, i32), tokio_postgres::Error> {
        self.prepared.prober.unwatch();
        let client = Arc::clone(self.prepared.connection.client());
        let unlocking = self.prepared.unlock(self.lock.mode, self.lock.key);
        if !self.lock.liveness.is_shown() {
            return unlocking.await;
        }
        let (unlocked, hidden) =
            tokio::join!(unlocking, self.lock.pool.name.clear_held_since(&client));
        hidden?;
        unlocked
    }

    /// Unlocks, and returns the connection to the pool only if this session held the lock, which
    /// proves the connection clean.
    async fn release(mut self) -> Result<()> {
        let unlocked = timeout(LOST_AFTER, self.unlock()).await;
        let connection = &self.prepared.connection;
        let Lock { pool, pid, .. } = &self.lock;
        let no_answer = || unreachable(&pool.address, "no answer to the release");
        let lost = match unlocked.map_err(|_| no_answer())? {
            Ok((true, by)) if by == *pid => {
                pool.give_back(self.prepared);
                return Ok(());
            }
            Ok((_, by)) if by != *pid => format!("session {pid} became {by}"),
            Ok(_) => "the server did not hold it".into(),
            Err(error) if connection.is_over() => message(&error),
            Err(error) => return Err(connection.explain(&error)),
        };
        Err(self.lock.loss(lost))
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, mode, token) = (self.key(), self.mode(), self.token);
        write!(f, "Guard({key} {mode} #{token}, {:?})", self.state())
    }
}
