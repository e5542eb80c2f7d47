//! The guard of an advisory lock.
//!
//! # The ways out
//!
//! | way | the lock | the connection |
//! |---|---|---|
//! | [`release`](Guard::release) | given back | kept, if the server says that it was held by this session |
//! | dropped, also by a panic | given back in the background | the same |
//! | release dropped half-way | freed with the connection | ended |
//! | lost | the server's, or free | ended |

use std::fmt;
use std::sync::Arc;

use tenure_core::{Error, Mode, Result, Token};
use tokio::time::timeout;

use super::Key;
use super::liveness::{GuardState, LOST_AFTER, Liveness};
use super::pool::Pool;
use super::reentry::Reservation;
use super::sql::Prepared;
use crate::Address;

/// Holds an advisory lock until released or dropped.
///
/// A drop gives the lock back in the background; [`release`](Guard::release) does so at once, and returns the outcome.
#[must_use = "dropping the guard releases the lock"]
pub struct Guard {
    locked: Option<LockedConnection>,
    liveness: Arc<Liveness>,
    address: Arc<Address>,
    key: Key,
    mode: Mode,
    token: Token,
    pid: i32,
}

/// The connection that holds the lock, with what a release needs.
struct LockedConnection {
    prepared: Prepared,
    pool: Arc<Pool>,
    liveness: Arc<Liveness>,
    key: Key,
    mode: Mode,
    pid: i32,
    /// Once it is dropped the session may ask for the key again.
    reservation: Option<Reservation>,
}

/// A grant, as [`acquire`](super::acquire) got it.
pub(super) struct Grant {
    pub(super) prepared: Prepared,
    pub(super) reservation: Reservation,
    pub(super) key: Key,
    pub(super) mode: Mode,
    pub(super) token: Token,
    /// When the last statement was sent that proved it, in milliseconds since boot.
    pub(super) sent: u64,
}

impl Guard {
    pub(super) fn new(pool: &Arc<Pool>, grant: Grant) -> Guard {
        let connection = &grant.prepared.connection;
        let pid = connection.pid;
        let liveness = Arc::new(Liveness::new(grant.sent, connection.over()));
        grant.prepared.prober.watch(Arc::clone(&liveness));
        Guard {
            locked: Some(LockedConnection {
                prepared: grant.prepared,
                pool: Arc::clone(pool),
                liveness: Arc::clone(&liveness),
                key: grant.key,
                mode: grant.mode,
                pid,
                reservation: Some(grant.reservation),
            }),
            liveness,
            address: Arc::clone(&pool.address),
            key: grant.key,
            mode: grant.mode,
            token: grant.token,
            pid,
        }
    }

    /// Returns the key that is held.
    pub fn key(&self) -> Key {
        self.key
    }

    /// Returns the mode: read is shared, write is exclusive.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Returns its fencing token. A shared grant carries that of the last exclusive one, or none.
    pub fn token(&self) -> Token {
        self.token
    }

    /// Returns the process at the server that holds it, as in `pg_locks`.
    pub fn backend_pid(&self) -> i32 {
        self.pid
    }

    /// Returns how far the lock can be trusted now.
    pub fn state(&self) -> GuardState {
        self.liveness.state()
    }

    /// Waits until the lock is lost, and returns why. Any number of tasks may wait.
    pub async fn lost(&self) -> Error {
        let reason = self.liveness.lost().await;
        self.loss(reason)
    }

    /// Fails if the lock is lost.
    ///
    /// # Errors
    ///
    /// `Lost`, with the reason.
    pub fn check(&self) -> Result<()> {
        match self.liveness.reason() {
            None => Ok(()),
            Some(reason) => Err(self.loss(reason)),
        }
    }

    /// Gives the lock back. When this returns, others can have it, unless the server could not be reached: it then frees the
    /// lock when it notices that the connection is gone.
    ///
    /// # Errors
    ///
    /// `Lost` if it was not held to the end; `Unreachable` if nobody knows.
    pub async fn release(mut self) -> Result<()> {
        self.check()?;
        let Some(locked) = self.locked.take() else {
            return Ok(());
        };
        let released = locked.give_back().await;
        match released {
            Ok(()) => Ok(()),
            Err(Failed::NotHeld(reason)) => Err(self.loss(reason)),
            Err(Failed::Unknown(error)) => Err(error),
        }
    }

    fn loss(&self, reason: String) -> Error {
        match self.key.context(self.mode, self.address.to_string()) {
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
        // The session may ask again, and then waits for the release like everyone.
        locked.reservation = None;
        // A lock that is lost is not given back: its connection ends here.
        if self.liveness.reason().is_some() {
            return;
        }
        let runtime = locked.prepared.connection.runtime.clone();
        // A lock that cannot be given back is freed with its connection, which ends.
        runtime.spawn(locked.give_back());
    }
}

enum Failed {
    NotHeld(String),
    Unknown(Error),
}

impl LockedConnection {
    /// Unlocks, and resets the name of the connection. Returns whether the lock was held, and the session that answered.
    async fn unlock(&mut self) -> Result<(bool, i32), tokio_postgres::Error> {
        self.prepared.prober.unwatch();
        let client = Arc::clone(self.prepared.connection.client());
        let unlocking = self.prepared.unlock(self.mode, self.key);
        if !self.liveness.is_shown() {
            return unlocking.await;
        }
        let (unlocked, hidden) = tokio::join!(unlocking, self.pool.name.hide(&client));
        hidden?;
        unlocked
    }

    /// Unlocks, and returns the connection to the pool only if this session held the lock: that proves it clean.
    async fn give_back(mut self) -> Result<(), Failed> {
        let unlocked = timeout(LOST_AFTER, self.unlock()).await;
        let connection = &self.prepared.connection;
        match unlocked {
            Ok(Ok((true, pid))) if pid == self.pid => {
                self.pool.give_back(self.prepared);
                Ok(())
            }
            Ok(Ok((_, pid))) if pid != self.pid => {
                let reason = format!("session {} became {pid}", self.pid);
                Err(Failed::NotHeld(reason))
            }
            Ok(Ok(_)) => Err(Failed::NotHeld("the server did not hold it".into())),
            Ok(Err(error)) if connection.is_over() => {
                Err(Failed::NotHeld(crate::fault::message(&error)))
            }
            Ok(Err(error)) => Err(Failed::Unknown(connection.explain(&error))),
            Err(_) => {
                let address = &self.pool.address;
                let error = crate::fault::unreachable(address, "no answer to the release");
                Err(Failed::Unknown(error))
            }
        }
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, mode, token) = (self.key, self.mode, self.token);
        write!(f, "Guard({key} {mode} #{token}, {:?})", self.state())
    }
}
