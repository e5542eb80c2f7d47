//! Opens a store by its address.

use std::path::{Path, PathBuf, absolute};
use std::sync::Arc;

use tenure_core::internal::OrCannot;
use tenure_core::{Error, Result, Store};
use tenure_lockfile::FileStore;
#[cfg(feature = "postgres")]
use tenure_postgres::advisory::{self, AdvisoryLocks};

use crate::memory::MemoryStore;
use crate::{Settings, shown_address};

/// The stores that processes share; `memory:` is for programs alone.
const KNOWN: &str = "known are sqlite:PATH (a database), postgres://… (a server for many machines) \
                     and file:DIR (kernel locks)";

/// Opens the store an address names. A relative path counts from the current directory, and is made
/// absolute at once: the process may go elsewhere later.
pub(crate) async fn open(url: &str, settings: &Settings) -> Result<Arc<dyn Store>> {
    match url.split_once(':') {
        Some(("memory", "")) => Ok(Arc::new(MemoryStore::new())),
        Some(("memory", _)) => Err(bad(url, "nothing may follow memory:")),
        Some(("file", "")) => Err(bad(url, "the directory is missing")),
        Some(("file", directory)) => {
            let path = from_here(directory)?;
            Ok(Arc::new(FileStore::open(&path, settings.trust_flock)?))
        }
        Some(("sqlite", "")) => Err(bad(url, "the path of the database is missing")),
        Some(("sqlite", database)) => open_sqlite(url, database, settings),
        // Boxed: its state is large, and every caller would carry it for the other stores, too.
        Some(("postgres" | "postgresql", _)) => Box::pin(open_postgres(url, settings)).await,
        _ => Err(bad(url, "no store is known by this name")),
    }
}

#[cfg(feature = "sqlite")]
fn open_sqlite(url: &str, database: &str, settings: &Settings) -> Result<Arc<dyn Store>> {
    let path = from_here(database)?;
    if database.ends_with('/') || path.is_dir() {
        let problem = format!(
            "it is a directory; name the database in it, such as sqlite:{}",
            path.join("tenure.db").display()
        );
        return Err(bad(url, &problem));
    }
    let mut options = tenure_sqlite::OpenOptions::trusting(settings.trust_flock);
    options.heartbeat = settings.heartbeat;
    options.stale_grace = settings.stale_grace;
    options.order = Some(settings.ranking.clone());
    Ok(Arc::new(tenure_sqlite::SqliteStore::open(&path, options)?))
}

#[cfg(not(feature = "sqlite"))]
fn open_sqlite(_url: &str, _database: &str, _settings: &Settings) -> Result<Arc<dyn Store>> {
    Err(not_compiled_in("sqlite"))
}

#[cfg(feature = "postgres")]
async fn open_postgres(url: &str, settings: &Settings) -> Result<Arc<dyn Store>> {
    let (address, options) = postgres_options(url, settings)?;
    let store = tenure_postgres::PostgresStore::open(address, options).await?;
    Ok(Arc::new(store))
}

/// Opens the store of a server, and advisory locks of the same database.
#[cfg(feature = "postgres")]
pub(crate) async fn open_with_locks(
    url: &str,
    settings: &Settings,
    locks: &advisory::Settings,
) -> Result<(Arc<dyn Store>, AdvisoryLocks)> {
    let (address, options) = postgres_options(url, settings)?;
    let opened = tenure_postgres::PostgresStore::open_with_locks(address, options, locks);
    let (store, locks) = opened.await?;
    Ok((Arc::new(store), locks))
}

#[cfg(feature = "postgres")]
fn postgres_options(
    url: &str,
    settings: &Settings,
) -> Result<(tenure_postgres::Address, tenure_postgres::OpenOptions)> {
    let address = tenure_postgres::Address::parse(url).map_err(|error| match error {
        Error::BadInput(problem) => malformed(&problem),
        error => error,
    })?;
    let mut options = tenure_postgres::OpenOptions::waiting(settings.open);
    options.retry = settings.retry.clone();
    options.heartbeat = settings.heartbeat;
    options.stale_grace = settings.stale_grace;
    options.order = Some(settings.ranking.clone());
    Ok((address, options))
}

#[cfg(not(feature = "postgres"))]
async fn open_postgres(_url: &str, _settings: &Settings) -> Result<Arc<dyn Store>> {
    Err(not_compiled_in("postgres"))
}

/// Returns the error for a store whose cargo feature is off. It shows nothing of the address, which
/// may have a password in it.
#[cfg(not(all(feature = "sqlite", feature = "postgres")))]
fn not_compiled_in(feature: &str) -> Error {
    Error::configuration(
        format!("the store {feature}: is not compiled into this program"),
        format!(
            "build it with the feature {feature} of the crate tenure: \
             cargo add tenure --features {feature}"
        ),
    )
}

fn from_here(path: &str) -> Result<PathBuf> {
    absolute(path).or_cannot("find", Path::new(path))
}

fn bad(url: &str, problem: &str) -> Error {
    let shown: String = shown_address(url).chars().take(200).collect();
    Error::configuration(
        format!("bad store {shown:?}: {problem}; {KNOWN}"),
        "name a store with {$store}, such as sqlite:/var/lib/locks.db",
    )
}

/// Returns the error for the address of a server that cannot be read. The mistake may be in the
/// password, so nothing of the address is shown.
#[cfg(feature = "postgres")]
fn malformed(problem: &str) -> Error {
    Error::configuration(
        format!("bad store: {problem}"),
        "an address is like postgres://user:password@host:5432/database?sslmode=require, \
                 with what is special in it percent-encoded",
    )
}
