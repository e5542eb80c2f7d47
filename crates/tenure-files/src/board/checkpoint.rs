//! Syncs for many changes together, after which they are no longer pending.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;

use tenure_core::poison::lock;
use tenure_core::{Error, Result};

use super::Board;

impl Board {
    /// Syncs what was changed if many changes are pending. What fails is tried again by the next one: the changes are durable, and
    /// stay pending.
    pub(super) fn checkpoint_if_many(&self) {
        if self.pending_seen.load(Relaxed) < self.pending_max {
            return;
        }
        if let Err(error) = self.checkpoint() {
            (self.tell)(&format!(
                "what was changed could not be synced yet: {error}"
            ));
        }
    }

    fn checkpoint(&self) -> Result<()> {
        let lock_file = self.names.checkpoint_lock();
        let Some(_alone) = self.locker.try_lock_exclusive(&lock_file)? else {
            return Ok(());
        };
        self.unfinished()?;
        let finished = lock(&self.finished).clone();
        self.sync_and_remove(finished)
    }

    /// Syncs the files of finished changes, the log and their directories, then removes the changes from what is pending.
    pub(super) fn sync_and_remove(&self, changes: HashMap<String, Vec<PathBuf>>) -> Result<()> {
        if changes.is_empty() {
            return Ok(());
        }
        let files: BTreeSet<&Path> = changes.values().flatten().map(PathBuf::as_path).collect();
        let log = self.names.log();
        for file in files.iter().copied().chain([log.as_path()]) {
            let failed = |source| Error::io("sync", file, source);
            if !self.disk.exists(file).map_err(failed)? {
                // It was deleted, which the sync of its directory makes durable.
                continue;
            }
            match self.disk.sync_file(file) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                synced => synced.map_err(failed)?,
            }
        }
        let directories: BTreeSet<&Path> = files.iter().filter_map(|file| file.parent()).collect();
        for directory in directories {
            let synced = self.disk.sync_directory(directory);
            synced.map_err(|source| Error::io("sync", directory, source))?;
        }
        for uuid in changes.keys() {
            self.remove_file(&self.names.pending(uuid))?;
            lock(&self.finished).remove(uuid);
        }
        Ok(())
    }
}
