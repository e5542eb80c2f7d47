//! The errors that only a document can meet, and their classes.

use std::path::PathBuf;

use tenure_core::error::{Class, Fault, Remedy};
use tenure_core::{Resource, Token};

/// An error that only a document can meet.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DocumentError {
    /// The document is not at the version that the caller expects.
    #[error("{} is at version {actual}, not {expected}", path.display())]
    OtherVersion {
        /// The path of the document.
        path: PathBuf,
        /// The version that the caller expects.
        expected: String,
        /// The state that it found.
        actual: String,
    },
    /// The document was last written under another lock than that of this token.
    #[error("{} was last written with {last}, and {asked} is of another lock", path.display())]
    OtherFence {
        /// The path of the document.
        path: PathBuf,
        /// The lock and token of its last fenced write.
        last: String,
        /// The lock and token of this write.
        asked: String,
    },
    /// A later holder of the same lock has written the document already.
    #[error("{} was written with token {last} of {resource} already; {token} is older", path.display())]
    Fenced {
        /// The path of the document.
        path: PathBuf,
        /// The resource that is locked.
        resource: Resource,
        /// The token of this write.
        token: Token,
        /// The token of the last write.
        last: Token,
    },
    /// A transaction over several documents was committed and cannot be finished.
    #[error("{}: {problem}; nothing was touched (the journal is {})", path.display(), journal.display())]
    Stuck {
        /// The file in the way.
        path: PathBuf,
        /// The problem that the file causes.
        problem: String,
        /// The journal that says how to finish.
        journal: PathBuf,
        /// The thing to repair. The alternative is to remove the journal.
        remedy: &'static str,
    },
}

impl Fault for DocumentError {
    fn class(&self) -> Class {
        match self {
            Self::OtherVersion { .. } | Self::OtherFence { .. } => Class::Conflict,
            Self::Fenced { .. } => Class::NotAllowed,
            Self::Stuck { .. } => Class::BadInput,
        }
    }

    fn remedy(&self) -> Remedy {
        match self {
            Self::OtherVersion { .. } => {
                "read it again, and repeat the change on what is there now".into()
            }
            Self::OtherFence { .. } => {
                Remedy::from("if it is to be guarded by this lock from now on, add {.rebind}")
            }
            Self::Fenced { last, .. } => Remedy::of(
                "take the lock again, then repeat the work; if the store never granted token {}, \
                 add {.rebind}",
                &[&last.to_string()],
            ),
            Self::Stuck { remedy, .. } => {
                format!("{remedy}; or remove the journal, to keep all documents as they are").into()
            }
        }
    }

    fn resource(&self) -> Option<&Resource> {
        match self {
            Self::Fenced { resource, .. } => Some(resource),
            _ => None,
        }
    }
}
