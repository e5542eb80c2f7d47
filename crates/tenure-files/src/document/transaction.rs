//! Documents as values of a program: read, change, write.

use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tenure_api::doc::Version;
use tenure_core::{Error, Result};

use super::content::Content;
use super::edit::Terms;
use super::read::missing;
use super::style::laid_out;
use super::{Documents, follow, json};

impl Documents {
    /// Replaces a document by a value, or creates it. Its indentation is kept.
    pub fn write<T: Serialize + ?Sized>(&self, path: &Path, value: &T) -> Result<Version> {
        let written = self.edit::<_, Error>(&[path], &Terms::default(), |old| {
            // The old document may be broken, and this write mends it.
            let old = old[0].as_ref().filter(|content| content.text().is_ok());
            Ok((vec![text_of(value, old)?], ()))
        });
        written.map(|(versions, ())| versions[0])
    }

    /// Reads a document, lets `operation` change it, and writes it back. Other programs see one
    /// step.
    ///
    /// # Errors
    ///
    /// An error of the operation is passed on, and the document is untouched, as it is after a
    /// panic. `NotFound` if there is no document.
    pub fn transaction<T: Serialize + DeserializeOwned, R, E: From<Error>>(
        &self,
        path: &Path,
        operation: impl FnOnce(&mut T) -> Result<R, E>,
    ) -> Result<R, E> {
        self.transaction_on(&[path], None, |values| operation(&mut values[0]))
    }

    /// Like [`transaction`](Self::transaction), on a document that begins as `default` if there is
    /// none.
    pub fn transaction_or_create<T: Serialize + DeserializeOwned, R, E: From<Error>>(
        &self,
        path: &Path,
        default: T,
        operation: impl FnOnce(&mut T) -> Result<R, E>,
    ) -> Result<R, E> {
        self.transaction_on(&[path], Some(default), |values| operation(&mut values[0]))
    }

    /// Like [`transaction`](Self::transaction), over several documents: all of them change, or
    /// none.
    pub fn transaction_many<T: Serialize + DeserializeOwned, R, E: From<Error>>(
        &self,
        paths: &[&Path],
        operation: impl FnOnce(&mut [T]) -> Result<R, E>,
    ) -> Result<R, E> {
        self.transaction_on(paths, None, operation)
    }

    /// Changes documents. The first of them may be missing if there is a `default`.
    fn transaction_on<T: Serialize + DeserializeOwned, R, E: From<Error>>(
        &self,
        paths: &[&Path],
        mut default: Option<T>,
        operation: impl FnOnce(&mut [T]) -> Result<R, E>,
    ) -> Result<R, E> {
        let terms = Terms {
            existing: default.is_none(),
            ..Terms::default()
        };
        self.change(paths, &terms, |old| {
            let mut values = Vec::with_capacity(paths.len());
            for (content, path) in old.iter().zip(paths) {
                values.push(match (content, default.take()) {
                    (None, Some(default)) => default,
                    (None, None) => return Err(missing(path).into()),
                    (Some(content), _) => strictly(content)?,
                });
            }
            let told = operation(&mut values)?;
            let texts = values.iter().zip(old);
            let texts = texts.map(|(value, content)| text_of(value, content.as_ref()));
            Ok((texts.collect::<Result<_>>()?, told))
        })
    }

    /// Follows a document: returns its version now, and each time it has changed.
    pub fn follow(&self, path: &Path) -> Result<follow::Follow> {
        follow::Follow::new(self.clone(), path)
    }
}

/// Reads a value that is written back later. A repeated key is refused, as one of its values would
/// be lost.
fn strictly<T: DeserializeOwned>(content: &Content) -> Result<T> {
    let value = content.parse()?;
    content.require_keys_once()?;
    Ok(value)
}

fn text_of<T: Serialize + ?Sized>(value: &T, old: Option<&Content>) -> Result<String> {
    let text = serde_json::to_string(value);
    let text =
        text.map_err(|error| Error::BadInput(format!("it cannot be written as JSON: {error}")))?;
    // A type of a program may write a key twice, and a reader would lose one of them.
    json::check_parsed(text.as_bytes())
        .map_err(|problem| Error::BadInput(format!("it cannot be written as JSON: {problem}")))?;
    Ok(laid_out(&text, old))
}
