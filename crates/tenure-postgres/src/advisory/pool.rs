//! The connections that locks are held on: by default 15 are kept, and 10 more opened when needed.
//!
//! # Invariants
//!
//! - A connection here is clean: it holds no lock, and nothing is under way on it. Only
//!   [`give_back`](Pool::give_back) puts one here, and only a release that was proved calls it. Any
//!   other way out drops the connection, which ends it.
//! - Never more than the kept and the further ones together are open: each counts until it is back
//!   here, or ended at the server.
//! - A kept connection is used before a new one is opened: first the one given back last.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use tenure_core::Result;
use tenure_core::internal::lock;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::Settings;
use super::since::Name;
use super::sql::Prepared;
use super::tokens::Highest;
use crate::Address;
use crate::connect::{ConnectPauses, Connection, left, permit};
use crate::fault::unreachable;

pub(super) struct Pool {
    pub(super) address: Arc<Address>,
    kept: Mutex<Vec<Prepared>>,
    keep: usize,
    permits: Arc<Semaphore>,
    limit: usize,
    pub(super) name: Name,
    pub(super) highest: Highest,
}

/// The origin of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// The pool kept it, and it may have ended unnoticed.
    Kept,
    /// The pool opened it for this request.
    Fresh,
}

impl Pool {
    /// Makes a pool of one connection, which is kept.
    pub(super) async fn with(
        address: Arc<Address>,
        settings: &Settings,
        connection: Connection,
        deadline: Instant,
    ) -> Result<Self> {
        let limit = settings.pool.saturating_add(settings.overflow).max(1);
        let limit = limit.min(Semaphore::MAX_PERMITS);
        let name = address.config.get_application_name();
        let name = Name::new(name.unwrap_or("tenure"));
        let pool = Self {
            address,
            kept: Mutex::default(),
            keep: settings.pool,
            permits: Arc::new(Semaphore::new(limit)),
            limit,
            name,
            highest: Highest::default(),
        };
        let first = pool.prepare(connection, deadline).await?;
        pool.give_back(first);
        Ok(pool)
    }

    /// Returns a clean connection, within the deadline.
    pub(super) async fn take(&self, deadline: Instant) -> Result<(Prepared, Origin)> {
        let permit = permit(&self.permits, (&self.address, self.limit), deadline).await?;
        let mut pauses = ConnectPauses::default();
        loop {
            if let Some(mut prepared) = self.pop() {
                if prepared.connection.is_over() {
                    continue;
                }
                prepared.connection.permit = Some(permit);
                return Ok((prepared, Origin::Kept));
            }
            match Connection::try_open(&self.address, "", deadline).await {
                Ok(mut connection) => {
                    connection.permit = Some(permit);
                    let prepared = self.prepare(connection, deadline).await?;
                    return Ok((prepared, Origin::Fresh));
                }
                // The server may be full because of connections that were given back here in the
                // meantime.
                Err(refusal) => pauses.pause(refusal, deadline).await?,
            }
        }
    }

    /// Takes back a connection that is proved to be clean.
    pub(super) fn give_back(&self, mut prepared: Prepared) {
        let permit = prepared.connection.permit.take();
        let mut kept = lock(&self.kept);
        if kept.len() < self.keep {
            kept.push(prepared);
        } else {
            drop(kept);
            // The connection counts until it is ended.
            prepared.connection.permit = permit;
        }
    }

    /// Returns the number of connections kept, and of those that could still be taken at once.
    pub(super) fn kept_and_free(&self) -> (usize, usize) {
        let kept = lock(&self.kept);
        (kept.len(), self.permits.available_permits())
    }

    async fn prepare(&self, connection: Connection, deadline: Instant) -> Result<Prepared> {
        let preparing = Prepared::new(connection, &self.name);
        let prepared = timeout(left(deadline), preparing).await;
        prepared.map_err(|_| unreachable(&self.address, "no answer in time"))?
    }

    fn pop(&self) -> Option<Prepared> {
        lock(&self.kept).pop()
    }
}
