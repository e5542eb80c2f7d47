//! The connections that locks are held on: 15 are kept, 10 more are opened when needed.
//!
//! # Invariants
//!
//! - A connection here is clean: it holds no lock, and nothing is under way on it. Only
//!   [`give_back`](Pool::give_back) puts one here, and only a release that was proved calls it. Any
//!   other way out drops the connection, which ends it.
//! - Kept ones are used before a new one is opened, the last one given back first.

use std::sync::Arc;
use std::time::Instant;

use tenure_core::Result;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::Settings;
use super::since::Name;
use super::sql::Prepared;
use super::tokens::Highest;
use crate::Address;
use crate::connect::{Connection, left};
use crate::fault::unreachable;
use crate::pool::{Connections, Origin, Pooled};

pub(super) struct Pool {
    pub(super) address: Arc<Address>,
    connections: Connections<Prepared>,
    keep: usize,
    pub(super) name: Name,
    pub(super) highest: Highest,
}

impl Pooled for Prepared {
    fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }

    fn is_usable(&self) -> bool {
        !self.connection.is_over()
    }
}

impl Pool {
    /// Begins with one connection, which is kept.
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
        let connections = Connections::new(Arc::clone(&address), String::new(), limit, limit);
        let pool = Self {
            address,
            connections,
            keep: settings.pool,
            name,
            highest: Highest::default(),
        };
        let first = pool.prepare(connection, deadline).await?;
        pool.give_back(first);
        Ok(pool)
    }

    /// Returns a clean connection, within the deadline.
    pub(super) async fn take(&self, deadline: Instant) -> Result<(Prepared, Origin)> {
        let permits = self.connections.permits();
        let permit = self.connections.permit(permits, deadline).await?;
        let prepare = async |connection| self.prepare(connection, deadline).await;
        self.connections.take(permit, deadline, prepare).await
    }

    /// Takes back a connection that is proved to be clean.
    pub(super) fn give_back(&self, prepared: Prepared) {
        self.connections.give_back(prepared, self.keep);
    }

    /// Returns the number of connections kept, and of those that could still be taken at once.
    pub(super) fn kept_and_free(&self) -> (usize, usize) {
        let kept = self.connections.kept();
        (kept.len(), self.connections.permits().available_permits())
    }

    async fn prepare(&self, connection: Connection, deadline: Instant) -> Result<Prepared> {
        let preparing = Prepared::new(connection, &self.name);
        let prepared = timeout(left(deadline), preparing).await;
        prepared.map_err(|_| unreachable(&self.address, "no answer in time"))?
    }
}
