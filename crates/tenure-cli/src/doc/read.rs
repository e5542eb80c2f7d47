//! `tenure doc read`: prints a document, or several as they are at one moment.

use std::io::{self, IsTerminal};
use std::path::Path;
use std::process::ExitCode;

use tenure::{Error, Mode};
use tenure_files::{Content, Expect, Terms};

use super::desk::{Desk, Wait};
use super::tokens::Tokens;
use super::{failure, text};
use crate::cli::{DocRead, Global};
use crate::context::Context;
use crate::output;
use crate::report::Failure;

/// A document that is removed each time it is made is not made more often.
const MADE_MAX: usize = 1000;

/// Reads them under their locks, and prints them after.
pub fn read(global: &Global, options: &DocRead) -> Result<ExitCode, Failure> {
    let context = Context::without_store()?;
    let desk = Desk::open(global, &context, &options.access, &options.files)?;
    let files: Vec<&Path> = options.files.iter().map(AsRef::as_ref).collect();
    let wait = desk.wait(&files, Mode::Read)?;
    let contents = all_of(&desk, &context, options, &files, &wait);
    wait.ended();
    let contents = contents.map_err(|failure| failure::about(failure, &files))?;
    let printed = match global.json {
        true => as_json(&files, &contents),
        false => as_text(&contents),
    };
    output::text(&printed.map_err(|failure| failure::about(failure, &files))?)?;
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

/// As they are, one after the other.
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

/// All documents at one moment. Those that are missing are made first, if it is said with what.
fn all_of(
    desk: &Desk,
    context: &Context,
    options: &DocRead,
    files: &[&Path],
    wait: &Wait<'_>,
) -> Result<Vec<Content>, Failure> {
    for _ in 0..MADE_MAX {
        let found = desk.documents.read_all(files)?;
        let Some(at) = found.iter().position(Option::is_none) else {
            return Ok(found.into_iter().flatten().collect());
        };
        match &options.create {
            Some(text) => make(desk, context, files[at], text, wait)?,
            None => return Err(failure::missing(files[at])),
        }
    }
    Err(failure::missing(files[0]))
}

/// Makes a document, unless someone else did meanwhile.
pub fn make(
    desk: &Desk,
    context: &Context,
    file: &Path,
    text: &str,
    wait: &Wait<'_>,
) -> Result<(), Failure> {
    let tokens = Tokens::new(context, None)?;
    let guard = wait.guard(&tokens);
    let terms = Terms {
        expect: Some(Expect::Absent),
        fence: None,
        existing: false,
        guard: Some(&guard),
    };
    let texts = vec![text.to_owned()];
    match desk.documents.edit(&[file], &terms, |_| Ok((texts, ()))) {
        Err(Error::OtherVersion { .. }) => Ok(()),
        made => Ok(made.map(drop)?),
    }
}
