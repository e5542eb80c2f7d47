//! Seeing a document each time it changes.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tenure_core::{Error, Result};

use super::Documents;
use super::changes::Changes;
use super::content::{Content, Version};
use super::path::Location;
use crate::clock;

/// The versions of a document, as they come. No lock is held in between.
pub struct Follow<'a> {
    documents: &'a Documents,
    /// As it was named; a link, perhaps, that leads elsewhere some day.
    path: PathBuf,
    /// Where it led when the watch began.
    location: Location,
    changes: Changes,
    seen: Option<Option<Version>>,
}

impl<'a> Follow<'a> {
    pub(super) fn new(documents: &'a Documents, path: &Path) -> Result<Self> {
        let path = std::path::absolute(path).map_err(|source| Error::io("find", path, source))?;
        let location = Location::of(&path)?;
        Ok(Self {
            documents,
            changes: watch(&path, &location)?,
            path,
            location,
            seen: None,
        })
    }

    /// The next version: at once the first time, then whenever the content is another than the one
    /// answered last. `Some(None)` if the document is gone, None if `limit` is over.
    ///
    /// Changes in quick succession may be seen as one. It is not checked whether it is JSON.
    pub fn next(&mut self, limit: Option<Duration>) -> Result<Option<Option<Content>>> {
        let deadline = limit.map(|limit| clock::after(Instant::now(), limit));
        loop {
            // Watched before it is read, so a change in between is not lost.
            let location = Location::of(&self.path)?;
            if location != self.location {
                self.changes = watch(&self.path, &location)?;
                self.location = location;
            }
            let content = self.documents.read_if_there(&self.path)?;
            let version = content.as_ref().map(Content::version);
            if self.seen != Some(version) {
                self.seen = Some(version);
                return Ok(Some(content));
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if !self.changes.wait(left)? {
                return Ok(None);
            }
        }
    }
}

/// Watches the document, and the link by which it was named.
fn watch(path: &Path, location: &Location) -> Result<Changes> {
    Changes::watch(&[location.path(), path])
}
