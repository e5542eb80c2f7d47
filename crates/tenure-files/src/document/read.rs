//! Reading, under a shared lock, after the unfinished transaction of a dead process is finished.

use std::path::{Path, PathBuf};
use std::time::Instant;

use tenure_core::{Error, Result};
use tenure_lockfile::LockGuard;
use tenure_os::clock;
use tenure_os::disk::Attributes;

use super::content::Content;
use super::json::DOCUMENT_BYTES_MAX;
use super::lock::has_ever_existed;
use super::note::Note;
use super::path::Location;
use super::re_entry::refuse_re_entry;
use super::recover;
use super::{DocumentError, Documents};

/// The largest number of journals finished for one request. More than that can only come from a
/// mistake.
const RECOVERIES_MAX: u32 = 100;

impl Documents {
    /// Reads a document.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no document. The content is not checked before it is parsed.
    pub fn read(&self, path: &Path) -> Result<Content> {
        self.read_if_there(path)?.ok_or_else(|| missing(path))
    }

    /// Reads a document. Returns `None` if there is none.
    pub fn read_if_there(&self, path: &Path) -> Result<Option<Content>> {
        if let Some(content) = self.read_briefly(path) {
            return Ok(Some(content));
        }
        let mut contents = self.read_all(&[path])?;
        Ok(contents.pop().flatten())
    }

    /// Reads a document that was locked before, in as few calls as possible. Returns `None` in
    /// every unusual case, which the long way then handles: a line of waiters, a note, an error.
    ///
    /// The document was no symbolic link when its lock file was opened. If it has become one,
    /// reading fails.
    fn read_briefly(&self, path: &Path) -> Option<Content> {
        if self.shared_with_node || !path.is_absolute() {
            return None;
        }
        let place = Location::at(path.to_owned()).ok()?;
        let _shared = self.locker.try_share_again(&place.lock())?;
        if self.disk.exists(&place.note()).ok()? {
            return None;
        }
        let content = self.disk.content(path, DOCUMENT_BYTES_MAX as u64).ok()??;
        Some(Content::new(path.to_owned(), content))
    }

    /// Reads several documents at one moment: no transaction shows only in some of them.
    pub fn read_many(&self, paths: &[&Path]) -> Result<Vec<Content>> {
        let contents = self.read_all(paths)?.into_iter().zip(paths);
        let content =
            |(content, path): (Option<Content>, &&Path)| content.ok_or_else(|| missing(path));
        contents.map(content).collect()
    }

    /// Reads several documents at one moment. A missing document is `None`.
    pub fn read_all(&self, paths: &[&Path]) -> Result<Vec<Option<Content>>> {
        let deadline = clock::after(Instant::now(), self.locker.timeout());
        let order = self.in_order(paths)?;
        refuse_re_entry(order.iter().map(|(location, _)| location))?;
        let mut contents: Vec<Option<Content>> = paths.iter().map(|_| None).collect();
        if self.shared_with_node {
            return self.read_shared_with_node(paths, &order, deadline);
        }
        for _ in 0..RECOVERIES_MAX {
            let mut shared = Vec::with_capacity(order.len());
            for (location, _) in &order {
                shared.push(self.share(location, deadline)?);
            }
            // Without a lock, a journal may belong to a live transaction.
            let locked = order.iter().zip(&shared);
            let locked = locked.filter(|(_, shared)| shared.is_lock());
            let locked = locked.map(|((location, _), _)| location);
            let notes = self.notes(locked.clone())?;
            if let Some(journal) = self.unfinished(locked.zip(&notes))? {
                drop(shared);
                self.finish(&journal, deadline)?;
                continue;
            }
            (self.on_locked)();
            for (location, at) in &order {
                contents[*at] = self.found(location)?.map(|(content, _)| content);
            }
            // A document that was not there may be part of a transaction that creates it. Its
            // creator makes its lock file first.
            let mut absent = order.iter().zip(&shared);
            if absent
                .any(|((location, _), shared)| shared.is_absence() && has_ever_existed(location))
            {
                continue;
            }
            return Ok(contents);
        }
        Err(never_finished(paths[0]))
    }

    /// Reads under Node's locks, since programs of Node may write in place. Node's locks are taken
    /// inside our exclusive locks.
    fn read_shared_with_node(
        &self,
        paths: &[&Path],
        order: &[(Location, usize)],
        deadline: Instant,
    ) -> Result<Vec<Option<Content>>> {
        let mut contents: Vec<Option<Content>> = paths.iter().map(|_| None).collect();
        let locations: Vec<&Location> = order.iter().map(|(location, _)| location).collect();
        let _guards = self.lock_and_recover(&locations, deadline)?;
        let mut locks = Vec::with_capacity(order.len());
        for (location, at) in order {
            locks.extend(self.take_node_locks(paths[*at], location, deadline)?);
            contents[*at] = self.found(location)?.map(|(content, _)| content);
        }
        (self.on_locked)();
        locks.iter().try_for_each(|lock| lock.check())?;
        Ok(contents)
    }

    /// Takes the exclusive locks of all documents and finishes their unfinished transactions. Also
    /// returns their notes.
    pub(super) fn lock_and_recover(
        &self,
        locations: &[&Location],
        deadline: Instant,
    ) -> Result<(Vec<LockGuard>, Vec<Note>)> {
        for _ in 0..RECOVERIES_MAX {
            let guards = self.lock_all(locations.iter().copied(), deadline)?;
            let mut notes = self.notes(locations.iter().copied())?;
            let Some(journal) = self.unfinished(locations.iter().copied().zip(&notes))? else {
                for (location, note) in locations.iter().zip(&mut notes) {
                    recover::forget_removed_journal(&*self.disk, location, note)?;
                    note.journal = None;
                }
                return Ok((guards, notes));
            };
            drop(guards);
            self.finish(&journal, deadline)?;
        }
        Err(never_finished(locations[0].path()))
    }

    /// Returns an existing journal that one of these documents names. Their locks are held, so its
    /// writer is dead.
    fn unfinished<'a>(
        &self,
        documents: impl Iterator<Item = (&'a Location, &'a Note)>,
    ) -> Result<Option<PathBuf>> {
        for (location, note) in documents {
            if let Some(journal) = note.journal(location)?
                && recover::places(&*self.disk, &journal)?.is_some()
            {
                return Ok(Some(journal));
            }
        }
        Ok(None)
    }

    fn notes<'a>(&self, locations: impl Iterator<Item = &'a Location>) -> Result<Vec<Note>> {
        let read = |location| Note::read(&*self.disk, location);
        locations.map(read).collect()
    }

    /// Finishes a transaction whose process died. Returns false if it is finished already. The
    /// caller holds no lock.
    pub(super) fn finish(&self, journal: &Path, deadline: Instant) -> Result<bool> {
        let disk = &*self.disk;
        let Some(places) = recover::places(disk, journal)? else {
            return Ok(false);
        };
        let locked = self.lock_all(&places, deadline);
        let _guards = locked.map_err(|error| cannot_finish(journal, error))?;
        recover::redo(disk, journal).map_err(|error| cannot_finish(journal, error))
    }

    /// Returns the content and attributes of a document. The caller holds the lock.
    pub(super) fn found(&self, location: &Location) -> Result<Option<(Content, Attributes)>> {
        let path = location.path();
        let found = self.disk.read(path, DOCUMENT_BYTES_MAX as u64);
        let found = found.map_err(|source| unreadable(path, source))?;
        Ok(found.map(|found| {
            let content = Content::new(path.to_owned(), found.bytes);
            (content, found.attributes)
        }))
    }
}

pub(super) fn missing(path: &Path) -> Error {
    Error::NotFound(format!("there is no document {}", path.display()))
}

fn unreadable(path: &Path, source: std::io::Error) -> Error {
    match source.kind() {
        std::io::ErrorKind::FileTooLarge => Error::corrupt(
            path.to_owned(),
            format!(
                "it has {} MiB, and a document at most {} MiB",
                path.metadata()
                    .map_or(0, |found| found.len())
                    .div_ceil(1 << 20),
                DOCUMENT_BYTES_MAX >> 20
            ),
        ),
        std::io::ErrorKind::PermissionDenied => Error::not_allowed(
            format!("{} may not be read by this user", path.display()),
            "give this user read access to the document",
        ),
        std::io::ErrorKind::InvalidInput | std::io::ErrorKind::IsADirectory => {
            Error::corrupt(path, "it is not a regular file")
        }
        _ => Error::io("read", path, source),
    }
}

/// Returns the error for a committed transaction that cannot be finished. A timeout stays a
/// timeout.
fn cannot_finish(journal: &Path, error: Error) -> Error {
    match error {
        Error::NotFound(problem) => DocumentError::Stuck {
            path: journal.to_owned(),
            problem: format!("its transaction cannot be finished: {problem}"),
            journal: journal.to_owned(),
            remedy: "put it back",
        }
        .into(),
        Error::Io { .. } => Error::HalfWay {
            done: format!(
                "a transaction over several documents is committed and not finished (its journal is {})",
                journal.display()
            ),
            source: Box::new(error),
        },
        other => other,
    }
}

fn never_finished(path: &Path) -> Error {
    Error::corrupt(
        path.to_owned(),
        format!("it is left unfinished again and again, {RECOVERIES_MAX} times by now"),
    )
}
