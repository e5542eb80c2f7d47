//! A new board.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tenure_core::{Error, Result};

use super::Board;
use super::registry::{Gates, Index, encode};
use crate::disk::RealDisk;
use crate::locker::FileLocker;
use crate::replace::{replace, sync_directory_of};

/// The files that a repository should not keep: locks, pending changes, the cache, leftovers of killed processes.
const IGNORED: &str = "*.lock\n.pending/\n.ready\n*.tmp\n";

impl Board {
    /// Makes a board in a directory, which is made, too, if it is not there. A board that is there stays as it is.
    pub fn init(directory: &Path) -> Result<()> {
        let made = fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory);
        made.map_err(|source| Error::io("make the directory", directory, source))?;
        let locker = FileLocker::new(Duration::ZERO);
        Self::on(directory, locker, Arc::new(RealDisk))?.fill()
    }

    /// Makes what is missing. The index comes last: with it, the board is there.
    pub(super) fn fill(&self) -> Result<()> {
        for directory in [self.names.issues(), self.names.all_pending()] {
            match self.disk.make_directory(&directory) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(source) => return Err(Error::io("make the directory", directory, source)),
                Ok(()) => sync_directory_of(&*self.disk, &directory)?,
            }
        }
        for (path, content) in [
            (self.names.root().join(".gitignore"), IGNORED.to_owned()),
            (self.names.gates(), encode(&Gates::default())),
            (self.names.log(), String::new()),
            (self.names.index(), encode(&Index::default())),
        ] {
            let is_there = self.disk.exists(&path);
            if !is_there.map_err(|source| Error::io("look for", &path, source))? {
                replace(&*self.disk, &path, content.as_bytes(), None)?;
            }
        }
        Ok(())
    }
}
