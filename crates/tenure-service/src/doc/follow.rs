//! A document each time it changes.

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
    /// The document.
    Document(Document),
    /// It is no document, for this reason.
    Broken(Error),
    /// There is none.
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
    /// Returns the next version: at once the first time, then whenever the document is another than
    /// before. Returns `None` if there is none for so long. Blocks the thread.
    ///
    /// # Errors
    ///
    /// Busy if somebody works on it for longer than is waited; there will be news.
    pub fn next(&mut self, limit: Duration) -> Result<Option<Seen>> {
        let content = self.0.next(Some(limit))?;
        Ok(content.map(|content| match content.as_ref().map(document) {
            Some(Ok(document)) => Seen::Document(document),
            Some(Err(error)) => Seen::Broken(error),
            None => Seen::Missing,
        }))
    }
}
