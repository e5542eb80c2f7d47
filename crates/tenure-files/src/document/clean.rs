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

use super::note::Note;
use super::path::{Location, document_of_journal};
use super::{Documents, recover};
use crate::disk::Disk;
use crate::replace::target_of_temporary;
use crate::{clock, node_lock};

impl Documents {
    /// What crashed writers of a document left. No file is removed; but a transaction that is
    /// committed is finished, as whenever a document is opened.
    pub fn leftovers(&self, document: &Path) -> Result<Leftovers> {
        self.with_leftovers(document, |_, _| Ok(()))
    }

    /// Removes the files, and says which they were.
    pub fn clean(&self, document: &Path) -> Result<Leftovers> {
        self.with_leftovers(document, |disk, files| {
            files.iter().try_for_each(|path| remove(disk, path))
        })
    }

    fn with_leftovers(
        &self,
        document: &Path,
        then: impl FnOnce(&dyn Disk, &[PathBuf]) -> Result<()>,
    ) -> Result<Leftovers> {
        let deadline = clock::after(Instant::now(), self.locker.timeout());
        let location = Location::of(document)?;
        let finished = self.finish_all(&location, deadline)?;
        let _guards = self.lock_and_recover(&[&location], deadline)?;
        let mut found = self.beside(&location, |name| is_left_over(&location, name))?;
        found.sort();
        then(&*self.disk, &found)?;
        Ok(Leftovers {
            finished,
            files: found,
        })
    }

    /// Finishes the transactions whose journals are beside a document or named by it, and answers
    /// the documents of those that were not finished yet.
    fn finish_all(&self, location: &Location, deadline: Instant) -> Result<Vec<PathBuf>> {
        let is_its = |name: &OsStr| document_of_journal(name) == Some(location.name());
        let mut journals = self.beside(location, is_its)?;
        journals.extend(Note::read(&*self.disk, location)?.journal(location)?);
        let mut finished = Vec::new();
        for journal in journals {
            let journal = canonical(&journal)?;
            let Some(places) = recover::places(&*self.disk, &journal)? else {
                continue;
            };
            if self.finish(&journal, deadline)? {
                finished.extend(places.iter().map(|place| place.path().to_owned()));
            }
        }
        Ok(finished)
    }

    fn beside(&self, location: &Location, wanted: impl Fn(&OsStr) -> bool) -> Result<Vec<PathBuf>> {
        let directory = location.directory();
        let names = self.disk.names(directory);
        let names = names.map_err(|source| Error::io("list", directory, source))?;
        let wanted = names.into_iter().filter(|name| wanted(name));
        Ok(wanted.map(|name| directory.join(name)).collect())
    }
}

/// What crashed writers left.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Leftovers {
    /// The documents of transactions that were committed, and are finished now.
    pub finished: Vec<PathBuf>,
    /// Files that nobody needs.
    pub files: Vec<PathBuf>,
}

/// A journal's path without links, as its documents name it.
fn canonical(journal: &Path) -> Result<PathBuf> {
    let found = journal.parent().map(fs::canonicalize).transpose();
    let directory = found.map_err(|source| Error::io("find", journal, source))?;
    let name = journal.file_name().unwrap_or_default();
    Ok(directory.unwrap_or_default().join(name))
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
