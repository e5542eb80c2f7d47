//! Finishing a transaction whose process died.
//!
//! Whoever opens a document, to read or to change it, looks at its note first. If that names a
//! journal that is there, the process that wrote it is dead: a live one holds the lock. Then
//!
//! 1. give up all locks held (the order of locks would not allow to take more);
//! 2. take the exclusive locks of all documents in the journal, in order;
//! 3. read the journal again: someone else may have finished it meanwhile;
//! 4. look at all documents. One whose version is the recorded *before* is to be replaced, one that
//!    is *after* is done. Anything else was changed by someone who took no lock: stop there, with
//!    nothing touched, since either content may be the one that is wanted;
//! 5. replace what is to be replaced, sync all directories, remove the journal, sync its directory.
//!
//! *Crash at any step:* the journal is still there, or the work is done. Every step can be
//! repeated: what is replaced is "after" the next time.
//!
//! This module is steps 3 to 5; the locks are taken by [`super::Documents`].

use std::path::Path;

use tenure_core::{Error, Result};

use super::content::Version;
use super::journal::{Journal, Step};
use super::json::DOCUMENT_BYTES_MAX;
use super::note::Note;
use super::path::Location;
use super::several::finish;
use crate::disk::{Attributes, Disk};
use crate::replace::{Durability, Replacement};

/// The places of the documents in a journal, in the order of locks; None if it is finished.
pub(crate) fn places(disk: &dyn Disk, journal: &Path) -> Result<Option<Vec<Location>>> {
    let Some(journal) = Journal::read(disk, journal)? else {
        return Ok(None);
    };
    let places = journal.documents.iter().map(Step::location);
    places.collect::<Result<_>>().map(Some)
}

/// Steps 3 to 5, with all locks held. Nothing to do is fine.
pub(crate) fn redo(disk: &dyn Disk, path: &Path) -> Result<()> {
    let Some(journal) = Journal::read(disk, path)? else {
        return Ok(());
    };
    let mut places = Vec::with_capacity(journal.documents.len());
    let mut missing = Vec::new();
    for step in &journal.documents {
        let place = step.location()?;
        if let Some(like) = to_be_replaced(disk, &place, step, path)? {
            missing.push((places.len(), like));
        }
        places.push(place);
    }
    let mut replacements = Vec::with_capacity(missing.len());
    for (number, like) in &missing {
        let target = places[*number].path();
        let content = journal.documents[*number].after.as_bytes();
        let prepared =
            Replacement::prepare(disk, target, content, like.as_ref(), Durability::Full)?;
        replacements.push(prepared);
    }
    for replacement in replacements {
        replacement.put_in_place()?;
    }
    finish(disk, path, places.iter(), Durability::Full)?;
    for place in &places {
        let note = Note::read(disk, place)?;
        if note.journal.as_deref() == Some(path) {
            note.forget_journal(disk, place);
        }
    }
    Ok(())
}

/// Whether a document is still at "before", and if so what its replacement is to be like.
fn to_be_replaced(
    disk: &dyn Disk,
    place: &Location,
    step: &Step,
    journal: &Path,
) -> Result<Option<Option<Attributes>>> {
    let found = disk.read(place.path(), DOCUMENT_BYTES_MAX as u64);
    let found = found.map_err(|source| Error::io("read", place.path(), source))?;
    let version = found.as_ref().map(|found| Version::of(&found.bytes));
    if version == Some(Version::of(step.after.as_bytes())) {
        return Ok(None);
    }
    if version == step.before {
        return Ok(Some(found.map(|found| found.attributes)));
    }
    Err(Error::Corrupt {
        path: place.path().to_owned(),
        problem: format!(
            "a transaction over several documents did not finish, and this one was changed by a \
             program that took no lock; nothing was touched. Put back what it was before, or what \
             the journal has for it, or remove the journal to keep all as they are: {}",
            journal.display()
        ),
    })
}
