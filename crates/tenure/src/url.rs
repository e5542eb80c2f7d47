//! Opens a store by its address.

use std::path::{Path, PathBuf, absolute};
use std::sync::Arc;

use tenure_core::{Error, Result, Store};
use tenure_files::FileStore;
use tenure_postgres::{Address, PostgresStore};
use tenure_sqlite::SqliteStore;

use crate::memory::MemoryStore;
use crate::{Settings, shown_address};

/// The stores that processes share; `memory:` is for programs alone.
const KNOWN: &str = "known are sqlite:PATH (a database), postgres://… (a server for many machines) \
                     and file:DIR (kernel locks)";

/// Opens the store an address names. A relative path counts from the current one,
/// and is made absolute at once: the process may go elsewhere later.
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
        Some(("sqlite", database)) => {
            let path = from_here(database)?;
            if database.ends_with('/') || path.is_dir() {
                let problem = format!(
                    "it is a directory; name the database in it, such as sqlite:{}",
                    path.join("tenure.db").display()
                );
                return Err(bad(url, &problem));
            }
            Ok(Arc::new(SqliteStore::open(&path, settings.trust_flock)?))
        }
        Some(("postgres" | "postgresql", _)) => {
            let address = Address::parse(url).map_err(|error| match error {
                Error::BadInput(problem) => malformed(&problem),
                error => error,
            })?;
            Ok(Arc::new(PostgresStore::open(address, settings.open).await?))
        }
        _ => Err(bad(url, "no store is known by this name")),
    }
}

fn from_here(path: &str) -> Result<PathBuf> {
    absolute(path).map_err(|error| Error::io("find", Path::new(path), error))
}

fn bad(url: &str, problem: &str) -> Error {
    let shown: String = shown_address(url).chars().take(200).collect();
    Error::Configuration {
        problem: format!("bad store {shown:?}: {problem}; {KNOWN}"),
        remedy: "name a store with --store or TENURE_STORE, such as sqlite:/var/lib/locks.db"
            .into(),
    }
}

/// Returns the error for the address of a server that cannot be read. The mistake may be in the
/// password, so nothing of the address is shown.
fn malformed(problem: &str) -> Error {
    Error::Configuration {
        problem: format!("bad store: {problem}"),
        remedy: "an address is like postgres://user:password@host:5432/database?sslmode=require, \
                 with what is special in it percent-encoded"
            .into(),
    }
}
