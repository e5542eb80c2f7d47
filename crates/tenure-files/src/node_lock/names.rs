//! The names of the protocol, and how errors call them.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tenure_core::{Error, Mode, Place, Result};

use crate::locker::resource_of;
use crate::platform;

const LOCK: &str = ".lock";
const NEW: &str = ".new";
const STALE: &str = ".stale";
const RANDOM_DIGITS: usize = 16;

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

    /// The directory that is the lock.
    pub(super) fn lock(&self) -> &Path {
        &self.lock
    }

    /// A name for a lock that is not in place yet. Nobody can guess it.
    pub(super) fn unplaced(&self) -> PathBuf {
        self.beside(NEW)
    }

    /// A name for a lock that was moved out of its place. Nobody can guess it.
    pub(super) fn displaced(&self) -> PathBuf {
        self.beside(STALE)
    }

    fn beside(&self, suffix: &str) -> PathBuf {
        let [a, b, c, d, e, f, g, h, ..] = platform::random();
        let random = u64::from_ne_bytes([a, b, c, d, e, f, g, h]);
        with_suffix(&self.lock, &format!(".{random:016x}{suffix}"))
    }

    /// The error of a wait that was too long.
    pub(super) fn timeout(&self, waited: Duration, limit: Duration, attempts: u32) -> Error {
        Error::Timeout {
            place: self.place(),
            waited,
            limit,
            attempts,
            holders: Vec::new(),
        }
    }

    /// The error of a lock that is no longer ours.
    pub(super) fn lost(&self, reason: impl Into<String>) -> Error {
        Error::Lost {
            place: self.place(),
            reason: reason.into(),
        }
    }

    fn place(&self) -> Box<Place> {
        Box::new(Place {
            resource: resource_of(&self.document),
            mode: Mode::Write,
            store: "node:".into(),
            location: self.lock.display().to_string(),
        })
    }
}

/// Whether `name` is that of a directory which someone who crashed left beside the document of the
/// name `document`. Live ones have such names for an instant, and only under the document's own
/// exclusive lock.
pub fn is_left_over(document: &OsStr, name: &OsStr) -> bool {
    let after = |name: &[u8], start: &[u8]| name.strip_prefix(start).map(<[u8]>::to_vec);
    let rest = after(name.as_bytes(), document.as_bytes())
        .and_then(|rest| after(&rest, LOCK.as_bytes()))
        .and_then(|rest| after(&rest, b"."));
    let Some(rest) = rest else {
        return false;
    };
    let Some((random, suffix)) = rest.split_at_checked(RANDOM_DIGITS) else {
        return false;
    };
    let digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    random.iter().all(digit) && (suffix == NEW.as_bytes() || suffix == STALE.as_bytes())
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
            assert!(is_left_over(OsStr::new("a.json"), name), "{name:?}");
            assert!(!is_left_over(OsStr::new("b.json"), name), "{name:?}");
            assert!(!is_left_over(OsStr::new("a"), name), "{name:?}");
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
        ] {
            assert!(
                !is_left_over(OsStr::new("a.json"), OsStr::new(name)),
                "{name}"
            );
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
