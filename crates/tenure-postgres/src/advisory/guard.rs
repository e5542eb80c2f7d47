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
use std::sync::atomic::{AtomicBool, Ordering};

use tenure_core::{Error, Mode, Result, Token};
use tokio::time::timeout;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row};

use super::Key;
use super::pool::{InHand, Pool};
use super::reentry::Claim;
use super::sql::Prepared;
use super::standing::{GuardState, LOST_AFTER, Standing};
use crate::Address;
use crate::fault::{explain, unreachable};

/// Removes the record of a connection.
const FORGET: &str = "DELETE FROM tenure.advisory_holders WHERE pid = pg_catalog.pg_backend_pid()";

/// Holds an advisory lock until released or dropped.
///
/// Dropping it gives the lock back in the background; [`release`](Guard::release) does so at once, and tells how it went.
#[must_use = "dropping the guard releases the lock"]
pub struct Guard {
    held: Option<Held>,
    _in_hand: InHand,
    standing: Arc<Standing>,
    address: Arc<Address>,
    key: Key,
    mode: Mode,
    token: Token,
    pid: i32,
}

/// What a release needs, and gives up.
struct Held {
    prepared: Prepared,
    pool: Arc<Pool>,
    standing: Arc<Standing>,
    key: Key,
    mode: Mode,
    pid: i32,
    /// Whether a record of it was written.
    recorded: AtomicBool,
    /// The session may ask again once it is dropped.
    claim: Option<Claim>,
}

/// What was granted.
pub(super) struct Grant {
    pub(super) prepared: Prepared,
    pub(super) in_hand: InHand,
    pub(super) claim: Claim,
    pub(super) key: Key,
    pub(super) mode: Mode,
    pub(super) token: Token,
    /// When the last question was sent that proved it, in milliseconds since boot.
    pub(super) sent: u64,
}

impl Guard {
    pub(super) fn new(pool: &Arc<Pool>, grant: Grant) -> Guard {
        let connection = &grant.prepared.connection;
        let pid = connection.pid();
        let standing = Arc::new(Standing::new(grant.sent, connection.over()));
        grant.prepared.prober.hold(Arc::clone(&standing));
        Guard {
            held: Some(Held {
                prepared: grant.prepared,
                pool: Arc::clone(pool),
                standing: Arc::clone(&standing),
                key: grant.key,
                mode: grant.mode,
                pid,
                recorded: AtomicBool::new(false),
                claim: Some(grant.claim),
            }),
            _in_hand: grant.in_hand,
            standing,
            address: Arc::clone(pool.address()),
            key: grant.key,
            mode: grant.mode,
            token: grant.token,
            pid,
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

    /// What writes on the connection that holds the lock.
    pub(super) fn recorder(&self) -> Result<Recorder> {
        let held = self.held.as_ref();
        let held = held.ok_or_else(|| Error::Internal("a guard that was released".into()))?;
        held.recorded.store(true, Ordering::Release);
        Ok(Recorder {
            client: Arc::clone(held.prepared.connection.client()),
            address: Arc::clone(&self.address),
            key: self.key,
        })
    }

    /// Gives the lock back. When this returns, others can have it, unless the server could not be reached: it then frees the
    /// lock when it notices that the connection is gone.
    ///
    /// # Errors
    ///
    /// `Lost` if it was not held to the end; `Unreachable` if nobody knows.
    pub async fn release(mut self) -> Result<()> {
        self.check()?;
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

    /// Drops several so that the first is free before the second is.
    pub(super) fn drop_in_order(guards: impl IntoIterator<Item = Guard>) {
        let held = guards.into_iter().filter_map(|mut guard| guard.let_go());
        give_back_later(held);
    }

    /// What is to be given back. What is lost is not: its connection ends.
    fn let_go(&mut self) -> Option<Held> {
        let mut held = self.held.take()?;
        // The session may ask again, and then waits for the release like anybody else.
        held.claim = None;
        self.standing.reason().is_none().then_some(held)
    }

    fn loss(&self, reason: String) -> Error {
        match self.key.place(self.mode, &self.address) {
            Ok(place) => Error::Lost { place, reason },
            Err(error) => error,
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        give_back_later(self.let_go());
    }
}

/// Gives locks back in the background, one after the other.
fn give_back_later(all: impl IntoIterator<Item = Held>) {
    let all: Vec<Held> = all.into_iter().collect();
    let Some(first) = all.first() else { return };
    let runtime = first.prepared.connection.runtime().clone();
    runtime.spawn(async move {
        for held in all {
            // What cannot be given back is freed with the connection, which is dropped.
            let _ = held.give_back().await;
        }
    });
}

/// Asks something on the connection that holds a lock, beside its probes.
pub(super) struct Recorder {
    client: Arc<Client>,
    address: Arc<Address>,
    key: Key,
}

impl Recorder {
    pub(super) fn key(&self) -> Key {
        self.key
    }

    pub(super) async fn rows(&self, sql: &str, values: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>> {
        let asked = timeout(LOST_AFTER, self.client.query(sql, values)).await;
        asked
            .map_err(|_| unreachable(&self.address, "no answer in time"))?
            .map_err(|error| explain(&self.address, &error))
    }
}

enum Failed {
    NotHeld(String),
    Unknown(Error),
}

impl Held {
    /// Whether it was held, and by whom. The connection is called as before.
    async fn unlock(&mut self) -> Result<(bool, i32), tokio_postgres::Error> {
        self.prepared.prober.let_go();
        let client = Arc::clone(self.prepared.connection.client());
        if self.recorded.load(Ordering::Acquire) {
            // Before others can have the key: a record of this connection is only ever that of what it holds.
            client.batch_execute(FORGET).await?;
        }
        let unlocking = self.prepared.unlock(self.mode, self.key);
        if !self.standing.is_shown() {
            return unlocking.await;
        }
        let (unlocked, hidden) = tokio::join!(unlocking, self.pool.name().hide(&client));
        hidden?;
        unlocked
    }

    /// Only a lock that this session held is proof that the connection is clean.
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
