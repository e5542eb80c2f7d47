//! A configuration file that many processes edit.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tenure_core::{Error, Result};
use tenure_files::document::Documents;
use tenure_lockfile::FileCaller;
use tenure_os::cancel::Cancel;

/// The longest wait for other saves.
const WAIT_MAX: Duration = Duration::from_secs(15);

/// Reads a JSON file, lets `merge` change it, and writes it back, all under one kernel lock (flock)
/// beside it. Another save waits meanwhile, for 15 s at most, and then merges into the saved file.
/// A file that is not there begins as `default`.
///
/// Saves exclude each other between processes and between threads. None blocks the runtime.
/// Dropping the future cancels the wait; an edit that has the lock by then is finished.
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
    let cancel = CancelledOnDrop(Cancel::default());
    let mut caller = FileCaller::this_process(WAIT_MAX);
    caller.cancel = cancel.0.clone();
    let documents = Documents::new(WAIT_MAX).for_caller(&caller);
    let edited =
        tokio::task::spawn_blocking(move || documents.transaction_or_create(&path, default, merge));
    match edited.await {
        Ok(edited) => edited,
        Err(ended) if ended.is_panic() => std::panic::resume_unwind(ended.into_panic()),
        Err(_) => Err(Error::Internal("the runtime ended during an edit".into())),
    }
}

struct CancelledOnDrop(Cancel);

impl Drop for CancelledOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}
