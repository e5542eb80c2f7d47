//! Syncs for many changes together, after which they are no longer pending.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;

use tenure_core::{Error, Result};

use super::lock::BoardLocks;
use super::pending::Pending;
use super::{Board, PENDING_MAX};

impl Board {
    /// Syncs the changed files if many changes are pending. After a failure the next checkpoint
    /// tries again: the changes are durable, and stay pending.
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
        let names = self.pending_names()?;
        if names.changes.len() >= names.finished.len() + PENDING_MAX {
            // The unfinished changes are those of processes that were killed, each at another
            // issue.
            self.settle(&BoardLocks::default())?;
        }
        let mut changes = Vec::new();
        for uuid in &names.finished {
            match self.read_pending(uuid)? {
                Some(change) => changes.push(change),
                // A process was killed after it removed the change and before it removed the mark.
                None => self.remove_file(&self.names.finished(uuid))?,
            }
        }
        for temporary in &names.temporaries {
            if self.is_left(temporary)? {
                self.remove_file(temporary)?;
            }
        }
        self.sync_and_remove(&changes)
    }

    /// Syncs the files of finished changes, the log and their directories, then removes the changes
    /// from what is pending.
    pub(super) fn sync_and_remove(&self, changes: &[Pending]) -> Result<()> {
        if changes.is_empty() {
            return Ok(());
        }
        let parts = changes.iter().flat_map(Pending::parts);
        let files: BTreeSet<PathBuf> = parts.map(|part| self.names.file(&part)).collect();
        let log = self.names.log();
        for file in files.iter().chain([&log]) {
            let failed = |source| Error::io("sync", file, source);
            if !self.disk.exists(file).map_err(failed)? {
                // The issue was deleted, and the sync of its directory makes that durable.
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
        for change in changes {
            // The change goes before its mark: without the mark, it would be finished again.
            self.remove_file(&self.names.pending(&change.uuid))?;
            self.remove_file(&self.names.finished(&change.uuid))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use super::*;
    use crate::NewIssue;

    #[test]
    fn what_killed_writers_left_is_removed_with_the_changes() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("board");
        Board::init(&root).unwrap();
        let mut board = Board::open(&root, Duration::from_secs(30)).unwrap();
        board.pending_max = 1;
        board.create(NewIssue::titled("one")).unwrap();
        let temporary = root.join(".pending/.issue-gone.0123456789abcdef.tmp");
        let stray = root.join(".pending/3f2a9c00-1111-4222-8333-444455556666.done");
        let other = root.join(".pending/mine");
        for path in [&temporary, &stray, &other] {
            fs::write(path, "").unwrap();
        }
        board.create(NewIssue::titled("two")).unwrap();
        assert!(!temporary.exists() && !stray.exists() && other.exists());
        assert_eq!(board.list().unwrap().issues.len(), 2);
    }
}
