//! A new board.
//!
//! Several processes may make one at once, and one of them may already add issues: an existing file
//! is never replaced.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tenure_core::{Error, Result};
use tenure_lockfile::FileLocker;
use tenure_os::disk::RealDisk;
use tenure_os::replace::{Replacement, sync_directory_of};

use super::Board;
use super::lock::is_forbidden;
use super::registry::{Gates, Index, encode};

/// The files that a repository should not keep: locks, pending changes, the cache, leftovers of
/// killed processes.
const IGNORED: &str = "*.lock\n.pending/\n.ready\n*.tmp\n";

impl Board {
    /// Makes a board in a directory, and makes the directory if it is not there. An existing board
    /// stays as it is.
    pub fn init(directory: &Path) -> Result<()> {
        let made = fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory);
        made.map_err(|source| Error::io("make the directory", directory, source))?;
        let board = Self::on(
            directory,
            FileLocker::new(Duration::ZERO),
            Arc::new(RealDisk),
        )?;
        // The directories are synced before the index is there: a process that finds the index goes
        // on.
        for made in board.names.root().ancestors() {
            match sync_directory_of(&RealDisk, made) {
                // The topmost directory has no name, and this user made none where it may not look.
                Err(Error::BadInput(_)) => {}
                Err(error) if is_forbidden(&error) => {}
                synced => synced?,
            }
        }
        board.fill()?;
        sync_directory_of(&RealDisk, &board.names.index())
    }

    /// Makes the missing files. The index comes last, when all else is durable: with it, the board
    /// is there. The caller, or the first change, makes the index's own name durable.
    pub(super) fn fill(&self) -> Result<()> {
        let issues = self.names.issues();
        match self.disk.make_directory(&issues) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made.map_err(|source| Error::io("make the directory", issues, source))?,
        }
        let ignored = self.names.root().join(".gitignore");
        self.put_if_missing(&ignored, IGNORED)?;
        self.put_if_missing(&self.names.gates(), &encode(&Gates::default()))?;
        self.put_if_missing(&self.names.log(), "")?;
        let index = self.names.index();
        sync_directory_of(&*self.disk, &index)?;
        self.put_if_missing(&index, &encode(&Index::default()))
    }

    fn put_if_missing(&self, path: &Path, content: &str) -> Result<()> {
        let is_there = self.disk.exists(path);
        if is_there.map_err(|source| Error::io("look for", path, source))? {
            Ok(())
        } else {
            let put = Replacement::prepare(&*self.disk, path, content.as_bytes(), None)?
                .put_in_place_if_missing();
            match put {
                // Another process made the board meanwhile, and a process that works on it took
                // the file for a leftover.
                Err(_) if self.disk.exists(path).unwrap_or(false) => Ok(()),
                put => put,
            }
        }
    }
}
