//! The names of the files in the directory of a ledger.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use tenure_os::replace::{beside, unguessable_name};

/// The ending of files that are kept out of the way.
const ASIDE: &str = ".aside";
const TEMPORARY: &str = ".tmp";

/// The form of the names of event files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// `event-000001.json`.
    Seed,
    /// `000001.json`, as the program `af` has it. Such a ledger is only read.
    Af,
}

/// The paths of a ledger.
#[derive(Clone)]
pub(super) struct Names {
    directory: PathBuf,
    ledger: PathBuf,
    pub(super) form: Form,
}

/// The meaning of a name in the directory.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// An event, by its number.
    Event(u64),
    /// A name like that of an event. Programs that count files by `event-*.json` would count it,
    /// too.
    AlmostEvent,
    /// `ledger.lock`.
    Lock,
    /// A file that is being written, or that a process left when it died.
    Temporary,
    /// A file of ours, or one that was moved aside.
    Ours,
    /// A file that no ledger needs.
    Foreign,
}

impl Names {
    pub(super) fn new(directory: &Path, form: Form) -> Self {
        Self {
            directory: directory.to_owned(),
            ledger: directory.join("ledger"),
            form,
        }
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(super) fn ledger(&self) -> &Path {
        &self.ledger
    }

    pub(super) fn event(&self, sequence: u64) -> PathBuf {
        self.ledger.join(match self.form {
            Form::Seed => format!("event-{sequence:06}.json"),
            Form::Af => format!("{sequence:06}.json"),
        })
    }

    /// Returns the path of the lock that strangers take, too.
    pub(super) fn lock(&self) -> PathBuf {
        self.ledger.join("ledger.lock")
    }

    /// Returns the path of the file that is linked to the lock while a process of ours has it.
    pub(super) fn own_lock(&self) -> PathBuf {
        self.ledger.join(".ledger.lock.tmp")
    }

    /// Returns the path of the kernel lock that our processes queue on.
    pub(super) fn queue(&self) -> PathBuf {
        self.ledger.join(".queue.lock")
    }

    /// Returns the path of the note of our newest event.
    pub(super) fn newest(&self) -> PathBuf {
        self.ledger.join(".newest")
    }

    pub(super) fn snapshot(&self) -> PathBuf {
        self.ledger.join(".snapshot.json")
    }

    pub(super) fn meta(&self) -> PathBuf {
        self.directory.join("meta.json")
    }

    /// Returns the directory in which other programs keep files of claims.
    pub(super) fn foreign_claims(&self) -> PathBuf {
        self.directory.join("locks")
    }

    /// Returns an unguessable name for an event that has no number yet.
    pub(super) fn temporary(&self) -> PathBuf {
        let name = unguessable_name(OsStr::new("event-new"), TEMPORARY);
        self.ledger.join(name)
    }

    pub(super) fn meaning(&self, name: &OsStr) -> Meaning {
        if let Some(sequence) = self.sequence_of(name) {
            return Meaning::Event(sequence);
        }
        let text = name.as_bytes();
        match text {
            b"ledger.lock" => Meaning::Lock,
            b".queue.lock" | b".newest" | b".snapshot.json" | b".ledger.lock.tmp" => Meaning::Ours,
            _ if beside(name, ASIDE.as_bytes()).is_some() => Meaning::Ours,
            _ if beside(name, TEMPORARY.as_bytes()).is_some() => Meaning::Temporary,
            _ if text.starts_with(b".event-") && text.ends_with(b".tmp") => Meaning::Temporary,
            _ if text.starts_with(b"event-") && text.ends_with(b".json") => Meaning::AlmostEvent,
            _ => Meaning::Foreign,
        }
    }

    /// Returns the number of an event's name, if the number is spelled the one way that counts: six
    /// digits, or more if it needs more.
    fn sequence_of(&self, name: &OsStr) -> Option<u64> {
        let digits = match self.form {
            Form::Seed => name.to_str()?.strip_prefix("event-")?,
            Form::Af => name.to_str()?,
        };
        let digits = digits.strip_suffix(".json")?;
        let sequence: u64 = digits.parse().ok()?;
        let is_spelled_so = self.event(sequence).file_name() == Some(name);
        (sequence > 0 && is_spelled_so).then_some(sequence)
    }
}

/// Returns an unguessable name beside a path, under which a file is kept out of the way.
pub(super) fn aside(path: &Path) -> PathBuf {
    path.with_file_name(hidden(path, ASIDE))
}

/// Returns a name beside a path for a file that is about to be removed.
pub(super) fn displaced(path: &Path) -> PathBuf {
    path.with_file_name(hidden(path, TEMPORARY))
}

fn hidden(path: &Path, ending: &str) -> OsString {
    unguessable_name(path.file_name().unwrap_or_default(), ending)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_spelling_of_a_number_is_an_event() {
        let names = Names::new(Path::new("/p"), Form::Seed);
        let meaning = |name: &str| names.meaning(OsStr::new(name));
        assert_eq!(meaning("event-000007.json"), Meaning::Event(7));
        assert_eq!(meaning("event-1000000.json"), Meaning::Event(1_000_000));
        for name in [
            "event-7.json",
            "event-0000007.json",
            "event-000000.json",
            "event-00000x.json",
            "event-+00007.json",
        ] {
            assert_eq!(meaning(name), Meaning::AlmostEvent, "{name}");
        }
        assert_eq!(meaning("000007.json"), Meaning::Foreign);
        let af = Names::new(Path::new("/p"), Form::Af);
        assert_eq!(af.meaning(OsStr::new("000007.json")), Meaning::Event(7));
        assert!(names.event(1_000_000).ends_with("event-1000000.json"));
    }

    #[test]
    fn temporary_files_of_ours_and_of_strangers_are_known_as_such() {
        let names = Names::new(Path::new("/p"), Form::Seed);
        let own = names.temporary();
        for name in [own.file_name().unwrap(), OsStr::new(".event-x8Yq2.tmp")] {
            assert_eq!(names.meaning(name), Meaning::Temporary, "{name:?}");
            assert!(name.as_bytes().starts_with(b".event-"));
        }
        let lock = displaced(&names.lock());
        assert_eq!(names.meaning(lock.file_name().unwrap()), Meaning::Temporary);
        let kept = aside(&names.event(9));
        assert_eq!(names.meaning(kept.file_name().unwrap()), Meaning::Ours);
        assert_eq!(names.meaning(OsStr::new(".ledger.lock.tmp")), Meaning::Ours);
        assert_eq!(names.meaning(OsStr::new("notes.txt")), Meaning::Foreign);
    }
}
