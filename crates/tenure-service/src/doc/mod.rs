//! The operations on documents.

mod change;
mod clean;
mod follow;
mod read;
mod token_check;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tenure::{Error, Mode, Result};
use tenure_api::doc::Compat;
use tenure_api::text::Span;
use tenure_files::document::Documents;
use tenure_lockfile::FileCaller;

use crate::waiting::{FileWait, WaitTeller};
use crate::{Caller, Service, WAIT_DEFAULT};
pub use change::Change;
pub use follow::{FollowedDocument, Seen};
pub use token_check::CHECK;

/// The default wait with `compat`: the lock of a dead Node program blocks for ten seconds.
const WAIT_WITH_NODE: Duration = Duration::from_secs(15);

/// The documents, opened for one call.
struct Access {
    documents: Documents,
    caller: FileCaller,
    teller: WaitTeller,
    with_node: bool,
}

impl Service {
    fn access(
        &self,
        files: &[PathBuf],
        compat: Option<Compat>,
        wait: Option<Span>,
        caller: &Caller,
    ) -> Result<Access> {
        let with_node = compat == Some(Compat::ProperLockfile);
        let default = if with_node {
            WAIT_WITH_NODE
        } else {
            WAIT_DEFAULT
        };
        let limit = self.limit(caller, wait.map(|it| it.0), default, None)?;
        let teller = WaitTeller::new(caller);
        let file_caller = self.file_caller(caller, limit.whole(), &teller);
        let mut documents = self.documents().for_caller(&file_caller);
        if with_node {
            let lock = match files {
                [file] => format!("the lock {}.lock", file.display()),
                _ => "a lock of proper-lockfile".into(),
            };
            let observer = Arc::clone(caller.observer());
            let tell = move |why: &str| observer.word(&format!("{lock} was lost: {why}"));
            documents = documents.shared_with_node(tell);
        }
        Ok(Access {
            documents,
            caller: file_caller,
            teller,
            with_node,
        })
    }
}

impl Access {
    /// Returns the wait for these documents.
    fn wait(&self, files: &[PathBuf], mode: Mode) -> Result<FileWait> {
        let known = |file: &PathBuf| {
            let lock = Documents::lock_file(file)?;
            // If the file is a link, the wait is for the document that it points to.
            let document = Documents::document_of(&lock);
            Ok((document.unwrap_or_else(|| file.clone()), lock))
        };
        let files = files.iter().map(known).collect::<Result<Vec<_>>>()?;
        if files.is_empty() {
            let problem = "there is no document to wait for";
            return Err(Error::BadInput(problem.into()));
        }
        Ok(FileWait {
            files,
            // The lock of Node is taken inside of our exclusive lock, even by readers.
            mode: if self.with_node { Mode::Write } else { mode },
            limit: self.caller.wait,
            session: self.caller.asker.session.clone(),
            with_node: self.with_node,
            inner_lock: None,
        })
    }
}

/// Returns the error about a document that is missing.
fn missing(file: &Path) -> Error {
    Error::NotFound(format!("there is no document {}", file.display()))
}

fn paths(files: &[PathBuf]) -> Vec<&Path> {
    files.iter().map(PathBuf::as_path).collect()
}
