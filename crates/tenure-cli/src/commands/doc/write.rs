//! `tenure doc write`: puts standard input in the place of a document.

use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::slice;

use clap::{Args, ValueHint};
use tenure::Error;
use tenure_api::doc::{self, OneOrSeveral, Written};
use tenure_api::text::Json;
use tenure_files::document::DOCUMENT_BYTES_MAX;

use super::{Access, WriteTerms, failure};
use crate::cli::Global;
use crate::output::{self, word};
use crate::report::Failure;
use crate::surface::Surface;

#[derive(Debug, Args)]
pub struct Write {
    #[command(flatten)]
    pub terms: WriteTerms,
    #[command(flatten)]
    pub access: Access,
    /// The document
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
}

/// Shown after the options.
pub const HELP: &str = "\
Examples:
  tenure doc write a.json < new.json
  tenure doc write --expect absent a.json < new.json        only if there is none
  tenure doc write --expect \"$version\" a.json < new.json
  tenure doc write --token \"deploy#$token\" a.json < new.json

Standard input is checked, and put in place byte for byte. Prints the version.
The document that is there may be broken: this repairs it.

Inside `tenure run`, the tokens of its locks are checked, and after the loss
of a lock nothing is written. So is --token: it must be the newest that its
store granted, and where the store cannot be asked nothing is written. A
document remembers the token of its last write with --token and refuses older
ones. A token of another lock is a conflict until --rebind, which also mends a
document that remembers a token that was never granted, and says what it
overrides.

Exit codes: 0 written; 65 standard input is not JSON; 66 there is no such
directory, or the store never heard of the lock; 69 the store cannot be asked;
75 busy or timed out; 76 it is at another version, or guarded by another lock;
77 fenced, never granted, or it may not be written; 79 the lock was lost.";

/// Writes standard input to the document. The input is read before the lock is taken, so that a
/// slow input holds up no other process.
pub fn write(global: &Global, options: Write) -> Result<ExitCode, Failure> {
    let surface = surface(global, &options.terms)?;
    let caller = surface.caller_within(options.access.owner.clone())?;
    let files = slice::from_ref(&options.file);
    let request = doc::Write {
        file: options.file.clone(),
        content: Json(from_input()?),
        expect: options.terms.expect,
        token: options.terms.token,
        rebind: options.terms.rebind,
        compat: options.access.compat,
        wait: options.access.wait(),
    };
    let written = surface.call_on_files(request, &caller);
    let written = written.map_err(|failure| failure::about(failure, files))?;
    answer(&surface, files, &written)
}

/// Returns the surface. A store is chosen only if a token was named, which needs it.
pub fn surface(global: &Global, terms: &WriteTerms) -> tenure::Result<Surface> {
    match terms.token {
        Some(_) => Surface::open(global),
        None => Surface::without_store(global),
    }
}

/// Prints the versions that were written. If they cannot be printed, a word says that they were
/// written, so that the command is not repeated.
pub fn answer(
    surface: &Surface,
    files: &[PathBuf],
    written: &OneOrSeveral<Written>,
) -> Result<ExitCode, Failure> {
    let versions = written.answers().map(|it| it.version.to_string());
    match surface.answer(written, || output::lines(versions)) {
        // A reader that went away does not need the versions.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            Ok(ExitCode::SUCCESS)
        }
        Err(failure) => {
            let names = files.iter().map(|file| file.display().to_string());
            let names = names.collect::<Vec<_>>().join(", ");
            word(&format!("{names}: written; do not repeat it"));
            Err(failure)
        }
        told => told,
    }
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
