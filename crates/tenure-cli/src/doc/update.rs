//! `tenure doc update`: pipes documents through a command, under their locks.

use std::path::Path;
use std::process::ExitCode;

use tenure::Error;
use tenure_files::document::{Content, check_json, laid_out};

use super::filter::Filter;
use super::open_documents::OpenDocuments;
use super::token_check::{self, TokenCheck};
use super::{bundle, failure, text};
use crate::cli::{DocUpdate, Global};
use crate::report::Failure;
use crate::waiting::Interruption;

/// Pipes the documents through the command. Reading and writing are one step for everyone else.
pub fn update(global: &Global, options: &DocUpdate) -> Result<ExitCode, Failure> {
    let context = token_check::context(global, &options.terms)?;
    let opened = OpenDocuments::open(&context, &options.access, &options.files)?;
    let tokens = TokenCheck::new(&context, options.terms.token.as_ref())?;
    let files: Vec<&Path> = options.files.iter().map(AsRef::as_ref).collect();
    let names = names(&files)?;
    if options.terms.expect.is_some() && files.len() > 1 {
        return Err(Failure::usage(
            "--expect is for one document",
            "read the others in the command itself, which gets them all",
        ));
    }
    let untouched = match &files[..] {
        [file] => format!("{} is", file.display()),
        _ => "the documents are".into(),
    };
    let work = |old: &[Option<Content>], interruption: &Interruption| {
        let filter = Filter {
            command: &options.command,
            document: old_path(&files),
            untouched: &untouched,
            interruption,
        };
        let given = given(old, &files, options.create.as_deref())?;
        match (&given[..], old) {
            ([given], [old]) => Ok(vec![one(&filter, given, old.as_ref())?]),
            _ => several(&filter, &names, &given, old),
        }
    };
    let terms = (&options.terms, options.create.is_none());
    let versions = opened.edit(&files, &tokens, terms, work)?;
    let written = text::written(&names, &versions, global.json);
    text::tell_written(&files, &written)
}

/// Returns the names that the command gets with several documents.
fn names<'a>(files: &[&'a Path]) -> Result<Vec<&'a str>, Failure> {
    match files {
        [_] => Ok(Vec::new()),
        files => files.iter().map(|file| failure::name(file)).collect(),
    }
}

fn old_path(files: &[&Path]) -> Option<std::path::PathBuf> {
    match files {
        [file] => std::path::absolute(file).ok(),
        _ => None,
    }
}

/// Returns the input of the command: the documents, strictly checked, or the text of `--create`.
fn given<'a>(
    old: &'a [Option<Content>],
    files: &[&Path],
    create: Option<&'a str>,
) -> Result<Vec<&'a str>, Failure> {
    let one = |(old, file): (&'a Option<Content>, &&Path)| match (old, create) {
        (Some(content), _) => Ok(content.text()?),
        (None, Some(create)) => Ok(create),
        (None, None) => Err(failure::missing(file)),
    };
    old.iter().zip(files).map(one).collect()
}

/// Returns the new text of one document. A new one is as the command printed it, an old one keeps its
/// layout.
fn one(filter: &Filter<'_>, given: &str, old: Option<&Content>) -> Result<String, Failure> {
    let printed = filter.run(given)?;
    check(filter, &printed)?;
    Ok(match old {
        Some(_) => laid_out(without_mark(&printed), old),
        None => printed,
    })
}

fn several(
    filter: &Filter<'_>,
    names: &[&str],
    given: &[&str],
    old: &[Option<Content>],
) -> Result<Vec<String>, Failure> {
    let named = names.iter().copied().zip(given.iter().copied());
    let printed = filter.run(&bundle::pack(named))?;
    check(filter, &printed)?;
    let texts = bundle::unpack(&printed, names).map_err(|problem| {
        let program = filter.name();
        Error::BadInput(format!(
            "{program} printed JSON {problem}; the documents are untouched"
        ))
    })?;
    let texts = texts.iter().zip(old);
    let texts = texts.map(|(text, old)| laid_out(text, old.as_ref()));
    Ok(texts.collect())
}

/// Checks the output before it is laid out, so that the byte in the error is one that the command
/// printed.
fn check(filter: &Filter<'_>, printed: &str) -> Result<(), Failure> {
    let what = || format!("what {} printed", filter.name());
    check_json(printed, what).map_err(|problem| {
        Error::BadInput(format!("{problem}; {} untouched", filter.untouched)).into()
    })
}

fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}
