//! `tenure doc read`: prints a document, or several as they are at one moment.

use std::io::{self, IsTerminal};
use std::path::Path;
use std::process::ExitCode;

use tenure::{Error, Mode};
use tenure_files::document::{Content, Expect, Terms};

use super::open_documents::{OpenDocuments, Wait};
use super::token_check::TokenCheck;
use super::{failure, text};
use crate::cli::{DocRead, Global};
use crate::context::Context;
use crate::output;
use crate::report::Failure;

/// The largest number of times that a missing document is made for one read.
const MADE_MAX: usize = 1000;

/// Reads them under their locks, and prints them after.
pub fn read(global: &Global, options: &DocRead) -> Result<ExitCode, Failure> {
    let context = Context::without_store()?;
    let opened = OpenDocuments::open(&context, &options.access, &options.files)?;
    let files: Vec<&Path> = options.files.iter().map(AsRef::as_ref).collect();
    let wait = opened.wait(&files, Mode::Read)?;
    let contents = wait.conclude(all_of(&opened, &context, options, &files, &wait));
    let contents = contents.map_err(|failure| failure::about(failure, &files))?;
    let printed = match global.json {
        true => as_json(&files, &contents),
        false => as_text(&contents),
    };
    output::exact(&printed.map_err(|failure| failure::about(failure, &files))?)?;
    Ok(ExitCode::SUCCESS)
}

fn as_json(files: &[&Path], contents: &[Content]) -> Result<String, Failure> {
    if let [content] = contents {
        return Ok(format!("{{{}}}\n", text::fields(content)?));
    }
    let mut documents = Vec::with_capacity(contents.len());
    for (file, content) in files.iter().zip(contents) {
        documents.push((failure::name(file)?, text::fields(content)?));
    }
    Ok(text::list(documents))
}

/// Returns the texts as they are, one after the other.
fn as_text(contents: &[Content]) -> Result<String, Failure> {
    let mut all = String::new();
    for content in contents {
        let text = content.text()?;
        all.push_str(text);
        let open = !text.ends_with('\n');
        if open && (contents.len() > 1 || io::stdout().is_terminal()) {
            all.push('\n');
        }
    }
    Ok(all)
}

/// Returns all documents at one moment. Missing ones are made first, if `--create` says with what.
fn all_of(
    opened: &OpenDocuments,
    context: &Context,
    options: &DocRead,
    files: &[&Path],
    wait: &Wait<'_>,
) -> Result<Vec<Content>, Failure> {
    for _ in 0..MADE_MAX {
        let found = opened.documents.read_all(files)?;
        let Some(at) = found.iter().position(Option::is_none) else {
            return Ok(found.into_iter().flatten().collect());
        };
        match &options.create {
            Some(text) => make(opened, context, files[at], text, wait)?,
            None => return Err(failure::missing(files[at])),
        }
    }
    Err(failure::missing(files[0]))
}

/// Makes a document, unless someone else did meanwhile.
pub fn make(
    opened: &OpenDocuments,
    context: &Context,
    file: &Path,
    text: &str,
    wait: &Wait<'_>,
) -> Result<(), Failure> {
    let tokens = TokenCheck::new(context, None)?;
    let guard = wait.guard(&tokens);
    let terms = Terms::default()
        .with_expect(Expect::Absent)
        .with_guard(&guard);
    let texts = vec![text.to_owned()];
    match opened.documents.edit(&[file], &terms, |_| Ok((texts, ()))) {
        Err(Error::OtherVersion { .. }) => Ok(()),
        made => Ok(made.map(drop)?),
    }
}
