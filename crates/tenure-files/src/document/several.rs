//! One transaction over several documents: all of them change, or none.
//!
//! The caller holds the exclusive locks of all of them, taken in the order of their paths. D are
//! the documents, N their notes, J the journal.
//!
//! 1. Write and sync the new content of every D as a temporary file. *Crash:* only temporary files
//!    stay. A full disk is met here, before anything else happened.
//! 2. Replace every N by one that names J; sync their directories. *Crash:* some N name a J that
//!    is not there, which means nothing.
//! 3. Put J in place, durably. **This is the commit.** *Crash before:* as above. *Crash after:* every
//!    N names J, so whoever opens any D finds it and redoes it (see [`super::recover`]), before it
//!    reads or changes anything. That is why N comes first: if J existed while some N did not name
//!    it, that D could be changed in between, and then fit neither before nor after.
//! 4. Rename every temporary file to its D; sync the directories. *Crash:* J is redone.
//! 5. Remove J; sync its directory. *Crash before the sync:* J is there or not; if it is, all D are
//!    at "after" and nothing is left to do. This sync comes before any D can change again: if J
//!    came back after a later change, redoing it would meet a D that fits neither.
//! 6. Forget J in every N. *Crash:* an N names a J that is not there.
//!
//! An error up to the rename of J undoes everything. After it, the transaction is committed and
//! stays so: the error says that it is not known to be durable, and the next to open a D finishes.

use std::collections::BTreeSet;
use std::path::Path;

use tenure_core::{Error, Result};

use super::content::Version;
use super::journal::{Journal, Step};
use super::note::Note;
use super::path::Location;
use crate::disk::{Attributes, Disk};
use crate::replace::{Durability, Replacement, sync_directory_of};

/// One transaction changes at most this many.
pub const DOCUMENTS_MAX: usize = 256;

/// What is to happen to one document.
pub(crate) struct Change<'a> {
    pub(crate) location: &'a Location,
    /// What is there now.
    pub(crate) before: Option<(Version, Attributes)>,
    /// What is to be there.
    pub(crate) after: String,
    /// What it is to remember besides the journal.
    pub(crate) note: Note,
}

/// Steps 1 to 6. `gate` is asked right before the commit; its error undoes everything.
pub(crate) fn commit(
    disk: &dyn Disk,
    changes: Vec<Change<'_>>,
    durability: Durability,
    gate: &mut dyn FnMut() -> Result<()>,
) -> Result<()> {
    let Some(first) = changes.first() else {
        return Ok(());
    };
    let journal = first.location.new_journal();
    let mut replacements = Vec::with_capacity(changes.len());
    for change in &changes {
        let like = change.before.as_ref().map(|(_, attributes)| attributes);
        let path = change.location.path();
        let content = change.after.as_bytes();
        replacements.push(Replacement::prepare(disk, path, content, like, durability)?);
    }
    let named = name_journal(disk, &changes, &journal, durability);
    let locations: Vec<(Location, Note)> = changes
        .iter()
        .map(|change| (change.location.clone(), change.note.clone()))
        .collect();
    let committed = named
        .and_then(|()| gate())
        .and_then(|()| put_journal(disk, &journal, changes, durability));
    if let Err(error) = committed {
        forget(disk, &locations);
        return Err(error);
    }
    if durability == Durability::Full {
        sync_directory_of(disk, &journal)?;
    }
    for replacement in replacements {
        replacement.put_in_place()?;
    }
    let places = locations.iter().map(|(location, _)| location);
    finish(disk, &journal, places, durability)?;
    forget(disk, &locations);
    Ok(())
}

/// The directories of step 4, and step 5.
pub(super) fn finish<'a>(
    disk: &dyn Disk,
    journal: &Path,
    locations: impl Iterator<Item = &'a Location>,
    durability: Durability,
) -> Result<()> {
    if durability == Durability::Full {
        sync_directories(disk, locations)?;
    }
    let removed = disk.remove(journal);
    removed.map_err(|source| Error::io("remove", journal, source))?;
    match durability {
        Durability::Full => sync_directory_of(disk, journal),
        Durability::Os => Ok(()),
    }
}

/// Step 2.
fn name_journal(
    disk: &dyn Disk,
    changes: &[Change<'_>],
    journal: &Path,
    durability: Durability,
) -> Result<()> {
    for change in changes {
        let note = Note {
            journal: Some(journal.to_owned()),
            ..change.note.clone()
        };
        let like = change.before.as_ref().map(|(_, attributes)| attributes);
        note.put_in_place(disk, change.location, like, durability)?;
    }
    if durability == Durability::Full {
        sync_directories(disk, changes.iter().map(|change| change.location))?;
    }
    Ok(())
}

/// Step 3, but for the sync of its directory: until the rename, an error means no commit.
fn put_journal(
    disk: &dyn Disk,
    path: &Path,
    changes: Vec<Change<'_>>,
    durability: Durability,
) -> Result<()> {
    let step = |change: Change<'_>| {
        let before = change.before.map(|(version, _)| version);
        Step::new(change.location, before, change.after)
    };
    let journal = Journal::new(changes.into_iter().map(step).collect()).encode()?;
    Replacement::prepare(disk, path, &journal, None, durability)?.put_in_place()
}

/// Step 6, and the undoing of step 2.
fn forget(disk: &dyn Disk, locations: &[(Location, Note)]) {
    for (location, note) in locations {
        note.forget_journal(disk, location);
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
