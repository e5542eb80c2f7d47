//! Seeing a document each time it changes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tenure_core::Result;

use super::Documents;
use super::changes::Changes;
use super::content::{Content, Version};
use super::path::Location;

/// The versions of a document, as they come. No lock is held in between.
pub struct Follow<'a> {
    documents: &'a Documents,
    path: PathBuf,
    changes: Changes,
    /// Watched since, so that a link that leads elsewhere by now is noticed.
    location: Location,
    seen: Option<Option<Version>>,
}

impl<'a> Follow<'a> {
    pub(super) fn new(documents: &'a Documents, path: &Path) -> Result<Self> {
        let location = Location::of(path)?;
        Ok(Self {
            documents,
            path: path.to_owned(),
            changes: Changes::watch(location.path())?,
            location,
            seen: None,
        })
    }

    /// The next version: at once the first time, then whenever the content is another than the one
    /// answered last. `Some(None)` if the document is gone, None if `limit` is over.
    ///
    /// Changes in quick succession may be seen as one. It is not checked whether it is JSON.
    pub fn next(&mut self, limit: Option<Duration>) -> Result<Option<Option<Content>>> {
        loop {
            // Watched before it is read, so a change in between is not lost.
            let content = self.documents.read_if_there(&self.path)?;
            let version = content.as_ref().map(Content::version);
            if self.seen != Some(version) {
                self.seen = Some(version);
                return Ok(Some(content));
            }
            if !self.changes.wait(limit)? {
                return Ok(None);
            }
            let location = Location::of(&self.path)?;
            if location != self.location {
                self.changes = Changes::watch(location.path())?;
                self.location = location;
            }
        }
    }
}
