//! The redo journal of a transaction over several documents.
//!
//! It holds the path of each document from its own directory, its version before and its whole
//! content after, and is kept beside the first document. It is one JSON text and, on a line of its
//! own, the SHA-256 of that text. It is created by an atomic replace, so it is there whole or not
//! at all.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tenure_api::doc::Version;
use tenure_core::{Error, Result};
use tenure_os::disk::Disk;

use super::path::{Location, document_of_journal, relative, resolved};
use super::several::DOCUMENTS_MAX;

/// The version of the format, in the first field. An unknown version is refused.
const FORM: u32 = 1;
/// The longest journal. Text that must be escaped takes up to six times its length.
const JOURNAL_BYTES_MAX: u64 = 4 << 30;
/// The checksum in hexadecimal, between two newlines.
const SUM_BYTES: usize = 2 * 32 + 2;

/// Everything that is needed to finish a transaction.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Journal {
    form: u32,
    /// The documents, in the order of locks.
    pub(crate) documents: Vec<Step>,
}

/// One document of a transaction.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Step {
    /// The path from the directory of the journal.
    path: PathBuf,
    /// The version before, or `None` if there was no document.
    pub(crate) before: Option<Version>,
    /// The whole new content.
    pub(crate) after: String,
}

impl Step {
    /// Returns the step of one document, for a journal in this directory.
    pub(crate) fn new(
        directory: &Path,
        location: &Location,
        before: Option<Version>,
        after: String,
    ) -> Self {
        Self {
            path: relative(directory, location.path()),
            before,
            after,
        }
    }
}

impl Journal {
    /// Returns the journal of these steps.
    pub(crate) fn new(documents: Vec<Step>) -> Self {
        Self {
            form: FORM,
            documents,
        }
    }

    /// Returns the bytes of the file.
    pub(crate) fn encode(&self) -> Result<Vec<u8>> {
        let mut bytes = serde_json::to_vec(self).map_err(|_| {
            Error::BadInput("documents of one transaction must have names in UTF-8".into())
        })?;
        if bytes.len() as u64 > JOURNAL_BYTES_MAX - SUM_BYTES as u64 {
            let problem = "the documents of one transaction are larger than 4 GiB together";
            return Err(Error::BadInput(problem.into()));
        }
        let sum = Version::of(&bytes);
        bytes.extend_from_slice(format!("\n{sum}\n").as_bytes());
        Ok(bytes)
    }

    /// Returns the locations of the documents in the order of locks. `path` is that of the journal.
    pub(crate) fn places(&self, path: &Path) -> Result<Vec<Location>> {
        self.find(path).ok_or_else(|| {
            Error::corrupt(
                path.to_owned(),
                "it is no journal of the documents beside it",
            )
        })
    }

    fn find(&self, path: &Path) -> Option<Vec<Location>> {
        let directory = path.parent()?;
        let place = |step: &Step| Location::at(resolved(directory, &step.path)?).ok();
        let places: Vec<Location> = self.documents.iter().map(place).collect::<Option<_>>()?;
        let first = places.first()?;
        let beside = first.directory() == directory
            && document_of_journal(path.file_name()?) == Some(first.name());
        let in_order = places.windows(2).all(|pair| pair[0] < pair[1]);
        (beside && in_order && places.len() <= DOCUMENTS_MAX).then_some(places)
    }

    /// Reads a journal. Returns `None` if there is none.
    pub(crate) fn read(disk: &dyn Disk, path: &Path) -> Result<Option<Self>> {
        let found = match disk.read(path, JOURNAL_BYTES_MAX) {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(None),
            Err(source) if source.kind() == io::ErrorKind::PermissionDenied => {
                return Err(of_another_user(path));
            }
            Err(source) if source.kind() == io::ErrorKind::NotADirectory => return Ok(None),
            Err(source) => return Err(Error::io("read", path, source)),
        };
        require_own(path, found.attributes.owner)?;
        Self::decode(&found.bytes).map(Some).map_err(|problem| {
            Error::corrupt(
                path.to_owned(),
                format!("it is no whole journal: {problem}"),
            )
        })
    }

    fn decode(bytes: &[u8]) -> Result<Self, String> {
        let split = bytes
            .len()
            .checked_sub(SUM_BYTES)
            .ok_or("it is too short")?;
        let (text, sum) = bytes.split_at(split);
        if sum != format!("\n{}\n", Version::of(text)).as_bytes() {
            return Err("its checksum is wrong".into());
        }
        let journal: Self = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        if journal.form != FORM {
            return Err(format!("it has form {}, known is {FORM}", journal.form));
        }
        Ok(journal)
    }
}

/// Fails if a journal belongs to another user: redoing it would let that user replace files with
/// our rights.
fn require_own(path: &Path, owner: u32) -> Result<()> {
    if owner == rustix::process::geteuid().as_raw() {
        Ok(())
    } else {
        Err(of_another_user(path))
    }
}

fn of_another_user(path: &Path) -> Error {
    Error::not_allowed(
        format!(
            "a transaction of another user over several documents did not finish, and left {}",
            path.display()
        ),
        "let that user read the document once, which finishes the transaction",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn journal() -> Journal {
        let step = |path: &str, before| {
            let location = Location::at(path.into()).unwrap();
            Step::new(
                Path::new("/d"),
                &location,
                before,
                "{\"n\": \"\u{e9}\"}\n".into(),
            )
        };
        Journal::new(vec![
            step("/d/a", Some(Version::of(b"{}"))),
            step("/d/b", None),
        ])
    }

    #[test]
    fn a_journal_round_trips() {
        let bytes = journal().encode().unwrap();
        assert_eq!(Journal::decode(&bytes).unwrap(), journal());
    }

    #[test]
    fn a_damaged_journal_is_none() {
        let bytes = journal().encode().unwrap();
        for at in 0..bytes.len() {
            let mut bad = bytes.clone();
            bad[at] ^= 1;
            assert!(Journal::decode(&bad).is_err(), "byte {at}");
            assert!(Journal::decode(&bytes[..at]).is_err(), "cut at {at}");
        }
    }

    #[test]
    fn a_journal_is_only_believed_beside_its_first_document_and_in_order() {
        let mut journal = journal();
        let at = |path: &str| Path::new(path).to_owned();
        let good = at("/d/.a.0123456789abcdef.journal");
        assert_eq!(journal.places(&good).unwrap().len(), 2);
        for bad in ["/d/.b.0123456789abcdef.journal", "/d/.a.journal", "/d/a"] {
            assert!(journal.places(&at(bad)).is_err(), "{bad}");
        }
        journal.documents.swap(0, 1);
        assert!(journal.places(&good).is_err());
        let elsewhere = Journal::new(vec![Step {
            path: "/etc/passwd".into(),
            before: None,
            after: String::new(),
        }]);
        assert!(elsewhere.places(&good).is_err());
    }
}
