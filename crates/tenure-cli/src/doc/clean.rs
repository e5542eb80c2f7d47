//! `tenure doc clean`: removes what crashed writers left.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::json;
use tenure::{Error, Mode, Result};
use tenure_files::document::Documents;

use super::failure;
use super::open_documents::OpenDocuments;
use crate::cli::{DocClean, Global};
use crate::context::Context;
use crate::output::{self, word};
use crate::people::{can_ask, is_confirmed, visible};
use crate::report::Failure;

/// Shows what is left, asks, and removes it.
pub fn clean(global: &Global, options: &DocClean) -> Result<ExitCode, Failure> {
    let context = Context::without_store()?;
    let path = options.path.as_path();
    let files = std::slice::from_ref(&options.path);
    let opened = OpenDocuments::open(&context, &options.access, files)?;
    if !is_known(path) {
        let problem = format!(
            "there is no document {}, nor anything left of one",
            path.display()
        );
        return Err(Failure::with_remedy(
            Error::NotFound(problem),
            "correct the path",
        ));
    }
    let left = under_lock(&opened, path, Documents::leftovers)?;
    if left.is_empty() {
        return report(global, path, &[]);
    }
    show(&left);
    if !options.yes && !can_ask() {
        return Err(Failure::usage(
            "there is no terminal to ask on, so clean needs --yes; no file was removed",
            "add --yes if you are sure; only what no live writer uses is removed",
        ));
    }
    let question = "Remove them? Type yes: ";
    if !options.yes && !is_confirmed(question).map_err(Failure::Output)? {
        return Err(Failure::Declined("no file was removed".into()));
    }
    let removed = under_lock(&opened, path, Documents::clean)?;
    report(global, path, &removed)
}

/// Waits for the document, and does something to what is left of its writers.
fn under_lock(
    opened: &OpenDocuments,
    document: &Path,
    step: impl Fn(&Documents, &Path) -> Result<Vec<PathBuf>>,
) -> Result<Vec<PathBuf>, Failure> {
    let wait = opened.wait(&[document], Mode::Write)?;
    let done = step(&opened.documents, document).map_err(Failure::from);
    wait.conclude(done)
        .map_err(|failure| failure::about(failure, &[document]))
}

/// Reports what was removed: `{"removed":[…],"next":null}`.
fn report(global: &Global, path: &Path, removed: &[PathBuf]) -> Result<ExitCode, Failure> {
    let removed: Vec<String> = removed
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    let document = json!({ "removed": removed, "next": null });
    output::answer(global.json, &document, || {
        if removed.is_empty() {
            word(&format!("nothing is left over at {}", path.display()));
        }
        let lines = removed.iter().map(|path| format!("removed {path}\n"));
        output::text(&lines.collect::<String>())
    })
}

/// Shows the files on standard error, where the question is.
fn show(left: &[PathBuf]) {
    let lines = left
        .iter()
        .map(|path| format!("  {}\n", visible(&path.display().to_string())));
    output::tell(&lines.collect::<String>());
}

/// Returns true if there is such a document, or something of one whose making crashed.
fn is_known(path: &Path) -> bool {
    let is_there = |path: &Path| path.symlink_metadata().is_ok();
    is_there(path) || Documents::lock_file(path).is_ok_and(|lock| is_there(&lock))
}
