//! `tenure doc update`: pipes documents through a command, under their locks.

use std::path::Path;
use std::process::ExitCode;

use tenure::{Error, Mode};
use tenure_files::{Content, Terms, check_json, laid_out_like};

use super::desk::Desk;
use super::filter::Filter;
use super::tokens::{self, Tokens};
use super::{bundle, failure, text};
use crate::cli::{DocUpdate, Global};
use crate::report::Failure;

/// Everything from reading to writing is one step for everyone else.
pub fn update(global: &Global, options: &DocUpdate) -> Result<ExitCode, Failure> {
    let context = tokens::context(global, &options.terms)?;
    let desk = Desk::open(global, &context, &options.access, &options.files)?;
    let desk = desk.durability(options.terms.durability());
    let tokens = Tokens::new(&context, options.terms.token.as_ref())?;
    let files: Vec<&Path> = options.files.iter().map(AsRef::as_ref).collect();
    let names = names(&files)?;
    if options.terms.expect.is_some() && files.len() > 1 {
        return Err(Failure::Usage {
            message: "--expect is for one document".into(),
            remedy: "read the others in the command itself, which gets them all".into(),
        });
    }
    let wait = desk.wait(&files, Mode::Write)?;
    let guard = wait.guard(&tokens);
    let terms = Terms {
        // A slip of the finger leaves no lock file behind.
        existing: options.create.is_none(),
        expect: options.terms.expect,
        fence: tokens.fence(options.terms.rebind),
        guard: Some(&guard),
    };
    let untouched = match &files[..] {
        [file] => format!("{} is", file.display()),
        _ => "the documents are".into(),
    };
    let work = |old: &[Option<Content>]| {
        let filter = Filter {
            command: &options.command,
            document: old_path(&files),
            untouched: &untouched,
            interrupt: wait.interrupt,
        };
        let given = given(old, &files, options.create.as_deref())?;
        match (&given[..], old) {
            ([given], [old]) => Ok((vec![one(&filter, given, old.as_ref())?], ())),
            _ => Ok((several(&filter, &names, &given, old)?, ())),
        }
    };
    let updated = desk.documents.edit(&files, &terms, work);
    wait.ended();
    let (versions, ()) = updated.map_err(|failure| failure::about(failure, &files))?;
    let written = text::written(&names, &versions, global.json);
    text::tell_written(&files, &written)
}

/// The names that the command gets, where it gets several documents.
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

/// What the command gets: the documents that are there, strictly checked, or what stands for them.
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

/// A new document is as the command printed it, an old one keeps its looks.
fn one(filter: &Filter<'_>, given: &str, old: Option<&Content>) -> Result<String, Failure> {
    let printed = filter.run(given)?;
    check(filter, &printed)?;
    Ok(match old {
        Some(old) => old.in_its_style(without_mark(&printed)),
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
    let styled = texts.into_iter().zip(old).map(|(text, old)| match old {
        Some(old) => old.in_its_style(&text),
        None => laid_out_like(&printed, &text),
    });
    Ok(styled.collect())
}

/// Before anything is done to it, so that the byte named is one that the command printed.
fn check(filter: &Filter<'_>, printed: &str) -> Result<(), Failure> {
    let what = || format!("what {} printed", filter.name());
    check_json(printed, what).map_err(|problem| {
        Error::BadInput(format!("{problem}; {} untouched", filter.untouched)).into()
    })
}

fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}
