//! What crashed writers left, and its removal.
//!
//! Temporary files, notes and journals of a document are made only under its exclusive lock. So a
//! process that has that lock, and finished the committed transactions, finds only what dead
//! writers left; a
//! live writer's files cannot be among them. Programs of Node make theirs under Node's lock, so that is
//! taken, too, where there are any. A journal that no note names any more, because someone
//! removed the note, is told of as damage and left for a person to decide.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use tenure_core::{Error, Result};

use super::note::Note;
use super::path::{Location, document_of_journal, document_of_note};
use super::{Documents, lock, recover};
use crate::disk::Disk;
use crate::replace::target_of_temporary;
use crate::{clock, node_lock};

impl Documents {
    /// Returns what crashed writers of a document left. No file is removed; but a transaction that is
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
        let is_its = |name: &OsStr| document_of_leftover(name) == Some(location.name());
        let mut found = self.beside(&location, is_its)?;
        let mut _node_locks = Vec::new();
        if found.iter().any(|path| is_of_node(path)) {
            _node_locks = self.take_node_locks(location.path(), &location, deadline)?;
            // What a live program was about to rename is gone by now.
            found = self.beside(&location, is_its)?;
        }
        found.sort();
        then(&*self.disk, &found)?;
        Ok(Leftovers {
            finished,
            files: found,
        })
    }

    /// Returns the documents in a directory that something may be left of.
    pub fn with_leftovers_in(directory: &Path) -> Result<Vec<PathBuf>> {
        let fail = |source| Error::io("list", directory, source);
        let mut documents = BTreeSet::new();
        for entry in fs::read_dir(directory).map_err(fail)? {
            let name = entry.map_err(fail)?.file_name();
            let document = document_of_leftover(&name)
                .or_else(|| document_of_journal(&name))
                .or_else(|| document_of_note(&name));
            documents.extend(document.map(|document| directory.join(document)));
        }
        // What only looks like a leftover has no document, and no lock file, which is never removed.
        let is_known = |path: &PathBuf| {
            Location::at(path.clone()).is_ok_and(|location| lock::was_ever(&location))
        };
        Ok(documents.into_iter().filter(is_known).collect())
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
#[non_exhaustive]
pub struct Leftovers {
    /// The documents of transactions that were committed, and are finished now.
    pub finished: Vec<PathBuf>,
    /// Files that nobody needs.
    pub files: Vec<PathBuf>,
}

/// Returns a journal's path without links, as its documents name it.
fn canonical(journal: &Path) -> Result<PathBuf> {
    let found = journal.parent().map(fs::canonicalize).transpose();
    let directory = found.map_err(|source| Error::io("find", journal, source))?;
    let name = journal.file_name().unwrap_or_default();
    Ok(directory.unwrap_or_default().join(name))
}

/// Returns the name of the document whose writers make files of this name and take them away again,
/// or `None` if it is no such name.
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
    let removed = match fs::symlink_metadata(path).is_ok_and(|found| found.is_dir()) {
        true => fs::remove_dir(path),
        false => disk.remove(path),
    };
    match removed {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other.map_err(|source| Error::io("remove", path, source)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_searched_for_documents_that_something_may_be_left_of() {
        let directory = tempfile::tempdir().unwrap();
        for name in [
            "a.json",
            ".a.json.0123456789abcdef.tmp",
            "b.json",
            ".b.json.lock",
            ".gone.json.lock",
            "..gone.json.note.0123456789abcdef.tmp",
            "node.json",
            "node.json.tmp.1f2e3d",
            ".foreign.0123456789abcdef.tmp",
        ] {
            fs::write(directory.path().join(name), "").unwrap();
        }
        let found = Documents::with_leftovers_in(directory.path()).unwrap();
        let names: Vec<_> = found.iter().filter_map(|path| path.file_name()).collect();
        assert_eq!(names, ["a.json", "gone.json", "node.json"]);
    }
}
