//! Every way it can go wrong, and the class each belongs to.
//!
//! The command maps a [`Class`] to an exit code and the server to a status; nobody
//! looks at variants for that. Each message says what happened and where;
//! [`Error::remedy`] says what to do next.

mod place;
mod remedy;

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::{Lease, LeaseId, Mode, Resource, Token, duration};

pub use place::Place;

/// The usual result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What kind of failure it is, for exit codes and statuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// Bad input or corrupt data.
    BadInput,
    /// There is no such thing.
    NotFound,
    /// The store cannot be reached or written.
    Unreachable,
    /// A mistake in Tenure itself.
    Internal,
    /// Held by someone else, or waited too long.
    Busy,
    /// The request contradicts what is: order, re-entry, version.
    Conflict,
    /// Not the owner, fenced, or the lease is over.
    NotAllowed,
    /// The configuration, or a store that cannot lock safely here.
    Configuration,
    /// The lock was lost while it was needed.
    Lost,
    /// Interrupted while waiting.
    Interrupted,
}

impl Class {
    /// The word in `error.kind` of JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Class::BadInput => "bad_input",
            Class::NotFound => "not_found",
            Class::Unreachable => "unreachable",
            Class::Internal => "internal",
            Class::Busy => "busy",
            Class::Conflict => "conflict",
            Class::NotAllowed => "not_allowed",
            Class::Configuration => "configuration",
            Class::Lost => "lost",
            Class::Interrupted => "interrupted",
        }
    }
}

/// Every way it can go wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Someone else holds it, and the caller did not want to wait.
    #[error("{place} is held{}", by(place, holders))]
    Busy {
        /// What was asked for.
        place: Box<Place>,
        /// Who holds it, as far as is known.
        holders: Vec<Lease>,
    },
    /// Someone else held it for as long as the caller wanted to wait.
    #[error(
        "{place} was not free within {}; held{}",
        duration::show(*limit), by(place, holders)
    )]
    Timeout {
        /// What was asked for.
        place: Box<Place>,
        /// How long it was waited for.
        waited: Duration,
        /// How long the caller allowed.
        limit: Duration,
        /// How often the store was asked.
        attempts: u32,
        /// Who holds it, as far as is known.
        holders: Vec<Lease>,
    },
    /// The session asks for what it holds or waits for already.
    #[error("{place} is held by this session already, as lease {lease}")]
    Reentry {
        /// What was asked for.
        place: Box<Place>,
        /// The lease in the way.
        lease: LeaseId,
    },
    /// The session holds something that must be taken later.
    #[error("{asked} must be taken before {held}, which this session holds")]
    Order {
        /// What was asked for.
        asked: Resource,
        /// What is held and comes later.
        held: Resource,
    },
    /// What an outer `run` holds is too weak to work under.
    #[error("the outer run holds {} for {held}, which is too weak for {}", place.resource, place.mode)]
    TooWeak {
        /// What was asked for.
        place: Box<Place>,
        /// How the outer `run` holds it.
        held: Mode,
    },
    /// The lease is not in the state the request needs.
    #[error("{place}: expected {expected}, but it is {actual}")]
    Conflict {
        /// What was asked for.
        place: Box<Place>,
        /// What the request needs.
        expected: String,
        /// What is.
        actual: String,
    },
    /// The request contradicts how things are.
    #[error("{problem}")]
    Contradiction {
        /// What was refused, and why.
        problem: String,
        /// What to do.
        remedy: String,
    },
    /// A document is not what the caller expects it to be.
    #[error("{} is at version {actual}, not {expected}", path.display())]
    OtherVersion {
        /// The document.
        path: PathBuf,
        /// What the caller expects.
        expected: String,
        /// What is.
        actual: String,
    },
    /// A document was last written under another lock than this token is of.
    #[error("{} was last written with {last}, and {asked} is of another lock", path.display())]
    OtherFence {
        /// The document.
        path: PathBuf,
        /// The lock and token of its last fenced write.
        last: String,
        /// The lock and token of this one.
        asked: String,
    },
    /// A later holder of the same lock has written the document already.
    #[error("{} was written with token {last} of {resource} already; {token} is older", path.display())]
    Fenced {
        /// The document.
        path: PathBuf,
        /// The lock.
        resource: Resource,
        /// The token of this write.
        token: Token,
        /// The token of the last one.
        last: Token,
    },
    /// The change was made, but not all that belongs to it.
    #[error("{done}; but then: {source}")]
    HalfWay {
        /// What was done, and what that means.
        done: String,
        /// What did not work.
        source: Box<Error>,
    },
    /// The lease is over: released, or taken away.
    #[error("lease {lease} is over: {reason}")]
    LeaseOver {
        /// The lease.
        lease: LeaseId,
        /// How it ended.
        reason: String,
    },
    /// The lock no longer protects anything: what proved it is gone.
    #[error("{place} was lost: {reason}")]
    Lost {
        /// What was held.
        place: Box<Place>,
        /// What happened to it.
        reason: String,
    },
    /// The caller may not do this: another's lease, or one that only its session can end.
    #[error("{problem}")]
    NotAllowed {
        /// What was refused, and why.
        problem: String,
        /// What to do.
        remedy: String,
    },
    /// More than a store steps over in one go.
    #[error("{what} is more than {limit} at once, which is not read in one go")]
    TooMany {
        /// What there is too much of.
        what: String,
        /// How many are read at most.
        limit: usize,
    },
    /// What came from outside is not what it should be.
    #[error("{0}")]
    BadInput(String),
    /// A file is not what it should be.
    #[error("{path}: {problem}", path = path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A transaction over several documents was committed and cannot be finished.
    #[error("{}: {problem}; nothing was touched (the journal is {})", path.display(), journal.display())]
    Stuck {
        /// What is in the way.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
        /// What knows how to finish.
        journal: PathBuf,
        /// What to put right; the alternative is to remove the journal.
        remedy: String,
    },
    /// There is no such thing.
    #[error("{0}")]
    NotFound(String),
    /// The configuration is wrong, or the store cannot lock safely here.
    #[error("{problem}")]
    Configuration {
        /// What is wrong.
        problem: String,
        /// What to do.
        remedy: String,
    },
    /// The system refused a file operation.
    #[error("cannot {action} {path}: {source}", path = path.display())]
    Io {
        /// What was tried, as a verb.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The server of a store cannot be reached, or turned us away for the moment.
    #[error("cannot use {store}: {problem}")]
    Unreachable {
        /// Its address, without password.
        store: String,
        /// What it said, or what kept it from saying anything.
        problem: String,
    },
    /// All connections for locks are in use, and none came back in time.
    #[error("all {limit} connections to {store} are in use, and none came back within {}", duration::show(*waited))]
    Exhausted {
        /// The address of the store.
        store: String,
        /// How many there may be.
        limit: usize,
        /// How long one was waited for.
        waited: Duration,
    },
    /// Interrupted while waiting.
    #[error("interrupted while waiting for {resource}")]
    Interrupted {
        /// What was waited for.
        resource: Resource,
    },
    /// A mistake in Tenure itself.
    #[error("internal error: {0}")]
    Internal(String),
}

impl Error {
    /// An I/O error with the path it happened on.
    pub fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
        source: impl Into<io::Error>,
    ) -> Self {
        Error::Io {
            action,
            path: path.into(),
            source: source.into(),
        }
    }

    /// What kind of failure it is.
    pub fn class(&self) -> Class {
        match self {
            Error::Busy { .. }
            | Error::Timeout { .. }
            | Error::TooMany { .. }
            | Error::Exhausted { .. } => Class::Busy,
            Error::Reentry { .. }
            | Error::Order { .. }
            | Error::TooWeak { .. }
            | Error::Contradiction { .. }
            | Error::OtherVersion { .. }
            | Error::OtherFence { .. }
            | Error::Conflict { .. } => Class::Conflict,
            Error::LeaseOver { .. } | Error::Fenced { .. } | Error::NotAllowed { .. } => {
                Class::NotAllowed
            }
            Error::HalfWay { source, .. } => source.class(),
            Error::Lost { .. } => Class::Lost,
            Error::BadInput(_) | Error::Corrupt { .. } | Error::Stuck { .. } => Class::BadInput,
            Error::NotFound(_) => Class::NotFound,
            Error::Configuration { .. } => Class::Configuration,
            Error::Io { .. } | Error::Unreachable { .. } => Class::Unreachable,
            Error::Interrupted { .. } => Class::Interrupted,
            Error::Internal(_) => Class::Internal,
        }
    }

    /// The resource it is about.
    pub fn resource(&self) -> Option<&Resource> {
        match self {
            Error::Busy { place, .. }
            | Error::Timeout { place, .. }
            | Error::Reentry { place, .. }
            | Error::TooWeak { place, .. }
            | Error::Conflict { place, .. }
            | Error::Lost { place, .. } => Some(&place.resource),
            Error::Order { asked, .. } => Some(asked),
            Error::Interrupted { resource } | Error::Fenced { resource, .. } => Some(resource),
            _ => None,
        }
    }

    /// Who is in the way.
    pub fn holders(&self) -> &[Lease] {
        match self {
            Error::Busy { holders, .. } | Error::Timeout { holders, .. } => holders,
            _ => &[],
        }
    }

    /// Whether the same call may succeed a moment later.
    pub fn is_passing(&self) -> bool {
        match self {
            Error::Io { source, .. } => matches!(
                source.kind(),
                io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock
            ),
            Error::Unreachable { .. } => true,
            _ => false,
        }
    }
}

fn by(place: &Place, holders: &[Lease]) -> String {
    match holders {
        [] if place.is_nodes() => " by a program that speaks proper-lockfile".into(),
        [] if place.without_record().is_some() => " by a program that leaves no record".into(),
        [] => String::new(),
        [one] => format!(" by {}", one.owner),
        [one, rest @ ..] => format!(" by {} and {} more", one.owner, rest.len()),
    }
}
