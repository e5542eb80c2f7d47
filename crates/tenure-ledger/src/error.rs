//! Errors that only a ledger has, and the class of each.

use std::path::PathBuf;
use std::time::Duration;

use tenure_core::duration;
use tenure_core::error::{Class, Error, Fault, Remedy, Sequence};

/// An error of a ledger.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LedgerError {
    /// There is no ledger in the directory.
    #[error("there is no ledger in {}", path.display())]
    Missing {
        /// The directory in which a ledger was expected.
        path: PathBuf,
    },
    /// The ledger is not at the sequence that the caller expects: another appender came first.
    #[error("{} is at sequence {actual}, not {expected}", path.display())]
    SequenceMismatch {
        /// The directory of the ledger.
        path: PathBuf,
        /// The sequence that the caller expects.
        expected: u64,
        /// The newest sequence.
        actual: u64,
    },
    /// An event has its place, but it is unknown if it stays there, or its caller was not told of
    /// it.
    #[error("event {sequence} in {} may be there: {source}", path.display())]
    OutcomeUnknown {
        /// The directory of the ledger.
        path: PathBuf,
        /// The number of the event, if it is there.
        sequence: u64,
        /// The error that left the outcome open.
        source: Box<Error>,
    },
    /// A lock that another program made in its own way stayed for as long as the caller waited.
    #[error(
        "timeout waiting for lock: {} was not free within {}: {holder}",
        path.display(), duration::show(*limit)
    )]
    ForeignLock {
        /// The path of the lock file.
        path: PathBuf,
        /// The facts that are known about the lock: its author and its age.
        holder: String,
        /// The time that the caller allowed.
        limit: Duration,
    },
}

impl Fault for LedgerError {
    fn class(&self) -> Class {
        match self {
            Self::Missing { .. } => Class::NotFound,
            Self::SequenceMismatch { .. } => Class::Conflict,
            Self::OutcomeUnknown { .. } => Class::Unknown,
            Self::ForeignLock { .. } => Class::Busy,
        }
    }

    fn remedy(&self) -> Remedy {
        match self {
            Self::Missing { path } => {
                let path = path.to_string_lossy();
                Remedy::of(
                    "correct the directory, or make one with: {ledger.init directory}",
                    &[&path],
                )
            }
            Self::SequenceMismatch { .. } => {
                "read what was added, decide anew, and append with its sequence".into()
            }
            Self::OutcomeUnknown { path, sequence, .. } => {
                let (path, sequence) = (path.to_string_lossy(), sequence.to_string());
                Remedy::of(
                    "look before you repeat it: {ledger.show directory sequence}",
                    &[&path, &sequence],
                )
            }
            Self::ForeignLock { .. } => Remedy::from(
                "wait longer with {.wait}; if its maker is gone, it is removed by: {ledger.verify directory=DIR repair=true confirmed=true}",
            ),
        }
    }

    fn sequence(&self) -> Option<Sequence> {
        match *self {
            Self::SequenceMismatch {
                expected, actual, ..
            } => Some(Sequence::Mismatch { expected, actual }),
            Self::OutcomeUnknown { sequence, .. } => Some(Sequence::Unknown { sequence }),
            _ => None,
        }
    }
}
