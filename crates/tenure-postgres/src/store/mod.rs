//! The store on PostgreSQL: leases, lines, presence and their record in one database, for many
//! machines.
//!
//! | file | step |
//! |---|---|
//! | `acquire`, `wait` | a new lease, and the line for it |
//! | `order` | the order of locks that is written down |
//! | `circles` | requests that wait for each other |
//! | `upgrade`, `release` | upgradeable to write and back; the end of a lease or a wait |
//! | `renew`, `bind`, `keys` | proof and new time; another time for a set; requests under a key |
//! | `take_over` | a lease leaves the hands of its guard for another session of its owner |
//! | `recover`, `claims`, `breaking` | stale leases; jobs that still need a lease; a break by a person |
//! | `list`, `audit`, `leases` | holders and waiters; the record of who did what; one lease |
//! | `records` | rows above the locks, and their changes |
//! | `examine` | whether the database is sound, for a person |
//! | `inner` | the database in use, and the state that all steps share |
//! | `step`, `change` | one transaction, with the decision and the wake-ups; its changes as statements |
//! | `load`, `row`, `moment` | rows as the state that is decided upon, at one moment |
//! | `cleanup` | work and clean-up that a dropped future leaves behind |
//! | `retry`, `look_timer` | pauses before another try; the sleep of a waiter |
//! | `listener`, `presence` | wake-ups for waiters; the sign that this process is alive |
//! | `pool`, `sql` | connections, and several statements in one round trip |
//!
//! # Invariants
//!
//! - [`decide`](tenure_core::decide::decide) makes every decision of a step. The only shortcuts are
//!   the plain cases: an acquire without holder and waiter, a release where no request waits or
//!   only the first in line is granted anything, and an offer taken up by the waiter that was told
//!   of it. The empty cases rely on the column `alone`, which is never false.
//! - A transaction that changes anything about a resource holds its row in `tenure.resources`, and
//!   reads only after it has the row.
//! - Every time that decides is the `clock_timestamp()` of the database. A caller's deadline is put
//!   on that clock when it is written: now, and the time that is left.
//! - Everything but an offer has an expiry of its own. An offer and a place in line end when their
//!   process has not been seen for 15 s.
//! - A caller is told nothing before its transaction has committed and is on disk.

mod acquire;
mod audit;
mod bind;
mod breaking;
mod change;
mod circles;
mod claims;
mod cleanup;
mod examine;
mod inner;
mod keys;
mod leases;
mod list;
mod listener;
mod load;
mod look_timer;
mod moment;
mod order;
mod pool;
mod presence;
mod records;
mod recover;
mod release;
mod renew;
mod retry;
mod row;
mod sql;
mod step;
mod take_over;
mod upgrade;
mod wait;

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use tenure_core::{
    Capabilities, LeaseId, LeaseStore, Ranking, RecordStore, Resource, Result, RetryPolicy, Store,
};

use crate::Address;
use crate::advisory::{self, AdvisoryLocks};
use inner::Inner;

/// The interval at which a holder checks that it still holds, unless its lease is very short.
const CHECK_EVERY: Duration = Duration::from_secs(2);

/// The options with which a store on PostgreSQL is opened.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct OpenOptions {
    /// The time to wait for a server that restarts, starts up, or has no room. If it is zero there
    /// is one attempt.
    pub wait: Duration,
    /// The retries of passing faults of the open store.
    pub retry: RetryPolicy,
    /// The interval at which a guard renews its lease. `None`: when a third of its time is used up.
    pub heartbeat: Option<Duration>,
    /// The age that the heartbeat of a lease without a guard may reach before others may recover
    /// it, for every such lease that this store binds or renews. `None`: its time to live, but 15 s
    /// at most. Leases of guards always have that age.
    pub stale_grace: Option<Duration>,
    /// The order in which the callers of this store take locks. A request is refused while the
    /// store is used in another order; see [`written_order`](tenure_core::internal::written_order).
    /// `None`: the order is not compared.
    pub order: Option<Ranking>,
}

impl OpenOptions {
    /// Returns the options with the time to wait for a server.
    pub fn waiting(wait: Duration) -> Self {
        Self {
            wait,
            ..Self::default()
        }
    }
}

/// Leases in a PostgreSQL database. The [front page](crate) has its guarantees.
pub struct PostgresStore {
    inner: Arc<Inner>,
}

impl PostgresStore {
    /// Opens the database at an address, and creates the schema `tenure` in it if it is missing.
    /// Background work runs in the runtime this is called in.
    ///
    /// # Errors
    ///
    /// `Configuration` behind a pooler that shares sessions, where rights are missing, for a schema
    /// that others can change or have changed, for a database of a newer Tenure, and for a
    /// heartbeat below a second or above a third of the time of a lease; `Unreachable` where no
    /// server answers in time.
    pub async fn open(address: Address, options: OpenOptions) -> Result<PostgresStore> {
        let inner = Inner::open(address, options).await?;
        Ok(PostgresStore { inner })
    }

    /// Opens a store and advisory locks of the same database, with one connection for each. Unlike
    /// [`open`](PostgresStore::open), this does not find a pooler that does not clean the sessions
    /// it takes back.
    ///
    /// # Errors
    ///
    /// Errors of [`open`](PostgresStore::open), except for sessions that are not cleaned.
    pub async fn open_with_locks(
        address: Address,
        options: OpenOptions,
        settings: &advisory::Settings,
    ) -> Result<(PostgresStore, AdvisoryLocks)> {
        let (inner, locks) = Inner::open_with_locks(address, options, settings).await?;
        Ok((PostgresStore { inner }, locks))
    }
}

impl Store for PostgresStore {
    tenure_core::forward_store!();

    fn location_of(&self, _resource: &Resource) -> String {
        "tenure.dal_locks".into()
    }

    fn capabilities(&self) -> Capabilities {
        let ttl = self.inner.ttl;
        Capabilities {
            strict_order: true,
            lists_waiters: true,
            cross_process: true,
            slots: true,
            retries: true,
            check_every: Some(CHECK_EVERY.min(ttl / 5).min(self.inner.heartbeat(ttl))),
            ttl: Some(ttl),
        }
    }

    fn descriptor(&self, _lease: &LeaseId) -> Result<Option<OwnedFd>> {
        Ok(None)
    }
}

impl LeaseStore for PostgresStore {
    tenure_core::forward_lease_store!();
}

impl RecordStore for PostgresStore {
    tenure_core::forward_record_store!();
}
