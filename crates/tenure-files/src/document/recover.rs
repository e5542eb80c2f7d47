//! Finishing a transaction whose process died.
//!
//! A process that opens a document, to read or to change it, looks at its note first. If that names
//! a journal that is there, the process that wrote it is dead, as a live one would hold the lock.
//! Then these steps follow:
//!
//! 1. give up all locks held (the order of locks would not allow to take more);
//! 2. take the exclusive locks of all documents in the journal, in order;
//! 3. read the journal again: another process may have finished it meanwhile;
//! 4. look at all notes: unless every note names this journal, it is not theirs. Then look at all
//!    documents. A document at the recorded version *before* is to be replaced, a document at
//!    *after* is done. At any other version the document was changed by a program that took no
//!    lock: stop there, with nothing touched, since either content may be the wanted one;
//! 5. sync the directory of the journal: the journal may be there without being durable, if its
//!    process died right after the commit. If it were lost with the power after some documents were
//!    replaced, nothing would finish the others;
//! 6. replace the documents at *before*, sync all directories, remove the journal, sync its
//!    directory.
//!
//! *Crash at any step:* the journal is still there, or the work is done. Every step can be
//! repeated: a replaced document is at "after" the next time.
//!
//! A named journal that is not there may have been removed a moment ago, by a process that died
//! before the removal was durable. A process that changes one of its documents makes the removal
//! durable first ([`forget_removed_journal`]); a reader need not.
//!
//! This module is steps 3 to 6; the locks are taken by [`super::Documents`].

use super::DocumentError;
use std::io;
use std::path::Path;

use tenure_api::doc::Version;
use tenure_core::{Error, Result};
use tenure_os::disk::{Attributes, Disk};
use tenure_os::replace::{Replacement, sync_directory_of};

use super::journal::{Journal, Step};
use super::json::DOCUMENT_BYTES_MAX;
use super::note::Note;
use super::path::Location;
use super::several::{finish, put_in_place, require_none_kept};

/// Returns the locations of the documents in a journal, in the order of locks, or `None` if there
/// is no journal any more.
pub(crate) fn places(disk: &dyn Disk, journal: &Path) -> Result<Option<Vec<Location>>> {
    match Journal::read(disk, journal)? {
        Some(found) => found.places(journal).map(Some),
        None => Ok(None),
    }
}

/// Makes steps 3 to 6, with all locks held. Returns false if there was nothing left to do.
pub(crate) fn redo(disk: &dyn Disk, path: &Path) -> Result<bool> {
    let Some(journal) = Journal::read(disk, path)? else {
        return Ok(false);
    };
    let places = journal.places(path)?;
    let mut missing = Vec::new();
    for (number, (place, step)) in places.iter().zip(&journal.documents).enumerate() {
        require_named(disk, place, path)?;
        if let Some(like) = attributes_to_replace(disk, place, step, path)? {
            missing.push((number, like));
        }
    }
    if !missing.is_empty() {
        sync_directory_of(disk, path)?;
    }
    let mut replacements = Vec::with_capacity(missing.len());
    for (number, like) in &missing {
        let target = places[*number].path();
        let content = journal.documents[*number].after.as_bytes();
        replacements.push(Replacement::prepare(disk, target, content, like.as_ref())?);
    }
    let kept = put_in_place(replacements)?;
    finish(disk, path, &places)?;
    for place in &places {
        Note::forget(disk, place, path);
    }
    require_none_kept(&kept)?;
    Ok(true)
}

/// Fails if a document of a journal does not name it. The notes are durable before the journal
/// exists, so such a journal comes from elsewhere, perhaps with copied files, and would let its
/// author choose the files to replace.
fn require_named(disk: &dyn Disk, place: &Location, journal: &Path) -> Result<()> {
    if Note::read(disk, place)?.journal(place)?.as_deref() == Some(journal) {
        return Ok(());
    }
    Err(DocumentError::Stuck {
        path: place.path().to_owned(),
        problem: "a journal has something for it, but its note names no such journal".into(),
        journal: journal.to_owned(),
        remedy: "put its note back, if that was removed by mistake",
    }
    .into())
}

/// Makes sure, before a document changes, that a missing journal which it names does not come back.
/// The caller holds the document's exclusive lock.
///
/// The process that removed the journal may have died before that was durable. If the journal came
/// back after a power loss, it would meet a document that fits neither before nor after.
pub(crate) fn forget_removed_journal(
    disk: &dyn Disk,
    location: &Location,
    note: &Note,
) -> Result<()> {
    let Some(journal) = note.journal(location)? else {
        return Ok(());
    };
    match sync_directory_of(disk, &journal) {
        // If its directory is gone, the journal is gone, too.
        Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
        synced => synced?,
    }
    Note::forget(disk, location, &journal);
    Ok(())
}

/// Returns the attributes for the replacement of a document that is still at "before", or `None` if
/// it is at "after".
fn attributes_to_replace(
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
    Err(DocumentError::Stuck {
        path: place.path().to_owned(),
        problem:
            "a transaction over several documents did not finish, and since then this one was \
                  changed by a program that took no lock"
                .into(),
        journal: journal.to_owned(),
        remedy: "put back what it was before, or what the journal has for it",
    }
    .into())
}
