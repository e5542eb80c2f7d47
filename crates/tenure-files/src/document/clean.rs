//! What crashed writers left, and its removal.
//!
//! Temporary files, notes and journals of a document are made only under its exclusive lock. So
//! whoever has that lock, and finished what was to be finished, finds only what the dead left; a
//! live writer's files cannot be among them. A journal that no note names any more, because someone
//! removed the note, is told of as damage and left for a person to decide.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use tenure_core::{Error, Result};

use super::Documents;
use super::path::{Location, document_of_journal};
use crate::disk::Disk;
use crate::replace::target_of_temporary;
use crate::{clock, node_lock};

impl Documents {
    /// The files that crashed writers of a document left beside it. None of them is removed; but a
    /// transaction that is committed is finished, as whenever a document is opened.
    pub fn leftovers(&self, document: &Path) -> Result<Vec<PathBuf>> {
        self.with_leftovers(document, |_, found| Ok(found))
    }

    /// Removes them, and says which they were.
    pub fn clean(&self, document: &Path) -> Result<Vec<PathBuf>> {
        self.with_leftovers(document, |disk, found| {
            for path in &found {
                remove(disk, path)?;
            }
            Ok(found)
        })
    }

    fn with_leftovers<T>(
        &self,
        document: &Path,
        then: impl FnOnce(&dyn Disk, Vec<PathBuf>) -> Result<T>,
    ) -> Result<T> {
        let deadline = clock::after(Instant::now(), self.locker.timeout());
        let location = Location::of(document)?;
        for journal in self.beside(&location, |name| {
            document_of_journal(name) == Some(location.name())
        })? {
            self.finish(&journal, deadline)?;
        }
        let _guards = self.lock_and_recover(&[&location], deadline)?;
        let mut found = self.beside(&location, |name| is_left_over(&location, name))?;
        found.sort();
        then(&*self.disk, found)
    }

    fn beside(&self, location: &Location, wanted: impl Fn(&OsStr) -> bool) -> Result<Vec<PathBuf>> {
        let directory = location.directory();
        let names = self.disk.names(directory);
        let names = names.map_err(|source| Error::io("list", directory, source))?;
        let wanted = names.into_iter().filter(|name| wanted(name));
        Ok(wanted.map(|name| directory.join(name)).collect())
    }
}

/// Whether this is a file that a writer of the document makes and takes away again.
fn is_left_over(location: &Location, name: &OsStr) -> bool {
    if node_lock::is_left_over(location.name(), name) {
        return true;
    }
    let Some(target) = target_of_temporary(name) else {
        return false;
    };
    target == location.name()
        || Some(target) == location.note().file_name()
        || document_of_journal(target) == Some(location.name())
}

fn remove(disk: &dyn Disk, path: &Path) -> Result<()> {
    let removed = match fs::symlink_metadata(path).is_ok_and(|found| found.is_dir()) {
        true => fs::remove_dir(path),
        false => disk.remove(path),
    };
    match removed {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other.map_err(|source| Error::io("remove", path, source)),
    }
}
