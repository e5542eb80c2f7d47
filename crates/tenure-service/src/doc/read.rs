//! Reads a document, or several at one moment.

use std::path::{Path, PathBuf};

use tenure::{Error, Mode, Result};
use tenure_api::doc::{Document, Expect, OneOrSeveral, Read};
use tenure_files::document::{Content, DocumentError, Documents, Terms};

use super::token_check::TokenCheck;
use super::{missing, paths};
use crate::waiting::for_files;
use crate::{Caller, Handle, Service};

/// The largest number of times that a missing document is made for one read.
const MADE_MAX: usize = 1000;

impl Handle<Read> for Service {
    async fn handle(&self, request: Read, caller: &Caller) -> Result<OneOrSeveral<Document>> {
        let files = request.files;
        let access = self.access(&files, request.compat, request.wait, caller)?;
        let wait = access.wait(&files, Mode::Read)?;
        let first = wait.first();
        let tokens = TokenCheck::new(self, caller, None);
        let create = request.create.map(|text| text.0.trim().to_owned() + "\n");
        let (documents, caller) = (access.documents, access.caller);
        let read = move || {
            let guard = tokens.guard(&caller, &first);
            let terms = Terms::default()
                .with_expect(Expect::Absent)
                .with_guard(&guard);
            let make = create.as_deref().map(|text| {
                let (documents, terms) = (&documents, &terms);
                move |file: &Path| make(documents, file, text, terms)
            });
            let contents = all_of(&documents, &files, make)?;
            let read = contents.iter().map(document).collect::<Result<_>>()?;
            Ok(OneOrSeveral::about(&files, read))
        };
        for_files(&wait, &access.teller, read).await
    }
}

/// Returns all documents, read at one moment. Missing ones are made first, if `make` is given.
fn all_of(
    documents: &Documents,
    files: &[PathBuf],
    make: Option<impl Fn(&Path) -> Result<()>>,
) -> Result<Vec<Content>> {
    for _ in 0..MADE_MAX {
        let found = documents.read_all(&paths(files))?;
        let Some(at) = found.iter().position(Option::is_none) else {
            return Ok(found.into_iter().flatten().collect());
        };
        match &make {
            Some(make) => make(&files[at])?,
            None => return Err(missing(&files[at])),
        }
    }
    Err(missing(&files[0]))
}

/// Makes a document, unless another process did meanwhile.
fn make(documents: &Documents, file: &Path, text: &str, terms: &Terms<'_>) -> Result<()> {
    let texts = vec![text.to_owned()];
    match documents.edit(&[file], terms, |_| Ok::<_, Error>((texts, ()))) {
        Err(error) if matches!(error.fault(), Some(DocumentError::OtherVersion { .. })) => Ok(()),
        made => made.map(drop),
    }
}

/// Returns a document after a strict check of its content.
pub(super) fn document(content: &Content) -> Result<Document> {
    let (version, text) = (content.version(), content.text()?.to_owned());
    Ok(Document { version, text })
}
