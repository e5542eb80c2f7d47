//! A configuration file, edited by many.

use std::path::PathBuf;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tenure_core::{Error, Result};
use tenure_files::Documents;

use crate::advisory::DEFAULT_WAIT;

/// Reads a JSON file, lets `merge` change it, and writes it back, all under one kernel lock (flock) beside it: another save
/// meanwhile waits, for 15 s at most, and then merges into what was saved before. A file that is not there begins as `default`.
///
/// Between processes and between threads. It does not block the runtime.
///
/// # Errors
///
/// Errors of `merge`, after which the file is as before; `Timeout`; errors of [`Documents`].
pub async fn edit_file<T, R>(
    path: impl Into<PathBuf>,
    default: T,
    merge: impl FnOnce(&mut T) -> Result<R> + Send + 'static,
) -> Result<R>
where
    T: Serialize + DeserializeOwned + Send + 'static,
    R: Send + 'static,
{
    let path = path.into();
    let edited = tokio::task::spawn_blocking(move || {
        Documents::new(DEFAULT_WAIT).transaction_or_create(&path, default, merge)
    });
    match edited.await {
        Ok(edited) => edited,
        Err(ended) if ended.is_panic() => std::panic::resume_unwind(ended.into_panic()),
        Err(_) => Err(Error::Internal("the runtime ended during an edit".into())),
    }
}
