//! The connections of a store, and those that advisory locks are held on.
//!
//! # Invariants
//!
//! - A connection that is kept here is clean: whoever gives one back has proved that, and one that
//!   is no longer usable is not lent again.
//! - Never more than the limit are open: each counts until it is back here, or ended at the server.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use tenure_core::internal::lock;
use tenure_core::{Error, Result};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::Address;
use crate::connect::{ConnectPauses, Connection, left};

/// A connection with what was prepared on it.
pub(crate) trait Pooled {
    /// Returns the connection.
    fn connection(&mut self) -> &mut Connection;

    /// Returns true if it can be lent again.
    fn is_usable(&self) -> bool;

    /// Returns true if it is lent, and kept, before all others.
    fn is_preferred(&self) -> bool {
        false
    }
}

/// The origin of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// It was kept, and may have ended unnoticed.
    Kept,
    /// It was opened for this.
    Fresh,
}

pub(crate) struct Connections<C> {
    pub(crate) address: Arc<Address>,
    /// The statements that set a session up.
    pub(crate) settings: String,
    kept: Mutex<Vec<Kept<C>>>,
    permits: Arc<Semaphore>,
    limit: usize,
}

/// A connection that is not in use.
pub(crate) struct Kept<C> {
    pub(crate) pooled: C,
    since: Instant,
}

impl<C> Kept<C> {
    /// Returns the time that it was not used.
    pub(crate) fn idle(&self) -> Duration {
        self.since.elapsed()
    }
}

impl<C: Pooled> Connections<C> {
    /// Makes a pool. `permits` are lent to all who ask, and `limit` is told to whom there is none
    /// for.
    pub(crate) fn new(
        address: Arc<Address>,
        settings: String,
        permits: usize,
        limit: usize,
    ) -> Self {
        Self {
            address,
            settings,
            kept: Mutex::default(),
            permits: Arc::new(Semaphore::new(permits)),
            limit,
        }
    }

    /// Returns those that are not in use.
    pub(crate) fn kept(&self) -> MutexGuard<'_, Vec<Kept<C>>> {
        lock(&self.kept)
    }

    /// Returns the permits that are lent to all.
    pub(crate) fn permits(&self) -> &Arc<Semaphore> {
        &self.permits
    }

    /// Waits for one of these permits.
    pub(crate) async fn permit(
        &self,
        permits: &Arc<Semaphore>,
        deadline: Instant,
    ) -> Result<OwnedSemaphorePermit> {
        let asked = Instant::now();
        let permit = timeout(left(deadline), Arc::clone(permits).acquire_owned()).await;
        let permit = permit.map_err(|_| Error::Exhausted {
            store: self.address.to_string(),
            limit: self.limit,
            waited: asked.elapsed(),
        })?;
        permit.map_err(|_| Error::Internal("the pool was closed".into()))
    }

    /// Returns a connection that was kept, the last one given back first, or opens one. A server
    /// that is full is asked again: it may be so because of those that are given back meanwhile.
    pub(crate) async fn take(
        &self,
        permit: OwnedSemaphorePermit,
        deadline: Instant,
        prepare: impl AsyncFnOnce(Connection) -> Result<C>,
    ) -> Result<(C, Origin)> {
        let mut pauses = ConnectPauses::default();
        loop {
            while let Some(mut pooled) = self.pop() {
                if pooled.is_usable() {
                    pooled.connection().permit = Some(permit);
                    return Ok((pooled, Origin::Kept));
                }
            }
            match Connection::try_open(&self.address, &self.settings, deadline).await {
                Ok(mut connection) => {
                    connection.permit = Some(permit);
                    return Ok((prepare(connection).await?, Origin::Fresh));
                }
                Err(refusal) => pauses.pause(refusal, deadline).await?,
            }
        }
    }

    /// Takes back a connection that is proved to be clean, if no more than `most` are kept then;
    /// else ends it, and it counts until it has ended. Returns the number that are kept.
    pub(crate) fn give_back(&self, mut pooled: C, most: usize) -> usize {
        let mut kept = self.kept();
        if kept.len() < most {
            let permit = pooled.connection().permit.take();
            let since = Instant::now();
            kept.push(Kept { pooled, since });
            drop(permit);
        }
        kept.len()
    }

    fn pop(&self) -> Option<C> {
        let mut kept = self.kept();
        let last = kept.len().checked_sub(1)?;
        let preferred = kept.iter().position(|one| one.pooled.is_preferred());
        Some(kept.remove(preferred.unwrap_or(last)).pooled)
    }
}
