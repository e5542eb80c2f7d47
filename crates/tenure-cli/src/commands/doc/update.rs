//! `tenure doc update`: pipes documents through a command, under their locks.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueHint};
use tenure::Error;
use tenure_files::document::check_json;
use tenure_service::doc::Change;

use super::filter::Filter;
use super::write::{answer, surface};
use super::{Access, WriteTerms, bundle, failure, names};
use crate::cli::Global;
use crate::cli::values::parse_document;
use crate::report::Failure;

#[derive(Debug, Args)]
pub struct Update {
    #[command(flatten)]
    pub terms: WriteTerms,
    /// What the command gets for a document that is missing
    #[arg(long, value_name = "JSON", value_parser = parse_document)]
    pub create: Option<String>,
    #[command(flatten)]
    pub access: Access,
    /// The documents; several change all or none
    #[arg(required = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub files: Vec<PathBuf>,
    /// The command that gets the document and prints the new one, after `--`
    #[arg(last = true, required = true, value_name = "CMD", value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
}

/// Shown after the options.
pub const HELP: &str = "\
Examples:
  tenure doc update a.json -- jq '.n += 1'
  tenure doc update --create '{\"n\":0}' a.json -- jq '.n += 1'
  tenure doc update a.json b.json -- jq '.[\"b.json\"].n = .[\"a.json\"].n'
  tenure doc update --compat proper-lockfile a.json -- jq '.n += 1'

The command gets the document on standard input and prints the new one. It is
written only if the command exits 0 and prints JSON; else the document stays as
it was. Nobody else changes it meanwhile. Indentation, byte order mark and last
newline stay as they were. The command gets TENURE_DOCUMENT, the path. What it
prints is what is written: jq, for one, rounds numbers with many digits.

Several documents are one object, {\"FILE\": document, ...}, with the names as given
here; the command prints the same names. All of them change, or none.

Prints the version. See `tenure doc write --help` for tokens.

Exit codes: 0 written; that of the command if it fails (128 + signal; 126 not
executable, 127 not found); 65 it printed no JSON; 66 there is no such document,
or lock; 69 the store cannot be asked; 75 busy or timed out; 76 another version,
or another lock; 77 fenced, never granted, or not allowed; 79 the lock was lost
while the command ran; 130 interrupted while waiting.";

/// Pipes the documents through the command. For every other process, reading and writing are one
/// step.
pub fn update(global: &Global, options: Update) -> Result<ExitCode, Failure> {
    let surface = surface(global, &options.terms)?;
    let caller = surface.caller_within(options.access.owner.clone())?;
    let files = &options.files;
    let names: Vec<String> = names(files)?.into_iter().map(str::to_owned).collect();
    if options.terms.expect.is_some() && files.len() > 1 {
        return Err(Failure::usage(
            "--expect is for one document",
            "read the others in the command itself, which gets them all",
        ));
    }
    let (document, untouched) = match &files[..] {
        [file] => (
            std::path::absolute(file).ok(),
            format!("{} is", file.display()),
        ),
        _ => (None, "the documents are".into()),
    };
    let filter = Filter {
        command: options.command,
        document,
        untouched,
        interruption: surface.interruption()?,
    };
    let change = Change {
        files: files.clone(),
        create: options.create,
        expect: options.terms.expect,
        token: options.terms.token,
        rebind: options.terms.rebind,
        compat: options.access.compat,
        wait: options.access.wait(),
    };
    let changed = surface.on_files(&caller, async |service, caller| {
        let work = move |given: &[&str]| filtered(&filter, &names, given);
        service.change_documents(change, caller, work).await
    });
    let changed = changed.map_err(|failure| failure::about(failure, files))?;
    answer(&surface, files, &changed)
}

/// Returns the new texts of the documents. The command gets several as one object, under their
/// names.
fn filtered(filter: &Filter, names: &[String], given: &[&str]) -> Result<Vec<String>, Failure> {
    if let [given] = given {
        return Ok(vec![checked(filter, given)?]);
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let named = names.iter().copied().zip(given.iter().copied());
    let printed = checked(filter, &bundle::pack(named))?;
    bundle::unpack(&printed, &names).map_err(|problem| {
        let program = filter.name();
        let problem = format!("{program} printed JSON {problem}; the documents are untouched");
        Error::BadInput(problem).into()
    })
}

/// Returns the output of the command. It is checked before it is laid out, so that an error names a
/// byte as the command printed it.
fn checked(filter: &Filter, given: &str) -> Result<String, Failure> {
    let printed = filter.run(given)?;
    let what = || format!("what {} printed", filter.name());
    match check_json(&printed, what) {
        Ok(()) => Ok(printed),
        Err(problem) => {
            let problem = format!("{problem}; {} untouched", filter.untouched);
            Err(Error::BadInput(problem).into())
        }
    }
}
