//! `tenure doc clean`: removes what crashed writers left.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Serialize;
use tenure::{Error, Mode, Result};
use tenure_files::{Documents, Leftovers};

use super::failure;
use super::open_documents::OpenDocuments;
use crate::cli::{DocClean, Global};
use crate::context::Context;
use crate::output::{self, word};
use crate::people::{agreed, can_ask, visible};
use crate::report::{Failure, Report};

/// `{"removed":[…],"next":null}`.
#[derive(Serialize)]
struct Removed {
    removed: Vec<String>,
    next: Option<String>,
}

/// Shows what is left, asks, and removes it.
pub fn clean(global: &Global, options: &DocClean) -> Result<ExitCode, Failure> {
    let context = Context::without_store()?;
    let opened =
        OpenDocuments::to_clean(global, &context, &options.wait_arguments, &options.owner)?;
    let path = options.path.as_path();
    let documents = match path.is_dir() {
        true => Documents::with_leftovers_in(path)
            .map_err(|error| failure::about(error.into(), &[path]))?,
        false if is_known(path) => vec![path.to_owned()],
        false => {
            let problem = format!(
                "there is no document {}, nor anything left of one",
                path.display()
            );
            return Err(Failure::Adjusted {
                error: Error::NotFound(problem),
                code: None,
                remedy: Some("correct the path".into()),
            });
        }
    };
    let mut sweep = Sweep::new(&opened, &documents);
    let left = sweep.each(|document| opened.documents.leftovers(document));
    tell_finished(&left.finished);
    let left = left.files;
    if left.is_empty() {
        return match sweep.first_failure {
            Some(failure) => Err(failure),
            None => nothing(global, path),
        };
    }
    show(&left);
    if !options.yes && !can_ask() {
        return Err(Failure::Usage {
            message: "there is no terminal to ask on, so clean needs --yes; no file was removed"
                .into(),
            remedy: "add --yes if you are sure; only what no live writer uses is removed".into(),
        });
    }
    let question = "Remove them? Type yes: ";
    if !options.yes && !agreed(question).map_err(Failure::output)? {
        return Err(Failure::Declined("no file was removed".into()));
    }
    let removed = sweep.each(|document| opened.documents.clean(document));
    tell_finished(&removed.finished);
    let paths = removed.files.iter().map(|path| path.display().to_string());
    sweep.ended(print(global, paths.collect()))
}

/// Something done to every document. One that is in use does not keep the others from it.
struct Sweep<'a> {
    opened: &'a OpenDocuments,
    documents: Vec<&'a Path>,
    first_failure: Option<Failure>,
}

impl<'a> Sweep<'a> {
    fn new(opened: &'a OpenDocuments, documents: &'a [PathBuf]) -> Self {
        Self {
            opened,
            documents: documents.iter().map(AsRef::as_ref).collect(),
            first_failure: None,
        }
    }

    /// All that it answers.
    fn each(&mut self, step: impl Fn(&Path) -> Result<Leftovers>) -> Leftovers {
        let mut all = Leftovers::default();
        for document in self.documents.clone() {
            match self.step(document, &step) {
                Ok(done) => {
                    all.files.extend(done.files);
                    all.finished.extend(done.finished);
                }
                Err(failure) => {
                    self.first_failure.get_or_insert(failure);
                }
            }
        }
        all
    }

    fn step(
        &self,
        document: &Path,
        step: impl Fn(&Path) -> Result<Leftovers>,
    ) -> Result<Leftovers, Failure> {
        let wait = self.opened.wait(&[document], Mode::Write)?;
        let done = step(document);
        wait.ended();
        done.map_err(|error| failure::about(error.into(), &[document]))
    }

    /// How it went, all in all.
    fn ended(self, printed: Result<(), Failure>) -> Result<ExitCode, Failure> {
        printed?;
        let Some(failure) = self.first_failure else {
            return Ok(ExitCode::SUCCESS);
        };
        // What was done is on standard output by now.
        Report::new(false).say(&failure);
        Ok(ExitCode::from(failure.code()))
    }
}

/// Reports committed transactions that were finished when one of their documents was opened.
fn tell_finished(documents: &[PathBuf]) {
    if !documents.is_empty() {
        let names = documents.iter().map(|path| path.display().to_string());
        let names = names.collect::<Vec<_>>().join(", ");
        word(&format!(
            "finished a transaction that was committed and left unfinished, over {names}"
        ));
    }
}

fn print(global: &Global, removed: Vec<String>) -> Result<(), Failure> {
    if global.json {
        let next = None;
        return output::json(&Removed { removed, next });
    }
    let lines = removed
        .iter()
        .map(|path| format!("removed {}\n", visible(path)));
    output::text(&lines.collect::<String>())
}

fn nothing(global: &Global, path: &Path) -> Result<ExitCode, Failure> {
    match global.json {
        true => print(global, Vec::new())?,
        false => word(&format!("nothing is left over at {}", path.display())),
    }
    Ok(ExitCode::SUCCESS)
}

/// It goes to standard error, where the question is.
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
