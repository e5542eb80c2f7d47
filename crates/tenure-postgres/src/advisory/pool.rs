//! The connections that locks are held on: 15 are kept, 10 more are opened when needed.
//!
//! # Invariants
//!
//! - A connection here is clean: it holds no lock, and nothing is under way on it. Only
//!   [`give_back`](Pool::give_back) puts one here, and only a release that was proved calls it. Any
//!   other way out drops the connection, which ends it.
//! - Never more than all are open: each counts until it is back here, or ended at the server.
//! - Kept ones are used before a new one is opened, the last one given back first.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tenure_core::{Error, Result};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use super::since::Name;
use super::sql::Prepared;
use super::tokens::Highest;
use crate::connect::{Connection, Pauses, left};
use crate::fault::unreachable;
use crate::{Address, Settings, schema};

/// How long it takes at most to end a connection.
pub(super) const SETTLING: Duration = Duration::from_secs(3);
/// Of more than these nobody asks whether they have ended.
const ENDED_MAX: usize = 1000;
/// How often it is looked whether all are back.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(1);

pub(super) struct Pool {
    address: Arc<Address>,
    kept: Mutex<Vec<Prepared>>,
    keep: usize,
    permits: Arc<Semaphore>,
    limit: usize,
    name: Name,
    highest: Highest,
    /// How many are in somebody's hands.
    in_hand: Arc<AtomicUsize>,
    ended: Ended,
}

/// The sessions that were ended lately, and may still be there at the server.
#[derive(Clone, Default)]
pub(super) struct Ended(Arc<Mutex<Vec<i32>>>);

impl Ended {
    pub(super) fn note(&self, pid: i32) {
        let mut pids = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if pids.len() < ENDED_MAX {
            pids.push(pid);
        }
    }

    pub(super) fn take(&self) -> Vec<i32> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A connection in somebody's hands. Dropped before the connection is back or ended, that is still owed.
pub(super) struct InHand(Arc<AtomicUsize>);

impl Drop for InHand {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Where a connection comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// It was kept, and may have ended unnoticed.
    Kept,
    /// It was opened for this.
    Fresh,
}

impl Pool {
    /// Sees that the tables are there, with the first connection, which is then kept.
    pub(super) async fn open(
        address: Arc<Address>,
        settings: &Settings,
        connection: Connection,
        deadline: Instant,
    ) -> Result<Self> {
        let limit = settings.pool.saturating_add(settings.overflow).max(1);
        let limit = limit.min(Semaphore::MAX_PERMITS);
        let name = address.config().get_application_name();
        let name = Name::new(name.unwrap_or("tenure"));
        let pool = Self {
            address,
            kept: Mutex::default(),
            keep: settings.pool,
            permits: Arc::new(Semaphore::new(limit)),
            limit,
            name,
            highest: Highest::default(),
            in_hand: Arc::default(),
            ended: Ended::default(),
        };
        schema::migrate(&connection, &pool.address, deadline).await?;
        let first = pool.prepare(connection, deadline).await?;
        pool.give_back(first);
        Ok(pool)
    }

    pub(super) fn address(&self) -> &Arc<Address> {
        &self.address
    }

    /// What its connections are called.
    pub(super) fn name(&self) -> &Name {
        &self.name
    }

    /// The highest token that was drawn here.
    pub(super) fn highest(&self) -> &Highest {
        &self.highest
    }

    /// Notes that a connection that was taken is in somebody's hands.
    pub(super) fn in_hand(&self) -> InHand {
        self.in_hand.fetch_add(1, Ordering::AcqRel);
        InHand(Arc::clone(&self.in_hand))
    }

    /// The sessions that were ended lately.
    pub(super) fn ended(&self) -> &Ended {
        &self.ended
    }

    /// Whether more are in use than are in somebody's hands: they are about to be given back, or opened.
    pub(super) fn owes(&self) -> bool {
        let used = self.limit.saturating_sub(self.permits.available_permits());
        used > self.in_hand.load(Ordering::Acquire)
    }

    /// Waits until that is over. It is a matter of a round trip or two, so it is looked at again and again.
    pub(super) async fn settled(&self) {
        let until = Instant::now() + SETTLING;
        while self.owes() && Instant::now() < until {
            sleep(LOOK_EVERY).await;
        }
    }

    /// A clean connection, within the deadline.
    pub(super) async fn take(&self, deadline: Instant) -> Result<(Prepared, Origin)> {
        let asked = Instant::now();
        let permit = timeout(left(deadline), Arc::clone(&self.permits).acquire_owned()).await;
        let permit = permit.map_err(|_| Error::Exhausted {
            store: self.address.to_string(),
            limit: self.limit,
            waited: asked.elapsed(),
        })?;
        let permit = permit.map_err(|_| Error::Internal("the pool was closed".into()))?;
        let mut pauses = Pauses::default();
        loop {
            if let Some(mut prepared) = self.pop() {
                if prepared.connection.is_over() {
                    continue;
                }
                prepared.connection.permit = Some(permit);
                return Ok((prepared, Origin::Kept));
            }
            match Connection::try_open(&self.address, deadline).await {
                Ok(mut connection) => {
                    connection.permit = Some(permit);
                    let prepared = self.prepare(connection, deadline).await?;
                    return Ok((prepared, Origin::Fresh));
                }
                // The server may be full because of those that have been given back here since.
                Err(refusal) => pauses.pause(refusal, deadline).await?,
            }
        }
    }

    /// Takes back a connection that is proved to be clean.
    pub(super) fn give_back(&self, mut prepared: Prepared) {
        let permit = prepared.connection.permit.take();
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < self.keep {
            kept.push(prepared);
        } else {
            drop(kept);
            // It counts until it is ended.
            prepared.connection.permit = permit;
        }
    }

    /// How many are kept, and how many more could be taken at once.
    pub(super) fn standing(&self) -> (usize, usize) {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        (kept.len(), self.permits.available_permits())
    }

    async fn prepare(&self, connection: Connection, deadline: Instant) -> Result<Prepared> {
        let preparing = Prepared::new(connection, &self.name, &self.ended);
        let prepared = timeout(left(deadline), preparing).await;
        prepared.map_err(|_| unreachable(&self.address, "no answer in time"))?
    }

    fn pop(&self) -> Option<Prepared> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.pop()
    }
}
