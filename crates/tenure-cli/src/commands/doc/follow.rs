//! `tenure doc read --follow`: prints a document now, and again each time it changes.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use tenure_files::document::DocumentError;

use tenure::Class;
use tenure_api::doc::{Document, Expect, Write};
use tenure_api::text::Json;
use tenure_service::doc::Seen;

use super::failure;
use super::read::Read;
use crate::cli::Global;
use crate::output::{self, said, word};
use crate::report::Failure;
use crate::surface::Surface;

/// The interval of checks that a reader still takes the output.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Prints versions until it is ended from outside, or until no reader takes the output any more.
pub fn follow(global: &Global, options: Read) -> Result<ExitCode, Failure> {
    let [file] = &options.files[..] else {
        return Err(Failure::usage(
            "--follow is for one document",
            "follow each of them with a command of its own",
        ));
    };
    let surface = Surface::without_store(global)?;
    let about = |failure: Failure| failure::about(failure, &options.files);
    let (access, wait) = (&options.access, options.access.wait());
    let caller = surface.caller(access.owner.clone())?;
    if let Some(text) = &options.create {
        create(&surface, &options, file, text).map_err(about)?;
    }
    let service = &surface.service;
    let follow = service.follow_document(file, access.compat, wait, &caller);
    let mut follow = follow.map_err(|error| about(error.into()))?;
    let mut told_busy = false;
    loop {
        match follow.next(LOOK_EVERY) {
            Ok(Some(seen)) => {
                told_busy = false;
                show(seen, file, global.json)?;
            }
            Ok(None) if output::is_unread() => return Ok(ExitCode::SUCCESS),
            Ok(None) => {}
            // Another process holds the document for longer than the wait; there will be news.
            Err(error) if error.class() == Class::Busy && !access.wait_arguments.no_wait => {
                if !told_busy {
                    word(&error.to_string());
                }
                told_busy = true;
            }
            Err(error) => return Err(about(error.into())),
        }
    }
}

/// Makes the document, unless there is one.
fn create(surface: &Surface, options: &Read, file: &Path, text: &str) -> Result<(), Failure> {
    let caller = surface.caller_within(options.access.owner.clone())?;
    let request = Write {
        file: file.to_owned(),
        content: Json(text.to_owned()),
        expect: Some(Expect::Absent),
        token: None,
        rebind: false,
        compat: options.access.compat,
        wait: options.access.wait(),
    };
    match surface.call_on_files(request, &caller) {
        Err(Failure::Error(error))
            if matches!(error.fault(), Some(DocumentError::OtherVersion { .. })) =>
        {
            Ok(())
        }
        made => made.map(drop),
    }
}

/// Prints a version, with a newline at its end. A broken version gets a word on standard error.
fn show(seen: Seen, file: &Path, json: bool) -> Result<(), Failure> {
    match seen {
        Seen::Document(document) if json => output::json(&document),
        Seen::Document(Document { text, .. }) => {
            let newline = if text.ends_with('\n') { "" } else { "\n" };
            output::exact(format!("{text}{newline}"))
        }
        Seen::Broken(error) => said(&error.to_string()),
        Seen::Missing => {
            let file = file.display();
            said(&format!("there is no document {file}; waiting for one"))
        }
    }
}
