//! `tenure doc read --follow`: prints a document now, and again each time it changes.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use tenure::{Class, Mode};
use tenure_files::document::Content;

use super::open_documents::OpenDocuments;
use super::{failure, read, text};
use crate::cli::{DocRead, Global};
use crate::context::Context;
use crate::output::{self, word};
use crate::report::Failure;

/// The interval of looks at whether anybody still reads what is printed.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Prints versions until it is ended from outside, or nobody reads what it prints.
pub fn follow(global: &Global, options: &DocRead) -> Result<ExitCode, Failure> {
    let [file] = &options.files[..] else {
        return Err(Failure::usage(
            "--follow is for one document",
            "follow each of them with a command of its own",
        ));
    };
    let context = Context::without_store()?;
    let opened = OpenDocuments::open(&context, &options.access, &options.files)?;
    if let Some(text) = &options.create {
        create(&opened, &context, file, text)?;
    }
    let about = |error| failure::about(Failure::Error(error), &[file]);
    let mut follow = opened.documents.follow(file).map_err(about)?;
    let mut told_busy = false;
    loop {
        match follow.next(Some(LOOK_EVERY)) {
            Ok(Some(content)) => {
                told_busy = false;
                match content {
                    Some(content) => show(&content, global.json)?,
                    None => word(&format!(
                        "there is no document {}; waiting for one",
                        file.display()
                    )),
                }
            }
            Ok(None) if output::is_unread() => return Ok(ExitCode::SUCCESS),
            Ok(None) => {}
            // Someone works on it for longer than one waits; there will be news.
            Err(error)
                if error.class() == Class::Busy && !options.access.wait_arguments.no_wait =>
            {
                if !told_busy {
                    word(&error.to_string());
                }
                told_busy = true;
            }
            Err(error) => return Err(about(error)),
        }
    }
}

fn create(
    opened: &OpenDocuments,
    context: &Context,
    file: &Path,
    text: &str,
) -> Result<(), Failure> {
    let wait = opened.wait(&[file], Mode::Write)?;
    let made = wait.conclude(read::make(opened, context, file, text, &wait));
    made.map_err(|failure| failure::about(failure, &[file]))
}

/// Prints a version, with a newline at its end. One that is no document gets a word on standard error.
fn show(content: &Content, json: bool) -> Result<(), Failure> {
    let shown = match json {
        true => text::fields(content).map(|fields| format!("{{{fields}}}\n")),
        false => content.text().map_err(Failure::from).map(|text| {
            let newline = if text.ends_with('\n') { "" } else { "\n" };
            format!("{text}{newline}")
        }),
    };
    match shown {
        Ok(shown) => output::exact(&shown),
        Err(Failure::Error(error)) => {
            word(&error.to_string());
            Ok(())
        }
        Err(failure) => Err(failure),
    }
}
