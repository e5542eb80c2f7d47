//! The store on SQLite: leases, lines, sessions and their record in one database.
//!
//! | file | step |
//! |---|---|
//! | `acquire`, `wait` | a new lease, and the line for it |
//! | `upgrade`, `release` | upgradeable to write and back; the end of a lease or a wait |
//! | `renew`, `bind`, `keys` | proof and new time; a time of its own; asked again |
//! | `recover`, `claims`, `breaking` | stale leases, who needs them, and a person's last resort |
//! | `list`, `audit` | who holds and waits; who did what |
//! | `examine` | whether the database is sound, for a person |
//! | `inner` | the database in use: reads, steps, and what is done when it was replaced |
//! | `owed` | what a drop could not end at once |
//! | `step`, `change` | one write transaction: the decision and who is woken; its changes as rows |
//! | `load`, `row`, `moment` | rows as what is decided upon, at one moment |
//! | `sessions` | the sessions of this process, and proof about others |
//!
//! # Invariants
//!
//! - What a step decides is [`decide`](tenure_core::decide::decide)'s. The only shortcuts are
//!   the empty cases: an acquire where nobody holds or waits, a release where nobody waits.
//! - Nothing is told to a caller before its transaction has committed and the database was seen
//!   to be still at its path; what is read is told only then, too.
//! - A proof of death is made outside or inside a transaction, as it suits: it never expires.

mod acquire;
mod audit;
mod bind;
mod breaking;
mod change;
mod claims;
mod examine;
mod inner;
mod keys;
mod leases;
mod list;
mod load;
mod moment;
mod owed;
mod recover;
mod release;
mod renew;
mod row;
mod sessions;
mod step;
mod upgrade;
mod wait;

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tenure_core::{
    Capabilities, Examined, Lease, LeaseId, LeaseStore, Listing, Mode, Query, Reply, Request,
    Resource, Result, SessionId, Store, Token, UpgradeRequest,
};

use inner::Inner;

/// How often a holder makes sure that it still holds.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// Leases in a SQLite database. See the [front page](crate) for what it promises.
pub struct SqliteStore {
    inner: Arc<Inner>,
}

impl SqliteStore {
    /// Opens the database at a path, which must be absolute, and makes it if it is not there.
    ///
    /// # Errors
    ///
    /// `Configuration` where locks cannot be trusted, for a database of another program and for
    /// one of a newer Tenure; `Corrupt` for a damaged one; `Io` where the system refuses.
    pub fn open(path: &Path, trust_file_system: bool) -> Result<SqliteStore> {
        let inner = Inner::open(path, trust_file_system)?;
        Ok(SqliteStore { inner })
    }
}

impl Store for SqliteStore {
    fn url(&self) -> &str {
        self.inner.url()
    }

    fn place_of(&self, _resource: &Resource) -> String {
        self.inner.path().display().to_string()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            strict_order: true,
            lists_waiters: true,
            cross_process: true,
            slots: true,
            check_every: Some(CHECK_EVERY),
            ttl: None,
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
        Box::pin(async { self.inner.show(lease).await.map(|()| None) })
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
        Box::pin(self.inner.read(move |sql| load::load_token(sql, resource)))
    }

    fn examine(&self) -> Reply<'_, Vec<Examined>> {
        Box::pin(async { Ok(self.inner.look_over().await) })
    }

    fn end_session(&self, session: &SessionId) {
        self.inner.end_session(session);
    }

    fn leases(&self) -> Option<&dyn LeaseStore> {
        Some(self)
    }

    fn descriptor(&self, lease: &LeaseId) -> Result<Option<OwnedFd>> {
        self.inner.descriptor(lease).map(Some)
    }
}
