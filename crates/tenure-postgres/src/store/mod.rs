//! The store on PostgreSQL: leases, lines, presence and their record in one database, for many machines.
//!
//! | file | step |
//! |---|---|
//! | `acquire`, `wait` | a new lease, and the line for it |
//! | `upgrade`, `release` | upgradeable to write and back; the end of a lease or a wait |
//! | `renew`, `bind`, `keys` | proof and new time; another time for a set; asked again |
//! | `recover`, `claims`, `breaking` | stale leases, who needs them, and a person's last resort |
//! | `list`, `audit`, `leases` | who holds and waits; who did what; one lease |
//! | `examine` | whether the database is sound, for a person |
//! | `inner` | the database in use, and what all steps say of it |
//! | `step`, `change` | one transaction: the decision and who is woken; its changes as statements |
//! | `load`, `row`, `moment` | rows as what is decided upon, at one moment |
//! | `owed` | what a drop leaves behind |
//! | `patience`, `rest` | how long a caller has; how long a waiter sleeps |
//! | `ear`, `stays` | who waits is heard for, and the process is seen |
//! | `pool`, `sql` | connections, and several statements in one round trip |
//!
//! # Invariants
//!
//! - What a step decides is [`decide`](tenure_core::decide::decide)'s. The only shortcuts are the plain cases: an acquire
//!   where nobody holds or waits, a release where nobody waits or only the first in line is granted anything, and
//!   the offer taken up by who was told of it. The empty ones rely on the column `alone`, which is never false.
//! - Whoever changes anything about a resource holds its row in `tenure.resources`, and reads only after it has it.
//! - Every time that decides is the `clock_timestamp()` of the database. A deadline of a caller becomes one when it
//!   is written: what is left of it is added.
//! - Everything but an offer has a time of its own. An offer and a place in line end when their process is not seen for 15 s.
//! - Nothing is told to a caller before its transaction has committed, and is on disk.

mod acquire;
mod audit;
mod bind;
mod breaking;
mod change;
mod claims;
mod ear;
mod examine;
mod inner;
mod keys;
mod leases;
mod list;
mod load;
mod moment;
mod owed;
mod patience;
mod pool;
mod recover;
mod release;
mod renew;
mod rest;
mod row;
mod sql;
mod stays;
mod step;
mod upgrade;
mod wait;

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tenure_core::duration::DURATION_MAX;
use tenure_core::{
    Capabilities, Examined, Lease, LeaseId, LeaseStore, Listing, Mode, Query, Reply, Request,
    Resource, Result, SessionId, Store, Token, UpgradeRequest,
};

use crate::Address;
use inner::Inner;

/// How often a holder makes sure that it still holds, where its lease is not very short.
const CHECK_EVERY: Duration = Duration::from_secs(2);
/// Leases in a PostgreSQL database. See the [front page](crate) for what it promises.
pub struct PostgresStore {
    inner: Arc<Inner>,
}

impl PostgresStore {
    /// Opens the database at an address, and makes the schema `tenure` in it if it is not there. What goes on in the
    /// background runs in the runtime this is called in. A server that starts up, or has no room, is waited for.
    ///
    /// # Errors
    ///
    /// `Configuration` behind a pooler that shares sessions, where rights are missing, and for a database of a newer
    /// Tenure; `Unreachable` where no server answers in time.
    pub async fn open(address: Address, patience: Duration) -> Result<PostgresStore> {
        let deadline = Instant::now() + patience.min(DURATION_MAX);
        let inner = Inner::open(address, deadline).await?;
        Ok(PostgresStore { inner })
    }
}

impl Store for PostgresStore {
    fn url(&self) -> &str {
        self.inner.url()
    }

    fn place_of(&self, _resource: &Resource) -> String {
        "tenure.dal_locks".into()
    }

    fn capabilities(&self) -> Capabilities {
        let ttl = self.inner.ttl();
        Capabilities {
            strict_order: true,
            lists_waiters: true,
            cross_process: true,
            slots: true,
            check_every: Some(CHECK_EVERY.min(ttl / 5)),
            ttl: Some(ttl),
        }
    }

    fn try_acquire<'a>(&'a self, request: &'a Request) -> Reply<'a, Option<Lease>> {
        Box::pin(self.inner.try_take(request))
    }

    fn acquire<'a>(&'a self, request: &'a Request) -> Reply<'a, Lease> {
        Box::pin(self.inner.take(request))
    }

    fn try_upgrade<'a>(&'a self, lease: &'a LeaseId) -> Reply<'a, Option<Token>> {
        Box::pin(self.inner.try_become_write(lease))
    }

    fn upgrade<'a>(&'a self, request: &'a UpgradeRequest) -> Reply<'a, Token> {
        Box::pin(self.inner.become_write(request))
    }

    fn downgrade<'a>(&'a self, lease: &'a LeaseId) -> Reply<'a, Mode> {
        Box::pin(self.inner.become_upgradeable(lease))
    }

    fn renew<'a>(&'a self, lease: &'a LeaseId) -> Reply<'a, Option<Duration>> {
        Box::pin(self.inner.show(lease))
    }

    fn release<'a>(&'a self, lease: &'a LeaseId) -> Reply<'a, ()> {
        Box::pin(self.inner.end(lease))
    }

    fn abandon(&self, lease: &LeaseId) {
        self.inner.let_go(lease);
    }

    fn list<'a>(&'a self, query: &'a Query) -> Reply<'a, Listing> {
        Box::pin(self.inner.list_page(query))
    }

    fn token<'a>(&'a self, resource: &'a Resource) -> Reply<'a, Token> {
        Box::pin(self.inner.current_token(resource))
    }

    fn examine(&self) -> Reply<'_, Vec<Examined>> {
        Box::pin(async { Ok(self.inner.look_over().await) })
    }

    fn end_session(&self, session: &SessionId) {
        self.inner.leave(session);
    }

    fn leases(&self) -> Option<&dyn LeaseStore> {
        Some(self)
    }

    fn descriptor(&self, _lease: &LeaseId) -> Result<Option<OwnedFd>> {
        Ok(None)
    }
}
