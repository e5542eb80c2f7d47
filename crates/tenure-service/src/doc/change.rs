//! Changes documents under their locks, all or none.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tenure::{Error, Mode};
use tenure_api::doc::{Compat, Expect, OneOrSeveral, Update, Write, Written};
use tenure_api::text::{Span, TokenOf};
use tenure_files::document::{Content, Fence, Terms, check_json, laid_out};

use super::token_check::TokenCheck;
use super::{missing, paths};
use crate::store_identity::identity;
use crate::waiting::for_files;
use crate::{Caller, Handle, Service};

/// A request to change documents, all or none.
#[derive(Debug, Clone, Default)]
pub struct Change {
    /// The paths of the documents.
    pub files: Vec<PathBuf>,
    /// The text that stands for a missing document; `None` if a missing one is an error.
    pub create: Option<String>,
    /// The version that the document must have, if there is only one.
    pub expect: Option<Expect>,
    /// The lock under which it is written.
    pub token: Option<TokenOf>,
    /// True to write although a document remembers another lock, or a token that was never granted.
    pub rebind: bool,
    /// The protocol of other programs whose lock is taken, too.
    pub compat: Option<Compat>,
    /// The longest wait.
    pub wait: Option<Span>,
}

type Answer = tenure::Result<OneOrSeveral<Written>>;

impl Handle<Update> for Service {
    async fn handle(&self, request: Update, caller: &Caller) -> Answer {
        let new = request.content.0;
        let what = || format!("the new content of {}", request.file.display());
        check_json(&new, what).map_err(Error::BadInput)?;
        let may_be_missing = request.expect == Some(Expect::Absent);
        let change = Change {
            files: vec![request.file],
            create: may_be_missing.then(String::new),
            expect: request.expect,
            token: request.token,
            rebind: request.rebind,
            compat: request.compat,
            wait: request.wait,
        };
        let changed = self.change_documents(change, caller, |_| Ok::<_, Error>(vec![new]));
        changed.await
    }
}

impl Handle<Write> for Service {
    async fn handle(&self, request: Write, caller: &Caller) -> Answer {
        let new = vec![request.content.0];
        let change = Change {
            files: vec![request.file],
            create: None,
            expect: request.expect,
            token: request.token,
            rebind: request.rebind,
            compat: request.compat,
            wait: request.wait,
        };
        let write = self.edit_documents(change, false, caller, |_| Ok::<_, Error>(new));
        write.await
    }
}

impl Service {
    /// Changes documents by `work`, which gets their texts and returns new ones. No other write
    /// falls between the reading and the writing. The layout of a document stays as it was.
    ///
    /// # Errors
    ///
    /// Errors of the work are passed on, and no document has changed.
    pub async fn change_documents<E: From<Error> + Send + 'static>(
        &self,
        change: Change,
        caller: &Caller,
        work: impl FnOnce(&[&str]) -> Result<Vec<String>, E> + Send + 'static,
    ) -> Result<OneOrSeveral<Written>, E> {
        let (files, create) = (change.files.clone(), change.create.clone());
        let is_one = files.len() == 1;
        let lay_out = move |(text, old): (String, &Option<Content>)| match old {
            // A new document is written as it was given.
            None if is_one => text,
            old => laid_out(text.strip_prefix('\u{feff}').unwrap_or(&text), old.as_ref()),
        };
        let work = move |old: &[Option<Content>]| {
            let new = work(&given(old, &files, create.as_deref())?)?;
            Ok(new.into_iter().zip(old).map(lay_out).collect())
        };
        let existing = change.create.is_none();
        self.edit_documents(change, existing, caller, work).await
    }

    /// Changes documents by `work`, which gets their contents, unchecked, and returns their new
    /// texts.
    pub(super) async fn edit_documents<E: From<Error> + Send + 'static>(
        &self,
        change: Change,
        existing: bool,
        caller: &Caller,
        work: impl FnOnce(&[Option<Content>]) -> Result<Vec<String>, E> + Send + 'static,
    ) -> Result<OneOrSeveral<Written>, E> {
        let files = change.files;
        let access = self.access(&files, change.compat, change.wait, caller)?;
        let tokens = TokenCheck::new(self, caller, change.token.as_ref());
        let wait = access.wait(&files, Mode::Write)?;
        let first = wait.first();
        let fence = change.token.as_ref().map(|named| {
            let store = identity(&self.located().url);
            let fence = Fence::new(store, named.resource.clone(), named.token);
            if change.rebind {
                fence.rebinding()
            } else {
                fence
            }
        });
        let observer = Arc::clone(caller.observer());
        let named = change.token;
        let overridden = move |document: &Path, remembered: &str| {
            if let Some(TokenOf { resource, token }) = &named {
                let document = document.display();
                observer.word(&format!(
                    "{document} was guarded by {remembered}, which {resource}#{token} overrides now"
                ));
            }
        };
        let (documents, caller) = (access.documents, access.caller);
        let edit = move || {
            let guard = tokens.guard(&caller, &first);
            let mut terms = Terms::default().with_guard(&guard);
            terms.existing = existing;
            terms.expect = change.expect;
            terms.fence = fence;
            terms.overridden = Some(&overridden);
            let work = |old: &[Option<Content>]| Ok::<_, E>((work(old)?, ()));
            let (versions, ()) = documents.edit(&paths(&files), &terms, work)?;
            let written = versions.into_iter().map(|version| Written { version });
            Ok(OneOrSeveral::about(&files, written.collect()))
        };
        for_files(&wait, &access.teller, edit).await
    }
}

/// Returns the texts of documents, strictly checked, with `create` in place of those that are
/// missing.
fn given<'a>(
    old: &'a [Option<Content>],
    files: &[PathBuf],
    create: Option<&'a str>,
) -> tenure::Result<Vec<&'a str>> {
    let one = |(old, file): (&'a Option<Content>, &PathBuf)| match (old, create) {
        (Some(content), _) => content.text(),
        (None, Some(create)) => Ok(create),
        (None, None) => Err(missing(file)),
    };
    old.iter().zip(files).map(one).collect()
}
