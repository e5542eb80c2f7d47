//! An advisory lock in hand.
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

use tenure_core::{Error, Mode, Place, Result, Token};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::Key;
use super::pool::Pool;
use super::reentry::Claim;
use super::sql::Prepared;
use super::standing::{GuardState, LOST_AFTER, Probe, Standing, watch_over};

/// Holds an advisory lock until released or dropped.
///
/// Dropping it gives the lock back in the background; [`release`](Guard::release) does so at once, and tells how it went.
#[must_use = "dropping the guard releases the lock"]
pub struct Guard {
    held: Option<Held>,
    standing: Arc<Standing>,
    probe: AbortHandle,
    key: Key,
    mode: Mode,
    token: Token,
    pid: i32,
    place: Box<Place>,
}

/// What a release needs, and gives up.
struct Held {
    prepared: Prepared,
    pool: Arc<Pool>,
    key: Key,
    mode: Mode,
    pid: i32,
    /// The session may ask again once it is dropped.
    claim: Option<Claim>,
}

/// What was granted.
pub(super) struct Grant {
    pub(super) prepared: Prepared,
    pub(super) probe: Probe,
    pub(super) claim: Claim,
    pub(super) key: Key,
    pub(super) mode: Mode,
    pub(super) token: Token,
    /// When the last question was sent that proved it, in milliseconds since boot.
    pub(super) sent: u64,
    pub(super) place: Box<Place>,
}

impl Guard {
    pub(super) fn new(pool: &Arc<Pool>, grant: Grant) -> Guard {
        let standing = Arc::new(Standing::new(grant.sent));
        let pid = grant.prepared.connection.pid();
        let runtime = grant.prepared.connection.runtime();
        let probe = runtime.spawn(watch_over(Arc::clone(&standing), grant.probe));
        Guard {
            standing,
            probe: probe.abort_handle(),
            held: Some(Held {
                prepared: grant.prepared,
                pool: Arc::clone(pool),
                key: grant.key,
                mode: grant.mode,
                pid,
                claim: Some(grant.claim),
            }),
            key: grant.key,
            mode: grant.mode,
            token: grant.token,
            pid,
            place: grant.place,
        }
    }

    /// What is held.
    pub fn key(&self) -> Key {
        self.key
    }

    /// How it is held: read is shared, write is exclusive.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Its fencing token. A shared grant carries that of the last exclusive one, or none.
    pub fn token(&self) -> Token {
        self.token
    }

    /// The process at the server that holds it, as in `pg_locks`.
    pub fn backend_pid(&self) -> i32 {
        self.pid
    }

    /// How far it can be trusted, now.
    pub fn state(&self) -> GuardState {
        self.standing.state()
    }

    /// Waits until the lock is lost, and says why. Any number may wait.
    pub async fn lost(&self) -> Error {
        let reason = self.standing.lost().await;
        self.loss(reason)
    }

    /// Fails if the lock is lost.
    ///
    /// # Errors
    ///
    /// `Lost`, with the reason.
    pub fn check(&self) -> Result<()> {
        match self.standing.reason() {
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
        self.probe.abort();
        let Some(held) = self.held.take() else {
            return Ok(());
        };
        let released = held.give_back().await;
        match released {
            Ok(()) => Ok(()),
            Err(Failed::NotHeld(reason)) => Err(self.loss(reason)),
            Err(Failed::Unknown(error)) => Err(error),
        }
    }

    fn loss(&self, reason: String) -> Error {
        Error::Lost {
            place: self.place.clone(),
            reason,
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.probe.abort();
        let Some(mut held) = self.held.take() else {
            return;
        };
        // The session may ask again, and then waits for the release like anybody else.
        held.claim = None;
        if self.standing.reason().is_some() {
            return;
        }
        let runtime = held.prepared.connection.runtime().clone();
        runtime.spawn(async move {
            // What cannot be given back is freed with the connection, which is dropped.
            let _ = held.give_back().await;
        });
    }
}

enum Failed {
    NotHeld(String),
    Unknown(Error),
}

impl Held {
    /// Only a lock that this session held is proof that the connection is clean.
    async fn give_back(mut self) -> Result<(), Failed> {
        let unlocked = timeout(LOST_AFTER, self.prepared.unlock(self.mode, self.key)).await;
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
                let address = self.pool.address();
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
