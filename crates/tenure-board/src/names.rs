//! The names of the files of a board.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use tenure_core::Resource;
use tenure_lockfile::resource_of;

use super::issue::IssueId;

/// A part of the board that has a lock of its own.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    Index,
    Gates,
    Issue(IssueId),
    Events,
}

impl Part {
    /// Returns the resource that gives the part its place in the order of locks.
    pub(super) fn resource(&self) -> Resource {
        let (kind, id) = match self {
            Part::Index => ("index", "board"),
            Part::Gates => ("gates", "board"),
            Part::Issue(id) => ("issue", id.as_str()),
            Part::Events => ("events", "board"),
        };
        Resource::new(kind, id).expect("a short plain name makes a resource")
    }
}

/// The paths of a board.
#[derive(Debug, Clone)]
pub(super) struct Names {
    root: PathBuf,
}

impl Names {
    pub(super) fn new(root: PathBuf) -> Self {
        Self { root }
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn index(&self) -> PathBuf {
        self.root.join("index.json")
    }

    pub(super) fn gates(&self) -> PathBuf {
        self.root.join("gates.json")
    }

    pub(super) fn log(&self) -> PathBuf {
        self.root.join("events.jsonl")
    }

    pub(super) fn issues(&self) -> PathBuf {
        self.root.join("issues")
    }

    pub(super) fn issue(&self, id: &IssueId) -> PathBuf {
        self.issues().join(format!("{id}.json"))
    }

    pub(super) fn all_pending(&self) -> PathBuf {
        self.root.join(".pending")
    }

    pub(super) fn pending(&self, uuid: &str) -> PathBuf {
        self.all_pending().join(format!("{uuid}.json"))
    }

    /// Returns the file that says that the name of `.pending` is durable.
    pub(super) fn pending_is_durable(&self) -> PathBuf {
        self.all_pending().join("durable")
    }

    /// Returns the file that says that a pending change is finished.
    pub(super) fn finished(&self, uuid: &str) -> PathBuf {
        self.all_pending().join(format!("{uuid}.done"))
    }

    pub(super) fn checkpoint_lock(&self) -> PathBuf {
        self.root.join(".pending.lock")
    }

    pub(super) fn ready(&self) -> PathBuf {
        self.root.join(".ready")
    }

    /// Returns the file that the lock of a part protects.
    pub(super) fn file(&self, part: &Part) -> PathBuf {
        match part {
            Part::Index => self.index(),
            Part::Gates => self.gates(),
            Part::Issue(id) => self.issue(id),
            Part::Events => self.log(),
        }
    }

    pub(super) fn lock(&self, part: &Part) -> PathBuf {
        match part {
            Part::Index => self.root.join(".index.lock"),
            Part::Gates => self.root.join(".gates.lock"),
            Part::Issue(id) => self.issues().join(format!("{id}.lock")),
            Part::Events => self.root.join(".events.lock"),
        }
    }
}

/// Returns the id of a change from a file name with this ending, which is that of its record or of
/// its mark; `None` for other files.
pub(super) fn uuid_of<'a>(name: &'a OsStr, ending: &str) -> Option<&'a str> {
    let uuid = name.to_str()?.strip_suffix(ending)?;
    let is_plain = |byte: u8| byte.is_ascii_hexdigit() || byte == b'-';
    (uuid.len() == 36 && uuid.bytes().all(is_plain)).then_some(uuid)
}

/// Returns the name of a lock file in records and errors, such as `index:/srv/board` or
/// `issue:fix-login`.
pub(super) fn lock_name(lock: &Path) -> Resource {
    let name = lock.file_name().and_then(OsStr::to_str).unwrap_or("");
    let root = lock.parent().unwrap_or(lock).as_os_str().as_encoded_bytes();
    let named = match name {
        ".index.lock" => Resource::new("index", root),
        ".gates.lock" => Resource::new("gates", root),
        ".events.lock" => Resource::new("events", root),
        _ => match name.strip_suffix(".lock") {
            Some(id) if !name.starts_with('.') => Resource::new("issue", id),
            _ => return resource_of(lock),
        },
    };
    named.unwrap_or_else(|_| resource_of(lock))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_files_are_named_after_what_they_lock() {
        let names = Names::new("/srv/board".into());
        let id: IssueId = "fix-login".parse().unwrap();
        for (part, name) in [
            (Part::Index, "index:/srv/board"),
            (Part::Gates, "gates:/srv/board"),
            (Part::Issue(id), "issue:fix-login"),
            (Part::Events, "events:/srv/board"),
        ] {
            assert_eq!(lock_name(&names.lock(&part)).to_string(), name);
            let kind = name.split(':').next();
            assert_eq!(Some(part.resource().kind()), kind);
        }
    }

    #[test]
    fn only_whole_names_are_pending_changes() {
        let uuid = "3f2a9c00-1111-4222-8333-444455556666";
        for ending in [".json", ".done"] {
            let name = format!("{uuid}{ending}");
            assert_eq!(uuid_of(OsStr::new(&name), ending), Some(uuid));
        }
        for name in [
            "x.json",
            &format!(".{uuid}.json.0123456789abcdef.tmp"),
            uuid,
        ] {
            assert_eq!(uuid_of(OsStr::new(name), ".json"), None, "{name}");
        }
    }
}
