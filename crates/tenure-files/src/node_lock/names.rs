//! The names of the protocol, and the errors about them.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tenure_core::{Error, LockContext, Mode, Result};
use tenure_lockfile::resource_of;
use tenure_os::random;

const LOCK: &str = ".lock";
const NEW: &str = ".new";
const STALE: &str = ".stale";
const RANDOM_DIGITS: usize = 16;
/// The fewest digits in the name of a temporary file: fewer may be a number that a person gave a
/// copy.
const TEMPORARY_DIGITS_MIN: usize = 6;

/// A document and its lock. The paths are absolute: a program may change its directory
/// while it holds the lock.
pub(super) struct Names {
    document: PathBuf,
    lock: PathBuf,
}

impl Names {
    pub(super) fn of(document: &Path) -> Result<Self> {
        if document.file_name().is_none() {
            let problem = format!("{} is not a file", document.display());
            return Err(Error::BadInput(problem));
        }
        let document =
            std::path::absolute(document).map_err(|source| Error::io("find", document, source))?;
        let lock = with_suffix(&document, LOCK);
        Ok(Self { document, lock })
    }

    /// Returns the directory that is the lock.
    pub(super) fn lock(&self) -> &Path {
        &self.lock
    }

    /// Returns a name for a lock that is not in place yet, which cannot be guessed.
    pub(super) fn unplaced(&self) -> PathBuf {
        self.beside(NEW)
    }

    /// Returns a name for a lock that was moved out of its place, which cannot be guessed.
    pub(super) fn displaced(&self) -> PathBuf {
        self.beside(STALE)
    }

    fn beside(&self, suffix: &str) -> PathBuf {
        let random = u64::from_ne_bytes(random::bytes());
        with_suffix(&self.lock, &format!(".{random:016x}{suffix}"))
    }

    /// Returns the error of a wait that was too long.
    pub(super) fn timeout(&self, waited: Duration, limit: Duration, attempts: u32) -> Error {
        Error::Timeout {
            context: self.place(),
            waited,
            limit,
            attempts,
            holders: Vec::new(),
        }
    }

    /// Returns the error of a wait that was cancelled.
    pub(super) fn interrupted(&self) -> Error {
        self.place().interrupted()
    }

    /// Returns the error of a lock that is no longer ours.
    pub(super) fn lost(&self, reason: impl Into<String>) -> Error {
        Error::lost(self.place(), reason)
    }

    fn place(&self) -> Box<LockContext> {
        Box::new(LockContext::new(
            resource_of(&self.document),
            Mode::Write,
            "node:",
            self.lock.display().to_string(),
        ))
    }
}

/// Returns the name of the document beside which a crashed process left a directory of the name
/// `name`, or `None` if it is no such name. Live processes use such names for an instant, and only
/// under the document's own exclusive lock.
pub fn document_of_leftover(name: &OsStr) -> Option<&OsStr> {
    let name = name.as_bytes();
    let ending = [NEW, STALE].map(str::as_bytes);
    let name = ending
        .iter()
        .find_map(|ending| name.strip_suffix(*ending))?;
    let (name, random) = name.split_at_checked(name.len().checked_sub(RANDOM_DIGITS)?)?;
    let document = name.strip_suffix(b".")?.strip_suffix(LOCK.as_bytes())?;
    let digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    (!document.is_empty() && random.iter().all(digit)).then(|| OsStr::from_bytes(document))
}

/// Returns the name of the document that a program of Node was about to replace by a temporary file
/// of the name `name`, which is `DOCUMENT.tmp.HEX`, or `None` if it is no such name. A program
/// makes such files only while it holds Node's lock of the document.
pub(crate) fn target_of_temporary(name: &OsStr) -> Option<&OsStr> {
    let name = name.as_bytes();
    let digits = name
        .iter()
        .rev()
        .take_while(|byte| byte.is_ascii_hexdigit());
    let random = digits.count();
    let target = name[..name.len() - random].strip_suffix(b".tmp.")?;
    (random >= TEMPORARY_DIGITS_MIN && !target.is_empty()).then(|| OsStr::from_bytes(target))
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_crash_leaves_is_known_by_its_name() {
        let names = Names::of(Path::new("/d/a.json")).unwrap();
        assert_eq!(names.lock(), Path::new("/d/a.json.lock"));
        for left in [names.unplaced(), names.displaced()] {
            let name = left.file_name().unwrap();
            assert_eq!(document_of_leftover(name), Some(OsStr::new("a.json")));
        }
    }

    #[test]
    fn nothing_else_is_taken_for_a_leftover() {
        for name in [
            "a.json",
            "a.json.lock",
            ".a.json.lock",
            "a.json.lock.0123456789abcdef",
            "a.json.lock.0123456789abcde.stale",
            "a.json.lock.0123456789abcdef0.stale",
            "a.json.lock.0123456789ABCDEF.stale",
            "a.json.lock.0123456789abcdef.stale.json",
            "a.json.lock.0123456789abcdef.tmp",
            "a.json.locks.0123456789abcdef.new",
            ".lock.0123456789abcdef.new",
        ] {
            assert_eq!(document_of_leftover(OsStr::new(name)), None, "{name}");
        }
    }

    #[test]
    fn a_temporary_file_of_node_is_known_by_its_name() {
        let target = |name| target_of_temporary(OsStr::new(name));
        for name in ["a.json.tmp.1f2e3d", "a.json.tmp.0123456789abcdef"] {
            assert_eq!(target(name), Some(OsStr::new("a.json")), "{name}");
        }
        for name in [
            "a.json.tmp.12345",
            "a.json.tmp.",
            ".tmp.1f2e3d",
            "a.json.tmp.1f2e3d.x",
        ] {
            assert_eq!(target(name), None, "{name}");
        }
    }

    #[test]
    fn what_is_no_file_has_no_lock() {
        for path in ["/", "..", "a/.."] {
            assert!(Names::of(Path::new(path)).is_err(), "{path}");
        }
    }

    #[test]
    fn a_relative_document_stays_where_it_was_when_it_was_named() {
        let names = Names::of(Path::new("a.json")).unwrap();
        let here = std::env::current_dir().unwrap();
        assert_eq!(names.lock(), here.join("a.json.lock"));
    }
}
