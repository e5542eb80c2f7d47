//! The SQLite store: leases, lines, sessions and the audit in one database.
//!
//! | file | step |
//! |---|---|
//! | `acquire`, `wait` | a new lease, and waiting in line for it |
//! | `order` | the order of locks that is written down |
//! | `circles` | requests that wait for each other |
//! | `upgrade`, `release` | upgradeable to write and back; the end of a lease or of a wait |
//! | `renew`, `bind`, `keys` | proof that a lease is held and a new expiry; a lease gets its own expiry; repeated requests |
//! | `take_over` | a lease leaves the hands of its guard for another session of its owner |
//! | `recover`, `claims`, `breaking` | stale leases; the jobs that need them; a lease broken by a person |
//! | `list`, `audit` | holders and waiters; the record of all changes |
//! | `records` | rows above the locks, and their changes |
//! | `examine` | the checks of the database for `doctor` |
//! | `inner` | the open database: reads, steps, and a database that was replaced |
//! | `cleanup` | what a drop could not end at once |
//! | `step`, `change` | one write transaction: the decision and the wake-ups; its changes as rows |
//! | `load`, `row`, `moment` | rows as the input of a decision, at one moment |
//! | `sessions` | the sessions of this process, and proof about others |
//!
//! # Invariants
//!
//! - [`decide`](tenure_core::decide::decide) makes every decision. The only shortcuts are the empty
//!   cases: an acquire of a resource that is neither held nor awaited, a release of one that is not
//!   awaited.
//! - A caller gets an answer, to a read as well, only after its transaction has committed and the
//!   database was seen at its path after that.
//! - A proof of death never expires, so it may be made before or inside a transaction.
//!
//! # Durability
//!
//! SQLite takes the durability of a transaction only before it begins. Each verb therefore declares
//! the least that its transaction has to have, and asks once:
//!
//! | verb | begins |
//! |---|---|
//! | `bind`, `extend`, `take_over`, `claim`, `release_by`, `change_records` | on disk |
//! | `break_lease`, and `recover` for each lease | on disk |
//! | `upgrade`, `downgrade` | as the lease was bound when it was looked up before |
//! | all others | without waiting for the disk |
//!
//! Besides, every change of a lease with time of its own requires the disk where it is written
//! (`change`). A transaction that was begun without it is rolled back and made again. This happens
//! only to a transaction that comes upon such a lease on its way: it moves a line on over a stale
//! lease, grants an upgrade that waits, or gives the expired leases of a key new time.
//!
//! From a verb to its step there are three calls: `Inner::write` waits until the database is free,
//! `Inner::write_once` makes one step and what follows its commit, and `Db::write` makes the
//! transaction.

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
mod load;
mod moment;
mod order;
#[cfg(test)]
mod plans;
mod records;
mod recover;
mod release;
mod renew;
mod row;
mod sessions;
mod step;
mod take_over;
mod upgrade;
mod wait;

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tenure_core::{
    Capabilities, LeaseId, LeaseStore, Ranking, RecordStore, Resource, Result, Store,
};

use inner::Inner;

/// The interval at which a holder makes sure that it still holds.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// The options of a store.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct OpenOptions {
    /// True if locks are trusted on any file system.
    pub trust_file_system: bool,
    /// The interval of a holder's heartbeats, for people to see; at least a second.
    pub heartbeat: Option<Duration>,
    /// The age that the heartbeat of a lease may reach before others may recover it. It goes with
    /// every lease that this store binds or renews.
    pub stale_grace: Option<Duration>,
    /// The order in which the callers of this store take locks. A request is refused while the
    /// store is used in another one.
    pub order: Option<Ranking>,
}

impl OpenOptions {
    /// Returns the options for a file system whose locks are trusted, or need not be.
    pub fn trusting(trust_file_system: bool) -> Self {
        Self {
            trust_file_system,
            ..Self::default()
        }
    }
}

/// Leases in a SQLite database. The [front page](crate) lists the guarantees.
pub struct SqliteStore {
    inner: Arc<Inner>,
}

impl SqliteStore {
    /// Opens the database at an absolute path, and creates it if it does not exist.
    ///
    /// # Errors
    ///
    /// `Configuration` for options out of bounds, where locks cannot be trusted, for a database of
    /// another program and for one of a newer Tenure; `Corrupt` for a damaged one; `Io` where the
    /// system refuses.
    pub fn open(path: &Path, options: OpenOptions) -> Result<SqliteStore> {
        let inner = Inner::open(path, options)?;
        Ok(SqliteStore { inner })
    }
}

impl Store for SqliteStore {
    tenure_core::forward_store!();

    fn location_of(&self, _resource: &Resource) -> String {
        self.inner.path.display().to_string()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            strict_order: true,
            lists_waiters: true,
            cross_process: true,
            slots: true,
            retries: false,
            check_every: Some(CHECK_EVERY),
            ttl: None,
        }
    }

    fn descriptor(&self, lease: &LeaseId) -> Result<Option<OwnedFd>> {
        self.inner.descriptor(lease).map(Some)
    }
}

impl LeaseStore for SqliteStore {
    tenure_core::forward_lease_store!();
}

impl RecordStore for SqliteStore {
    tenure_core::forward_record_store!();
}
