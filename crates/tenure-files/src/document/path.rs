//! The location of a document, and the names beside it.
//!
//! A symbolic link is followed to its document: the lock, the note and the new content are beside
//! the real file, so that all programs meet there, whatever name they use; the link stays a link.
//! Links among the directories need no such care: the kernel follows them to the same lock file.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use tenure_core::{Error, Result};
use tenure_os::replace::{beside, unguessable_name};

/// The largest number of links that are followed to a document.
const LINKS_MAX: usize = 40;

/// The location of a document: an absolute path that is no link.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Location {
    path: PathBuf,
}

impl Location {
    /// Returns the location of the document of this name, behind all links.
    pub(crate) fn of(given: &Path) -> Result<Self> {
        let failed = |source| unresolvable(given, source);
        let mut path = std::path::absolute(given).map_err(failed)?;
        for _ in 0..LINKS_MAX {
            if path.file_name().is_none() || path.as_os_str().as_encoded_bytes().ends_with(b"/") {
                return Err(not_a_file(given));
            }
            match fs::read_link(&path) {
                Ok(target) => {
                    // A relative target counts from the directory of the link, an absolute one from
                    // the root.
                    path.pop();
                    path.push(target);
                }
                // The path is no link, or nothing is there yet.
                Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOENT)) => {
                    require_good_name(&path)?;
                    return Ok(Self { path });
                }
                Err(source) => return Err(failed(source)),
            }
        }
        Err(failed(io::Error::from_raw_os_error(libc::ELOOP)))
    }

    /// Returns the location without links among its directories either, so that one document has
    /// one spelling.
    pub(crate) fn canonical(given: &Path) -> Result<Self> {
        let found = Self::of(given)?;
        let directory = fs::canonicalize(found.directory());
        let directory = directory.map_err(|source| Error::io("find", found.directory(), source))?;
        Ok(Self {
            path: directory.join(found.name()),
        })
    }

    /// Returns the location at a path that is known to be no link.
    pub(crate) fn at(path: PathBuf) -> Result<Self> {
        if path.parent().is_some() && path.file_name().is_some() {
            Ok(Self { path })
        } else {
            Err(not_a_file(&path))
        }
    }

    /// Returns the path of the document.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the directory it is in.
    pub(crate) fn directory(&self) -> &Path {
        self.path.parent().expect("a location has a directory")
    }

    /// Returns its name in that directory.
    pub(crate) fn name(&self) -> &OsStr {
        self.path.file_name().expect("a location has a name")
    }

    /// Returns its lock file: `.NAME.lock`, never `NAME.lock`, which is Node's.
    pub(crate) fn lock(&self) -> PathBuf {
        lock_beside(&self.path)
    }

    /// Returns its note: `.NAME.note`.
    pub(crate) fn note(&self) -> PathBuf {
        hidden_beside(&self.path, NOTE_ENDING)
    }

    /// Returns a name for a journal that is kept beside it.
    pub(crate) fn new_journal(&self) -> PathBuf {
        self.directory()
            .join(unguessable_name(self.name(), JOURNAL_ENDING))
    }
}

/// Returns the lock file beside a path: `.NAME.lock`.
pub(crate) fn lock_beside(path: &Path) -> PathBuf {
    hidden_beside(path, LOCK_ENDING)
}

fn hidden_beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(ending);
    path.with_file_name(name)
}

const LOCK_ENDING: &str = ".lock";
const NOTE_ENDING: &str = ".note";
const JOURNAL_ENDING: &str = ".journal";

/// Returns the name of the document of a lock file, or `None` if it is no name of a lock file.
pub(crate) fn document_of_lock(name: &OsStr) -> Option<&OsStr> {
    inside(name, LOCK_ENDING)
}

/// Returns the name of the document of a note, or `None` if it is no name of a note.
pub(crate) fn document_of_note(name: &OsStr) -> Option<&OsStr> {
    inside(name, NOTE_ENDING)
}

fn inside<'a>(name: &'a OsStr, ending: &str) -> Option<&'a OsStr> {
    let name = name.as_bytes().strip_prefix(b".")?;
    let document = name.strip_suffix(ending.as_bytes())?;
    (!document.is_empty()).then(|| OsStr::from_bytes(document))
}

/// Returns the name of the document a journal is kept beside, or `None` if it is no name of a
/// journal.
pub(crate) fn document_of_journal(name: &OsStr) -> Option<&OsStr> {
    beside(name, JOURNAL_ENDING.as_bytes())
}

/// Returns the path of a file from a directory, both spelled without links. The relative path stays
/// true when the tree with both is moved, or seen through another mount.
pub(crate) fn relative(directory: &Path, to: &Path) -> PathBuf {
    let (mut from, mut to) = (
        directory.components().peekable(),
        to.components().peekable(),
    );
    while from.peek().is_some() && from.peek() == to.peek() {
        from.next();
        to.next();
    }
    let up = from.map(|_| Component::ParentDir);
    up.chain(to).collect()
}

/// Returns the file that such a relative path leads to, or `None` if it leads above the root.
pub(crate) fn resolved(directory: &Path, relative: &Path) -> Option<PathBuf> {
    let mut path = directory.to_owned();
    for component in relative.components() {
        match component {
            Component::Normal(name) => path.push(name),
            Component::ParentDir => path.pop().then_some(())?,
            _ => return None,
        }
    }
    Some(path)
}

/// The longest name of a document. A longer name leaves no room for the names beside it.
const NAME_BYTES_MAX: usize = 200;

/// Refuses names of files that writers keep beside documents: replacing a lock file would take the
/// lock from its holder.
fn require_good_name(path: &Path) -> Result<()> {
    let name = path.file_name().unwrap_or_default();
    if name.len() > NAME_BYTES_MAX {
        let problem = format!(
            "{}: the name of a document has at most {NAME_BYTES_MAX} bytes, this one has {}",
            path.display(),
            name.len()
        );
        return Err(Error::BadInput(problem));
    }
    match document_of_lock(name).or_else(|| document_of_note(name)) {
        Some(of) => Err(Error::BadInput(format!(
            "{} is where Tenure keeps what belongs to the document {}, and no document",
            path.display(),
            of.display()
        ))),
        None => Ok(()),
    }
}

/// Returns the error for a name that leads nowhere.
fn unresolvable(given: &Path, source: io::Error) -> Error {
    let given = given.display();
    match source.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => Error::not_allowed(
            format!("{given} may not be looked for by this user: {source}"),
            "give this user access to the directories above it",
        ),
        Some(libc::ELOOP) => Error::BadInput(format!("{given} is a link that leads in a circle")),
        Some(libc::ENOTDIR) => Error::NotFound(format!(
            "there is no document {given}: something on the way to it is no directory"
        )),
        Some(libc::ENAMETOOLONG) => Error::BadInput(format!("{given}: the name is too long")),
        _ => Error::io("find", given.to_string(), source),
    }
}

fn not_a_file(path: &Path) -> Error {
    Error::BadInput(format!("{} is not the name of a file", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn the_names_beside_a_document_begin_with_a_dot() {
        let location = Location::at("/d/a.json".into()).unwrap();
        assert_eq!(location.lock(), Path::new("/d/.a.json.lock"));
        assert_eq!(location.note(), Path::new("/d/.a.json.note"));
        for (of, beside) in [
            (document_of_lock(OsStr::new(".a.json.lock")), "a.json"),
            (document_of_note(OsStr::new("..hidden.note")), ".hidden"),
        ] {
            assert_eq!(of, Some(OsStr::new(beside)));
        }
        for name in ["a.json.lock", ".lock", ".a.json.note"] {
            assert_eq!(document_of_lock(OsStr::new(name)), None, "{name}");
        }
        let journal = location.new_journal();
        let name = journal.file_name().unwrap();
        assert_eq!(document_of_journal(name), Some(location.name()));
        assert_eq!(document_of_journal(OsStr::new("a.json")), None);
    }

    #[test]
    fn a_link_leads_to_the_document_it_means_even_if_that_is_not_there_yet() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::create_dir(at("real")).unwrap();
        symlink("second", at("first")).unwrap();
        symlink("real/a.json", at("second")).unwrap();
        let found = Location::of(&at("first")).unwrap();
        assert_eq!(found.path(), at("real/a.json"));
        fs::write(at("real/a.json"), "{}").unwrap();
        assert_eq!(Location::of(&at("first")).unwrap(), found);
    }

    #[test]
    fn what_belongs_to_a_document_is_no_document_and_neither_is_too_long_a_name() {
        for name in [".a.json.lock", ".a.json.note", &"x".repeat(201)] {
            let refused = Location::of(&Path::new("/d").join(name)).unwrap_err();
            assert_eq!(refused.class(), tenure_core::Class::BadInput, "{refused}");
        }
        for name in ["a.json.lock", ".lock", ".note", &"x".repeat(200)] {
            assert!(Location::of(&Path::new("/d").join(name)).is_ok(), "{name}");
        }
    }

    #[test]
    fn links_in_a_circle_and_names_of_no_file_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let link = directory.path().join("loop");
        symlink("loop", &link).unwrap();
        assert!(Location::of(&link).is_err());
        for path in ["/", "..", "a/.."] {
            assert!(Location::of(Path::new(path)).is_err(), "{path}");
        }
    }

    #[test]
    fn a_relative_path_leads_back_and_follows_a_move() {
        for (directory, to) in [
            ("/a/b", "/a/b/x"),
            ("/a/b", "/a/c/d/x"),
            ("/", "/x"),
            ("/a", "/x"),
        ] {
            let relative = relative(Path::new(directory), Path::new(to));
            assert!(relative.is_relative(), "{}", relative.display());
            assert_eq!(
                resolved(Path::new(directory), &relative).unwrap(),
                Path::new(to)
            );
        }
        let moved = resolved(
            Path::new("/m/b"),
            &relative(Path::new("/a/b"), Path::new("/a/c/x")),
        );
        assert_eq!(moved.unwrap(), Path::new("/m/c/x"));
        for bad in ["/etc/x", "../../../x"] {
            assert_eq!(resolved(Path::new("/a/b"), Path::new(bad)), None, "{bad}");
        }
    }

    #[test]
    fn two_spellings_of_one_document_are_one_canonical_place() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::create_dir(at("real")).unwrap();
        symlink("real", at("link")).unwrap();
        let of = |name: &str| Location::canonical(&at(name)).unwrap();
        assert_eq!(of("link/a.json"), of("real/a.json"));
        assert_eq!(of("link/../real/a.json"), of("real/a.json"));
    }
}
