//! One transaction over several documents: all of them change, or none.
//!
//! The caller holds the exclusive locks of all of them, taken in the order of their paths. D are
//! the documents, N their notes, J the journal.
//!
//! 1. Sync every D, which a program that does not sync may have written a moment ago: if that write
//!    were lost, D would no longer be "before". Write and sync the new content of every D as a
//!    temporary file. *Crash:* only temporary files stay. A full disk is met here, before anything
//!    else happened.
//! 2. Replace every N by one that names J; sync their directories. *Crash:* some N name a J that
//!    does not exist, which means nothing.
//! 3. Put J in place, durably. **This is the commit.** *Crash before:* as above. *Crash after:*
//!    every N names J, so the next process that opens any D finds it and redoes it (see
//!    [`super::recover`]), before it reads or changes anything. N comes first for this reason: if J
//!    existed while some N did not name it, its D could be changed in between, and would then fit
//!    neither before nor after. Right before, every D must still be the file that was read: an
//!    editor takes no lock.
//! 4. Exchange every temporary file with its D; sync the directories. *Crash:* J is redone. A file
//!    that an editor put in the place of D since 3 is kept under a name of its own, which the error
//!    tells.
//! 5. Remove J; sync its directory. *Crash before the sync:* J is there or not; if it is, all D are
//!    at "after" and nothing is left to do. This sync comes before any D can change again: if J
//!    came back after a later change, redoing it would meet a D that fits neither.
//! 6. Forget J in every N. *Crash:* an N names a J that is not there.
//!
//! An error up to the rename of J undoes everything. After it, the transaction is committed and
//! stays so: the error says that, and the next process that opens a D finishes it.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use tenure_api::doc::Version;
use tenure_core::{Error, Result};
use tenure_os::disk::{Attributes, Disk};
use tenure_os::replace::{Replacement, others_kept, sync_directory_of};

use super::journal::{Journal, Step};
use super::note::Note;
use super::path::Location;

/// The largest number of documents in one transaction.
pub const DOCUMENTS_MAX: usize = 256;

/// The change of one document.
pub(crate) struct DocumentChange<'a> {
    pub(crate) location: &'a Location,
    /// The present version and attributes of the document, or `None` if there is no document.
    pub(crate) before: Option<(Version, Attributes)>,
    /// The new content.
    pub(crate) after: String,
    /// The new note, without the journal.
    pub(crate) note: Note,
}

/// Makes the transaction: steps 1 to 6. `gate` is called right before the commit, and its error
/// undoes everything.
pub(crate) fn commit(
    disk: &dyn Disk,
    changes: Vec<DocumentChange<'_>>,
    gate: &mut dyn FnMut() -> Result<()>,
) -> Result<()> {
    let Some(first) = changes.first() else {
        return Ok(());
    };
    let journal = first.location.new_journal();
    let replacements = prepare_replacements(disk, &changes)?;
    let locations = changes.iter().map(|change| change.location.clone());
    let locations: Vec<Location> = locations.collect();
    let named = name_journal(disk, &changes, &journal);
    let mut last_look = || {
        gate()?;
        let mut replacements = replacements.iter();
        replacements.try_for_each(Replacement::require_unchanged)
    };
    let committed = named.and_then(|()| put_journal(disk, &journal, changes, &mut last_look));
    if let Err(error) = committed {
        forget(disk, &locations, &journal);
        return Err(error);
    }
    let finished = sync_directory_of(disk, &journal)
        .and_then(|()| put_in_place(replacements))
        .and_then(|kept| finish(disk, &journal, &locations).map(|()| kept));
    let kept = finished.map_err(|source| Error::HalfWay {
        done: format!(
            "the transaction is committed, and the next to open one of its documents finishes it \
             (its journal is {})",
            journal.display()
        ),
        source: Box::new(source),
    })?;
    forget(disk, &locations, &journal);
    require_none_kept(&kept)
}

/// Makes step 4 without its syncs. Returns the files of other programs that are kept beside the
/// documents.
pub(super) fn put_in_place(replacements: Vec<Replacement<'_>>) -> Result<Vec<PathBuf>> {
    let mut kept = Vec::new();
    for replacement in replacements {
        kept.extend(replacement.put_in_place_keeping_others()?);
    }
    Ok(kept)
}

/// Fails if files of other programs were taken out of the places of the documents.
pub(super) fn require_none_kept(kept: &[PathBuf]) -> Result<()> {
    if kept.is_empty() {
        return Ok(());
    }
    Err(Error::HalfWay {
        done: "the transaction is done".into(),
        source: Box::new(others_kept(kept)),
    })
}

/// Syncs the directories of step 4, and makes step 5.
pub(super) fn finish(disk: &dyn Disk, journal: &Path, locations: &[Location]) -> Result<()> {
    sync_directories(disk, locations.iter())?;
    match disk.remove(journal) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(Error::io("remove", journal, source))
        }
        _ => sync_directory_of(disk, journal),
    }
}

/// Makes step 1.
fn prepare_replacements<'a>(
    disk: &'a dyn Disk,
    changes: &[DocumentChange<'a>],
) -> Result<Vec<Replacement<'a>>> {
    let mut replacements = Vec::with_capacity(changes.len());
    for change in changes {
        let path = change.location.path();
        let like = change.before.as_ref().map(|(_, attributes)| attributes);
        if like.is_some() {
            let synced = disk.sync_file(path);
            synced.map_err(|source| Error::io("sync", path, source))?;
        }
        let content = change.after.as_bytes();
        replacements.push(Replacement::prepare(disk, path, content, like)?);
    }
    Ok(replacements)
}

/// Makes step 2.
fn name_journal(disk: &dyn Disk, changes: &[DocumentChange<'_>], journal: &Path) -> Result<()> {
    for change in changes {
        let note = change.note.with_journal(journal, change.location);
        let like = change.before.as_ref().map(|(_, attributes)| attributes);
        note.write(disk, change.location, like)?;
    }
    sync_directories(disk, changes.iter().map(|change| change.location))
}

/// Makes step 3 without the sync of its directory: until the rename, an error means no commit.
fn put_journal(
    disk: &dyn Disk,
    path: &Path,
    changes: Vec<DocumentChange<'_>>,
    gate: &mut dyn FnMut() -> Result<()>,
) -> Result<()> {
    let directory = path.parent().unwrap_or(Path::new("/"));
    let step = |change: DocumentChange<'_>| {
        let before = change.before.map(|(version, _)| version);
        Step::new(directory, change.location, before, change.after)
    };
    let journal = Journal::new(changes.into_iter().map(step).collect()).encode()?;
    let journal = Replacement::prepare(disk, path, &journal, None)?;
    gate()?;
    journal.put_in_place()
}

/// Makes step 6, or undoes step 2.
fn forget(disk: &dyn Disk, locations: &[Location], journal: &Path) {
    for location in locations {
        Note::forget(disk, location, journal);
    }
}

fn sync_directories<'a>(
    disk: &dyn Disk,
    locations: impl Iterator<Item = &'a Location>,
) -> Result<()> {
    let directories: BTreeSet<&Path> = locations.map(Location::directory).collect();
    for directory in directories {
        let synced = disk.sync_directory(directory);
        synced.map_err(|source| Error::io("sync", directory, source))?;
    }
    Ok(())
}
