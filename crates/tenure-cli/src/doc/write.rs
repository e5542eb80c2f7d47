//! `tenure doc write`: puts standard input in the place of a document.

use std::io::{self, IsTerminal, Read};
use std::path::Path;
use std::process::ExitCode;

use tenure::Error;
use tenure_files::document::DOCUMENT_BYTES_MAX;

use super::open_documents::OpenDocuments;
use super::text;
use super::token_check::{self, TokenCheck};
use crate::cli::{DocWrite, Global};
use crate::output::word;
use crate::report::Failure;

/// Writes standard input to the document. It is read before the lock is taken: however slowly it comes,
/// nobody waits for it.
pub fn write(global: &Global, options: &DocWrite) -> Result<ExitCode, Failure> {
    let context = token_check::context(global, &options.terms)?;
    let opened = OpenDocuments::open(
        &context,
        &options.access,
        std::slice::from_ref(&options.file),
    )?;
    let tokens = TokenCheck::new(&context, options.terms.token.as_ref())?;
    let new = vec![from_input()?];
    let file = options.file.as_path();
    let terms = (&options.terms, false);
    let versions = opened.edit(&[file], &tokens, terms, |_, _| Ok(new))?;
    text::tell_written(&[file], &text::written(&[], &versions, global.json))
}

fn from_input() -> Result<String, Failure> {
    let input = io::stdin();
    if input.is_terminal() {
        word("reading JSON from the terminal; end it with Ctrl-D");
    }
    let mut bytes = Vec::new();
    let limit = DOCUMENT_BYTES_MAX as u64 + 1;
    let read = input.lock().take(limit).read_to_end(&mut bytes);
    read.map_err(|source| Error::io("read", Path::new("standard input"), source))?;
    if bytes.len() > DOCUMENT_BYTES_MAX {
        let most = DOCUMENT_BYTES_MAX >> 20;
        let problem = format!("standard input has more than {most} MiB, the limit of a document");
        return Err(Error::BadInput(problem).into());
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Error::BadInput(format!("standard input is not JSON: no UTF-8 at byte {at}")).into()
    })
}
