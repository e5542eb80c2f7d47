//! Follows a document: reads it each time it changes.

use std::path::PathBuf;
use std::slice;
use std::time::Duration;

use tenure::{Error, Result};
use tenure_api::doc::{Compat, Document};
use tenure_api::text::Span;
use tenure_files::document::Follow;

use super::read::document;
use crate::{Caller, Service};

/// The versions of a document, as they come.
pub struct FollowedDocument(Follow);

/// A version of a document.
#[derive(Debug)]
pub enum Seen {
    /// The document was read.
    Document(Document),
    /// The file is no document, for this reason.
    Broken(Error),
    /// The file does not exist.
    Missing,
}

impl Service {
    /// Follows a document.
    pub fn follow_document(
        &self,
        file: &PathBuf,
        compat: Option<Compat>,
        wait: Option<Span>,
        caller: &Caller,
    ) -> Result<FollowedDocument> {
        let access = self.access(slice::from_ref(file), compat, wait, caller)?;
        access.documents.follow(file).map(FollowedDocument)
    }
}

impl FollowedDocument {
    /// Returns the next version: at the first call at once, later when the document has changed.
    /// Returns `None` if it does not change within `limit`. Blocks the thread.
    ///
    /// # Errors
    ///
    /// Busy if another process holds the document for longer than the wait. There will be a new
    /// version then.
    pub fn next(&mut self, limit: Duration) -> Result<Option<Seen>> {
        let content = self.0.next(Some(limit))?;
        Ok(content.map(|content| match content.as_ref().map(document) {
            Some(Ok(document)) => Seen::Document(document),
            Some(Err(error)) => Seen::Broken(error),
            None => Seen::Missing,
        }))
    }
}
