//! From the address of a store to the store.

use std::path::absolute;
use std::sync::Arc;

use tenure_core::{Error, Result, Store};
use tenure_files::FileStore;

use crate::Settings;
use crate::memory::MemoryStore;

const KNOWN: &str = "known are memory: (this process only) and file:DIR (kernel locks)";

/// Opens the store an address names. A relative directory counts from the current one,
/// and is made absolute at once: the process may go elsewhere later.
pub(crate) fn open(url: &str, settings: &Settings) -> Result<Arc<dyn Store>> {
    match url.split_once(':') {
        Some(("memory", "")) => Ok(Arc::new(MemoryStore::new())),
        Some(("memory", _)) => Err(bad(url, "nothing may follow memory:")),
        Some(("file", "")) => Err(bad(url, "the directory is missing")),
        Some(("file", directory)) => {
            let path = absolute(directory);
            let path = path.map_err(|error| Error::io("find", directory, error))?;
            Ok(Arc::new(FileStore::open(&path, settings.trust_flock)?))
        }
        _ => Err(bad(url, "no store is known by this name")),
    }
}

fn bad(url: &str, problem: &str) -> Error {
    let shown: String = url.chars().take(200).collect();
    Error::Configuration {
        problem: format!("bad store {shown:?}: {problem}; {KNOWN}"),
        remedy: "name a store with --store or TENURE_STORE, such as file:/var/lib/locks".into(),
    }
}
