//! The note of a document, `.NAME.note`: the token of its last fenced write, and the journal of a
//! transaction it is part of.
//!
//! A note is replaced atomically and durably, always under the document's exclusive lock. It names
//! a journal before that journal exists. A named journal that is not there means nothing: the
//! transaction was never committed, or is finished. A name that is out of date therefore does no
//! harm.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tenure_core::{Error, Resource, Result, Token};
use tenure_os::disk::{Attributes, Disk};
use tenure_os::replace::{Replacement, sync_directory_of};

use super::path::{Location, document_of_journal, relative, resolved};

/// The longest note: two paths, a resource and a number.
const NOTE_BYTES_MAX: u64 = 64 * 1024;

/// The note of a document: its last fence and its last journal.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Note {
    /// The last write with an explicit token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) fence: Option<Fenced>,
    /// The journal of the last transaction over several documents, from the directory of the note.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) journal: Option<PathBuf>,
}

/// The lock and token of the last fenced write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Fenced {
    pub(crate) store: String,
    pub(crate) resource: Resource,
    pub(crate) token: Token,
}

impl Fenced {
    /// Returns `RESOURCE#N`, with the store if the other fence is of another store.
    pub(crate) fn shown_beside(&self, other: &Fenced) -> String {
        let Fenced {
            store,
            resource,
            token,
        } = self;
        if *store == other.store {
            format!("{resource}#{token}")
        } else {
            format!("{resource}#{token} of {store}")
        }
    }
}

impl Note {
    /// Returns the note of a document, an empty one if there is none.
    pub(crate) fn read(disk: &dyn Disk, location: &Location) -> Result<Self> {
        let path = location.note();
        let failed = |source| Error::io("read", &path, source);
        // The cheap question comes first: most documents have no note, and every reader asks.
        if !disk.exists(&path).map_err(failed)? {
            return Ok(Self::default());
        }
        let Some(found) = disk.read(&path, NOTE_BYTES_MAX).map_err(failed)? else {
            return Ok(Self::default());
        };
        serde_json::from_slice(&found.bytes)
            .map_err(|error| Error::corrupt(path, format!("it is no note of Tenure: {error}")))
    }

    /// Returns the path of the journal that the note names, spelled without links.
    pub(crate) fn journal(&self, location: &Location) -> Result<Option<PathBuf>> {
        let Some(journal) = &self.journal else {
            return Ok(None);
        };
        let directory = location.directory();
        let directory =
            fs::canonicalize(directory).map_err(|source| Error::io("find", directory, source))?;
        let path = resolved(&directory, journal);
        let is_journal = |path: &PathBuf| path.file_name().and_then(document_of_journal).is_some();
        path.filter(is_journal).map(Some).ok_or_else(|| {
            Error::corrupt(
                location.note(),
                format!("it names {}, which is no journal", journal.display()),
            )
        })
    }

    /// Returns this note with a journal. Both paths are spelled without links.
    pub(crate) fn with_journal(&self, journal: &Path, location: &Location) -> Self {
        Self {
            journal: Some(relative(location.directory(), journal)),
            ..self.clone()
        }
    }

    /// Writes the note. Its name is durable only after its directory was synced. The note has the
    /// owner and the mode of the document: a user that may read the document must be able to read
    /// its note.
    pub(crate) fn write(
        &self,
        disk: &dyn Disk,
        location: &Location,
        like: Option<&Attributes>,
    ) -> Result<()> {
        let text = serde_json::to_vec(self);
        let text =
            text.map_err(|error| Error::BadInput(format!("a note cannot be kept: {error}")))?;
        let path = location.note();
        Replacement::prepare(disk, &path, &text, like)?.put_in_place()
    }

    /// Writes the note durably.
    pub(crate) fn keep(
        &self,
        disk: &dyn Disk,
        location: &Location,
        like: Option<&Attributes>,
    ) -> Result<()> {
        self.write(disk, location, like)?;
        sync_directory_of(disk, location.path())
    }

    /// Takes a journal that is finished or never existed out of the note, if it is still named
    /// there. Nothing depends on this: it need not become durable, and errors are ignored.
    pub(crate) fn forget(disk: &dyn Disk, location: &Location, journal: &Path) {
        let path = location.note();
        let Ok(mut note) = Self::read(disk, location) else {
            return;
        };
        if !matches!(note.journal(location), Ok(Some(named)) if named == journal) {
            return;
        }
        note.journal = None;
        if note.fence.is_none() {
            let _ = disk.remove(&path);
        } else if let Ok(Some(found)) = disk.read(&path, NOTE_BYTES_MAX) {
            // The content of the note must be durable before its name can be.
            let _ = note.write(disk, location, Some(&found.attributes));
        }
    }
}
