//! The removal of files that crashed writers left.
//!
//! Temporary files, notes and journals of a document are made only under its exclusive lock. A
//! process that has that lock, and has finished the committed transactions, therefore finds only
//! files of dead writers; a live writer's files cannot be among them. Programs of Node make their
//! files under Node's lock, so that is taken, too, where there are any.
//!
//! # Limitations
//!
//! A journal that no note names any more, because a person removed the note, is left as it is.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use tenure_core::{Error, Result};
use tenure_os::clock;
use tenure_os::disk::Disk;
use tenure_os::replace::target_of_temporary;

use super::Documents;
use super::path::{Location, document_of_journal, document_of_note};
use crate::node_lock;

impl Documents {
    /// Returns the files that crashed writers of a document left and no process needs. None is
    /// removed, but a committed transaction is finished, as whenever a document is opened.
    pub fn leftovers(&self, document: &Path) -> Result<Vec<PathBuf>> {
        self.with_leftovers(document, |_, _| Ok(()))
    }

    /// Removes the [`leftovers`](Self::leftovers) of a document, and returns them.
    pub fn clean(&self, document: &Path) -> Result<Vec<PathBuf>> {
        self.with_leftovers(document, |disk, files| {
            files.iter().try_for_each(|path| remove(disk, path))
        })
    }

    fn with_leftovers(
        &self,
        document: &Path,
        then: impl FnOnce(&dyn Disk, &[PathBuf]) -> Result<()>,
    ) -> Result<Vec<PathBuf>> {
        let deadline = clock::after(Instant::now(), self.locker.timeout());
        let location = Location::of(document)?;
        let _guards = self.lock_and_recover(&[&location], deadline)?;
        let mut found = self.files_left_beside(&location)?;
        let mut _node_locks = Vec::new();
        if found.iter().any(|path| is_of_node(path)) {
            _node_locks = self.take_node_locks(location.path(), &location, deadline)?;
            // The search is repeated, as a file that a live program was about to rename is gone by
            // now.
            found = self.files_left_beside(&location)?;
        }
        (self.on_locked)();
        found.sort();
        then(&*self.disk, &found)?;
        Ok(found)
    }

    fn files_left_beside(&self, location: &Location) -> Result<Vec<PathBuf>> {
        let directory = location.directory();
        let names = self.disk.names(directory);
        let mut names = names.map_err(|source| Error::io("list", directory, source))?;
        names.retain(|name| document_of_leftover(name) == Some(location.name()));
        Ok(names.into_iter().map(|name| directory.join(name)).collect())
    }
}

/// Returns the name of the document whose writers make temporary files of this name, or `None` if
/// it is no such name.
fn document_of_leftover(name: &OsStr) -> Option<&OsStr> {
    let Some(target) = target_of_temporary(name) else {
        let of_node = node_lock::document_of_leftover(name);
        return of_node.or_else(|| node_lock::target_of_temporary(name));
    };
    let of_target = document_of_note(target).or_else(|| document_of_journal(target));
    Some(of_target.unwrap_or(target))
}

/// Returns true if this is a temporary file of a program of Node.
fn is_of_node(path: &Path) -> bool {
    path.file_name()
        .and_then(node_lock::target_of_temporary)
        .is_some()
}

fn remove(disk: &dyn Disk, path: &Path) -> Result<()> {
    let removed = if fs::symlink_metadata(path).is_ok_and(|found| found.is_dir()) {
        fs::remove_dir(path)
    } else {
        disk.remove(path)
    };
    match removed {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other.map_err(|source| Error::io("remove", path, source)),
    }
}
