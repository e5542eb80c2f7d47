//! The failures of commands on documents: the errors of the library, with remedies for the command
//! line.

use std::io;
use std::path::{Path, PathBuf};

use tenure::Error;
use tenure_files::document::DOCUMENT_BYTES_MAX;
use tenure_service::doc::CHECK;

use crate::report::Failure;

/// Returns the failure of a command on these files, with a remedy of its own where there is one.
pub fn about(failure: Failure, files: &[PathBuf]) -> Failure {
    let Failure::Error(error) = failure else {
        return failure;
    };
    let error = in_other_words(error, files);
    let remedy = match &error {
        Error::NotFound(_) => match files.iter().find_map(|file| missing_directory(file)) {
            Some(directory) => format!(
                "correct the path, or make the directory with: mkdir -p {}",
                directory.display()
            ),
            None => "correct the path, or say what a new one holds with --create JSON".into(),
        },
        Error::Corrupt { path, .. } if path.is_dir() && is_one_of(path, files) => {
            "name a document in it".into()
        }
        Error::Corrupt { path, .. } if is_one_of(path, files) && !path.is_file() => {
            "name a regular file".into()
        }
        Error::Corrupt { path, .. } if ends_with(path, ".note") => {
            "remove it if nothing else helps: it remembers the last token, and a transaction that \
             is not finished"
                .into()
        }
        Error::Corrupt { path, .. } if ends_with(path, ".journal") => {
            "remove it, to keep all documents as they are".into()
        }
        Error::Corrupt { path, .. } if ends_with(path, ".lock") => {
            "if no program needs it, move it away".into()
        }
        Error::Corrupt { path, .. } if is_one_of(path, files) && is_too_large(path) => {
            "split it, or keep what makes it large in files of its own".into()
        }
        Error::Corrupt { path, .. } if is_one_of(path, files) => {
            "repair it; a good one is put in its place with: tenure doc write FILE < good.json"
                .into()
        }
        Error::Lost { .. } => "nothing was written; look at what is there, and try again".into(),
        Error::Io { action, source, .. }
            if *action == CHECK && source.kind() == io::ErrorKind::NotFound =>
        {
            "nothing was written; name the store that the lock was taken in with --store".into()
        }
        Error::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
            "give this user access to it".into()
        }
        _ => return Failure::Error(error),
    };
    Failure::with_remedy(error, remedy)
}

/// Returns the error in the terms of documents.
fn in_other_words(error: Error, files: &[PathBuf]) -> Error {
    use io::ErrorKind::{NotADirectory, NotFound};
    match error {
        // The command did not wait, so it did not time out.
        Error::Timeout {
            limit,
            context,
            holders,
            ..
        } if limit.is_zero() => Error::Busy { context, holders },
        // A directory on the way to a document is missing. A missing store is another matter.
        Error::Io {
            ref path,
            ref source,
            ..
        } if matches!(source.kind(), NotFound | NotADirectory) && is_above_one_of(path, files) => {
            Error::NotFound(error.to_string())
        }
        error => error,
    }
}

fn ends_with(path: &Path, ending: &str) -> bool {
    let name = path.file_name().unwrap_or_default();
    name.as_encoded_bytes().ends_with(ending.as_bytes())
}

fn is_above_one_of(path: &Path, files: &[PathBuf]) -> bool {
    let leads = |file: &PathBuf| {
        let file = std::path::absolute(file).unwrap_or_default();
        std::path::absolute(path).is_ok_and(|path| file.starts_with(path))
    };
    files.iter().any(leads)
}

fn missing_directory(file: &Path) -> Option<PathBuf> {
    let path = std::path::absolute(file).ok()?;
    let directory = path.parent()?;
    // A file may stand in the place of the directory.
    let missing = directory.try_exists().is_ok_and(|there| !there);
    missing.then(|| directory.to_owned())
}

fn is_too_large(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|found| found.len() > DOCUMENT_BYTES_MAX as u64)
}

fn is_one_of(path: &Path, files: &[PathBuf]) -> bool {
    let place = std::fs::canonicalize(path).ok();
    let is = |file: &PathBuf| std::fs::canonicalize(file).ok() == place;
    place.is_some() && files.iter().any(is)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenure::Class;

    #[test]
    fn a_missing_directory_is_not_found_and_a_missing_store_is_unreachable() {
        let file = Path::new("/no-such-directory/a.json");
        let class = |path: &str| {
            let error = Error::io("watch", path, io::Error::from(io::ErrorKind::NotFound));
            in_other_words(error, &[file.into()]).class()
        };
        assert_eq!(class("/no-such-directory"), Class::NotFound);
        assert_eq!(class("/no-such-directory/a.json"), Class::NotFound);
        assert_eq!(class("sqlite:/no-such-directory/t.db"), Class::Unreachable);
        assert_eq!(class("/no-such-directory/b.json"), Class::Unreachable);
    }

    #[test]
    fn the_directory_that_is_missing_is_named() {
        let missing = |file: &str| missing_directory(Path::new(file));
        assert_eq!(missing("/no-such/a.json"), Some("/no-such".into()));
        assert_eq!(missing("/a.json"), None);
    }
}
