//! Leases that outlive their session, on the store that has them.

mod by_id;
mod cancel;
mod keys;
mod lock;
mod people;
mod refused;
mod upgrade;

use std::time::Duration;

use tempfile::TempDir;
use tenure::leases::LeaseTerms;
use tenure::{IdempotenceKey, Keeper, Lease, LockSet, Mode, Options, Owner, Result, Session};

use crate::scene::*;

/// A database in a directory of its own, which is removed at the end.
struct Database {
    directory: TempDir,
    keeper: Keeper,
}

impl Database {
    async fn new() -> Database {
        let directory = tempfile::tempdir().unwrap();
        let keeper = open(&directory).await;
        Database { directory, keeper }
    }

    /// Opens the database as another process would.
    async fn again(&self) -> Keeper {
        open(&self.directory).await
    }
}

async fn open(directory: &TempDir) -> Keeper {
    let path = directory.path().join("tenure.db");
    let url = format!("sqlite:{}", path.display());
    Keeper::open(&url).await.unwrap()
}

fn owner(text: &str) -> Owner {
    Owner::parse(text).unwrap()
}

fn terms(ttl_ms: u64) -> LeaseTerms {
    LeaseTerms::default().with_ttl(Duration::from_millis(ttl_ms))
}

/// Asks for a minute, under a key.
fn under(key: &str) -> LeaseTerms {
    terms(60_000).with_key(IdempotenceKey::parse(key).unwrap())
}

async fn lock_set(session: &Session, set: &LockSet, terms: &LeaseTerms) -> Result<Vec<Lease>> {
    let (keeper, options) = (session.keeper(), Options::default());
    keeper.lock(session, set, terms, &options).await
}

/// Takes a free lock as a lease of its own, for a minute.
async fn lock_one(session: &Session, text: &str, mode: Mode) -> Lease {
    let mut leases = lock_set(session, &set(&[(text, mode)]), &terms(60_000))
        .await
        .unwrap();
    assert_eq!(leases.len(), 1);
    leases.remove(0)
}
