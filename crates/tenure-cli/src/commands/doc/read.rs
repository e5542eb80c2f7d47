//! `tenure doc read`: prints a document, or several as they are at one moment.

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueHint};
use tenure_api::doc::{self, Document, OneOrSeveral};
use tenure_api::text::Json;

use super::{Access, failure, names};
use crate::cli::Global;
use crate::cli::values::parse_document;
use crate::output;
use crate::report::Failure;
use crate::surface::Surface;

#[derive(Debug, Args)]
pub struct Read {
    /// Print it again each time it changes; for one document
    #[arg(long)]
    pub follow: bool,
    /// Make a document that is missing, with this in it
    #[arg(long, value_name = "JSON", value_parser = parse_document)]
    pub create: Option<String>,
    #[command(flatten)]
    pub access: Access,
    /// The documents
    #[arg(required = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub files: Vec<PathBuf>,
}

/// Shown after the options.
pub const HELP: &str = "\
Examples:
  tenure doc read a.json | jq .n
  tenure doc read a.json b.json --json         both as they are at one moment
  tenure doc read --create '{}' a.json
  tenure doc read --follow a.json --json       one object a line

With --json prints {\"version\",\"document\"}; the version is for --expect. Several
documents are {\"documents\":[{\"file\",\"version\",\"document\"}],\"next\":null}.

Exit codes: 0 done; 65 it is not JSON, or a key is there twice; 66 there is no
such document; 75 it is being changed for too long; 77 it may not be read.";

/// Reads the documents under their locks, and prints them afterwards.
pub fn read(global: &Global, options: Read) -> Result<ExitCode, Failure> {
    let surface = Surface::without_store(global)?;
    let owner = options.access.owner.clone();
    // Only making a document is a write, which the locks around this command guard.
    let caller = match options.create {
        Some(_) => surface.caller_within(owner)?,
        None => surface.caller(owner)?,
    };
    let request = doc::Read {
        files: options.files.clone(),
        create: options.create.map(Json),
        compat: options.access.compat,
        wait: options.access.wait(),
    };
    let read = surface.call_on_files(request, &caller);
    let read = read.map_err(|failure| failure::about(failure, &options.files))?;
    if global.json {
        names(&options.files)?;
    }
    surface.answer(&read, || output::exact(as_text(&read)))
}

/// Returns the texts as they are, one after the other.
fn as_text(read: &OneOrSeveral<Document>) -> String {
    let has_several = matches!(read, OneOrSeveral::Several { .. });
    let mut all = String::new();
    for Document { text, .. } in read.answers() {
        all.push_str(text);
        let open = !text.ends_with('\n');
        if open && (has_several || io::stdout().is_terminal()) {
            all.push('\n');
        }
    }
    all
}
