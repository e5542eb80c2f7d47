//! Temporary files of killed processes, which have no author any more.
//!
//! The author of a temporary file holds a lock exclusively, and the name of the file says which. A
//! file in the place of an issue, the index or the gates is written under their lock. The record of
//! a change bears the name of the first lock that its author holds exclusively. The holder of that
//! lock thus knows that no other process writes the file.
//!
//! *Race:* a process that makes a new board holds no lock. If its file is removed here, another
//! process made the board meanwhile.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tenure_core::{Error, Result};
use tenure_os::replace::target_of_temporary;

use super::Board;
use super::lock::BoardLocks;
use super::names::Part;

/// The age at which a temporary file that is written without a lock has no author any more.
const UNLOCKED_AGE: Duration = Duration::from_secs(3600);

/// Returns the name under which an author that holds this part writes the record of a change.
pub(super) fn name_of_record(part: &Part) -> OsString {
    match part {
        Part::Issue(id) => format!("issue-{id}").into(),
        Part::Index => "index".into(),
        Part::Gates => "gates".into(),
        Part::Events => "events".into(),
    }
}

fn part_of_record(name: &str) -> Option<Part> {
    match name {
        "index" => Some(Part::Index),
        "gates" => Some(Part::Gates),
        _ => Some(Part::Issue(name.strip_prefix("issue-")?.parse().ok()?)),
    }
}

impl Board {
    /// Returns the part whose lock the author of a temporary file holds; `None` for other files.
    pub(super) fn part_of_temporary(&self, path: &Path) -> Option<Part> {
        let target = target_of_temporary(path.file_name()?)?;
        if path.parent()? == self.names.all_pending() {
            return part_of_record(target.to_str()?);
        }
        let target = path.with_file_name(target);
        let stem = target.file_stem().and_then(OsStr::to_str);
        let issue = stem.and_then(|stem| stem.parse().ok()).map(Part::Issue);
        let parts = [Some(Part::Index), Some(Part::Gates), issue];
        let mut parts = parts.into_iter().flatten();
        parts.find(|part| self.names.file(part) == target)
    }

    /// Returns the temporary files in a directory.
    pub(super) fn names_in(&self, directory: &Path) -> Result<Vec<OsString>> {
        match self.disk.names(directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            names => names.map_err(|source| Error::io("list", directory, source)),
        }
    }

    fn temporaries_in(&self, directory: &Path) -> Result<Vec<PathBuf>> {
        let names = self.names_in(directory)?;
        let temporaries = names
            .iter()
            .filter(|name| target_of_temporary(name).is_some());
        Ok(temporaries.map(|name| directory.join(name)).collect())
    }

    /// Returns the temporary files without an author: the lock under which each is written is free.
    pub(super) fn leftovers(&self) -> Result<Vec<PathBuf>> {
        let mut left = Vec::new();
        for directory in [
            self.names.root(),
            &self.names.issues(),
            &self.names.all_pending(),
        ] {
            for path in self.temporaries_in(directory)? {
                if self.is_left(&path)? {
                    left.push(path);
                }
            }
        }
        Ok(left)
    }

    /// Returns true for a temporary file without an author.
    pub(super) fn is_left(&self, path: &Path) -> Result<bool> {
        if let Some(part) = self.part_of_temporary(path) {
            let alone = self.try_lock(&part)?;
            // The author may have put the file in its place and unlocked since it was found.
            return Ok(alone.is_some() && self.disk.exists(path).unwrap_or(false));
        }
        let Ok(Some(born)) = self.disk.born(path) else {
            return Ok(false);
        };
        let age = i128::from((self.now)().as_millis()) - born / 1_000_000;
        Ok(age > UNLOCKED_AGE.as_millis().cast_signed())
    }

    /// Removes records that were never committed, of parts that are held exclusively here.
    pub(super) fn remove_left_records(&self, temporaries: &[PathBuf], held: &BoardLocks) {
        for path in temporaries {
            let part = self.part_of_temporary(path);
            if part.is_some_and(|part| held.has_alone(&part)) {
                // A file that cannot be removed does no harm.
                let _ = self.disk.remove(path);
            }
        }
    }

    /// Removes temporary files that were to replace these parts, which are held exclusively. An
    /// unfinished change of such a part says that its author was killed there.
    pub(super) fn remove_left_files(&self, parts: &BTreeSet<Part>) {
        let files = parts.iter().map(|part| self.names.file(part));
        let directories = files.filter_map(|file| file.parent().map(Path::to_owned));
        for directory in directories.collect::<BTreeSet<_>>() {
            for path in self.temporaries_in(&directory).unwrap_or_default() {
                let part = self.part_of_temporary(&path);
                if part.is_some_and(|part| parts.contains(&part)) {
                    let _ = self.disk.remove(&path);
                }
            }
        }
    }

    /// Removes temporary files of other authors of the cache. An author that still writes one goes
    /// on without a cache.
    pub(super) fn remove_left_caches(&self) {
        let ready = self.names.ready();
        for path in self.temporaries_in(self.names.root()).unwrap_or_default() {
            if path.file_name().and_then(target_of_temporary) == ready.file_name() {
                let _ = self.disk.remove(&path);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NewIssue;
    use std::fs;

    const HEX: &str = "0123456789abcdef";

    #[test]
    fn a_record_is_named_after_the_lock_of_its_author() {
        let issue = Part::Issue("index".parse().unwrap());
        for part in [Part::Index, Part::Gates, issue] {
            let name = name_of_record(&part);
            assert_eq!(part_of_record(name.to_str().unwrap()), Some(part));
        }
        assert_eq!(
            part_of_record("3f2a9c00-1111-4222-8333-444455556666.json"),
            None
        );
    }

    #[test]
    fn what_has_no_author_is_removed_and_what_has_one_stays() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("board");
        Board::init(&root).unwrap();
        let mut board = Board::open(&root, Duration::from_secs(30)).unwrap();
        board.pending_max = 1;
        let id = board.create(NewIssue::titled("one")).unwrap().id;
        let put = |name: String| {
            let path = root.join(name);
            fs::write(&path, "").unwrap();
            path
        };
        let record = put(format!(".pending/.issue-{id}.{HEX}.tmp"));
        let beside = put(format!("issues/.{id}.json.{HEX}.tmp"));
        let of_index = put(format!(".index.json.{HEX}.tmp"));
        let unlocked = put(format!("..gitignore.{HEX}.tmp"));
        let other = put(format!(".pending/.mine.{HEX}"));
        let found = |board: &Board| {
            board
                .leftovers()
                .unwrap()
                .into_iter()
                .collect::<BTreeSet<_>>()
        };
        assert_eq!(
            found(&board),
            [&record, &beside, &of_index].map(Clone::clone).into()
        );
        // The holder of the lock may be writing.
        let held = board
            .try_lock(&Part::Issue(id.clone()))
            .unwrap()
            .expect("it is free");
        assert_eq!(found(&board), [of_index.clone()].into());
        board.create(NewIssue::titled("two")).unwrap();
        assert!(record.exists() && beside.exists());
        drop(held);
        board.note(&id, "x").unwrap();
        assert!(!record.exists() && unlocked.exists() && other.exists());
        let repaired = board.repair().unwrap();
        assert!(
            repaired.findings.iter().all(|finding| finding.repaired),
            "{repaired:?}"
        );
        assert!(!beside.exists() && !of_index.exists() && unlocked.exists());
        board.now = || tenure_os::clock::now().after(2 * UNLOCKED_AGE);
        board.repair().unwrap();
        assert!(!unlocked.exists() && other.exists());
        assert_eq!(board.list().unwrap().issues.len(), 2);
    }
}
