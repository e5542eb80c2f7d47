//! The lock that an error is about.

use std::fmt;

use crate::request::quoted;
use crate::{Error, Mode, Resource};

/// The lock that an error is about: its resource, its mode and where it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockContext {
    /// The resource that was asked for.
    pub resource: Resource,
    /// The mode that was asked for.
    pub mode: Mode,
    /// The address of the store.
    pub store: String,
    /// The path, table or key in the store.
    pub location: String,
}

impl LockContext {
    /// Returns the lock that an error is about.
    pub fn new(
        resource: Resource,
        mode: Mode,
        store: impl Into<String>,
        location: impl Into<String>,
    ) -> Self {
        Self {
            resource,
            mode,
            store: store.into(),
            location: location.into(),
        }
    }

    /// Returns the name of the lock in messages. The lock of a document is not the lease on its
    /// file, so it has a name of its own.
    pub fn name(&self) -> String {
        let document = self.document();
        document.unwrap_or_else(|| self.resource.to_string())
    }

    /// Returns the name of the lock in messages, if it is the lock of a document.
    pub fn document(&self) -> Option<String> {
        if self.resource.kind() != "file" {
            return None;
        }
        let path = String::from_utf8_lossy(&self.resource.raw_id()).into_owned();
        let (directory, name) = path.rsplit_once('/')?;
        let is_beside_it = self.location == format!("{directory}/.{name}.lock");
        (is_beside_it || self.is_nodes()).then(|| format!("document {path}"))
    }

    /// Returns the error of a wait for this lock that was cancelled.
    pub fn interrupted(&self) -> Error {
        Error::Interrupted {
            act: "waiting for",
            resource: self.resource.clone(),
            name: self.name(),
        }
    }

    /// Returns the command that shows which processes have the lock file open, for a holder that
    /// uses flock directly and left no record. Returns `None` if the lock is not a file.
    pub fn without_record(&self) -> Option<String> {
        self.store
            .starts_with("file:")
            .then(|| format!("fuser {}", quoted(&self.location)))
    }

    /// Returns the words that programs which know the protocol of ledgers look for. They are empty
    /// if it is not the lock of a ledger.
    pub fn words_of_timeout(&self) -> &'static str {
        if self.location.ends_with("/.queue.lock") {
            "timeout waiting for lock: "
        } else {
            ""
        }
    }

    /// Returns true if it is a lock of Node programs, which say nothing about their holder.
    pub(super) fn is_nodes(&self) -> bool {
        self.store == "node:"
    }
}

impl fmt::Display for LockContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}) at {}", self.name(), self.mode, self.location)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lock_of_a_document_is_not_called_like_the_lease_on_its_file() {
        let name = |location: &str| {
            let resource = Resource::new("file", "/w/a b.json").unwrap();
            LockContext::new(resource, Mode::Write, "file:", location).name()
        };
        assert_eq!(name("/w/.a b.json.lock"), "document /w/a b.json");
        assert_eq!(name("/w/locks/x.lock"), "file:/w/a%20b.json");
    }

    #[test]
    fn a_path_can_be_pasted_into_a_shell() {
        assert_eq!(quoted("/s/name:x%2F.lock"), "/s/name:x%2F.lock");
        assert_eq!(quoted("/my locks/it's"), "'/my locks/it'\\''s'");
    }
}
