//! `tenure doc clean`: removes what crashed writers left.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Serialize;
use tenure::{Error, Mode, Result};
use tenure_files::Leftovers;

use super::desk::Desk;
use super::failure;
use crate::cli::{DocClean, Global};
use crate::context::Context;
use crate::output;
use crate::people::{agreed, can_ask, visible};
use crate::report::{Failure, Report, word};

/// `{"removed":[…],"next":null}`.
#[derive(Serialize)]
struct Removed {
    removed: Vec<String>,
    next: Option<String>,
}

/// Shows what is left, asks, and removes it.
pub fn clean(global: &Global, options: &DocClean) -> Result<ExitCode, Failure> {
    let context = Context::without_store()?;
    let desk = Desk::to_clean(global, &context, &options.patience, &options.owner)?;
    let path = options.path.as_path();
    let documents = match path.is_dir() {
        true => documents_in(path).map_err(|error| failure::about(error.into(), &[path]))?,
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
    let mut sweep = Sweep::new(&desk, &documents);
    let left = sweep.each(|document| desk.documents.leftovers(document));
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
    let removed = sweep.each(|document| desk.documents.clean(document));
    tell_finished(&removed.finished);
    let paths = removed.files.iter().map(|path| path.display().to_string());
    sweep.ended(print(global, paths.collect()))
}

/// Something done to every document. One that is in use does not keep the others from it.
struct Sweep<'a> {
    desk: &'a Desk,
    documents: Vec<&'a Path>,
    first_failure: Option<Failure>,
}

impl<'a> Sweep<'a> {
    fn new(desk: &'a Desk, documents: &'a [PathBuf]) -> Self {
        Self {
            desk,
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
        let wait = self.desk.wait(&[document], Mode::Write)?;
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

/// A transaction that was committed is finished by whoever opens one of its documents.
fn tell_finished(documents: &[PathBuf]) {
    if !documents.is_empty() {
        let names = documents.iter().map(|path| path.display().to_string());
        let names = names.collect::<Vec<_>>().join(", ");
        word(&visible(&format!(
            "finished a transaction that was committed and left unfinished, over {names}"
        )));
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
    let _ = write!(io::stderr(), "{}", lines.collect::<String>());
}

/// Whether there is such a document, or something of one whose making crashed.
fn is_known(path: &Path) -> bool {
    let lock = path.file_name().map(|name| {
        let mut lock = OsString::from(".");
        lock.push(name);
        lock.push(".lock");
        path.with_file_name(lock)
    });
    path.symlink_metadata().is_ok() || lock.is_some_and(|lock| lock.symlink_metadata().is_ok())
}

/// The documents in a directory that something may be left of. Whoever changes a document makes its
/// lock file first, which is never removed; so each of them has one.
fn documents_in(directory: &Path) -> Result<Vec<PathBuf>> {
    let fail = |source| Error::io("list", directory, source);
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(directory).map_err(fail)? {
        names.insert(entry.map_err(fail)?.file_name());
    }
    let documents = names.iter().filter_map(|name| document_of(name));
    let documents = documents.filter(|document| {
        let others = names.iter().filter(|name| document_of(name).is_none());
        let mut others = others.filter(|name| *name != document);
        others.any(|name| mentions(name, document))
    });
    Ok(documents.map(|document| directory.join(document)).collect())
}

/// The document of a lock file.
fn document_of(name: &OsStr) -> Option<OsString> {
    let name = name.as_bytes().strip_prefix(b".")?.strip_suffix(b".lock")?;
    (!name.is_empty()).then(|| OsString::from_vec(name.to_vec()))
}

/// Whether a name has that of the document in it, as all have that its writers make.
fn mentions(name: &OsStr, document: &OsStr) -> bool {
    let (name, document) = (name.as_bytes(), document.as_bytes());
    name.windows(document.len()).any(|part| part == document)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_searched_for_documents_that_something_may_be_left_of() {
        let directory = tempfile::tempdir().unwrap();
        let make = |name: &str| fs::write(directory.path().join(name), "").unwrap();
        for name in ["a.json", ".a.json.lock", ".a.json.0123456789abcdef.tmp"] {
            make(name);
        }
        for name in ["b.json", ".b.json.lock", ".gone.json.lock", "c.json"] {
            make(name);
        }
        make("..gone.json.note.0123456789abcdef.tmp");
        let found = documents_in(directory.path()).unwrap();
        let names: Vec<_> = found.iter().filter_map(|path| path.file_name()).collect();
        assert_eq!(names, ["a.json", "gone.json"]);
    }
}
