//! The errors of locks and records, those that all features share, and the class of each.
//!
//! The command maps a [`Class`] to an exit code and the server maps it to a status; neither
//! matches on variants for that. Each message says what happened and where;
//! [`Error::remedy`] says what to do next. A feature above has an enum of its own beside its
//! operations, which is a [`Fault`].

mod advice;
mod context;
mod fault;
mod remedy;

use std::any::Any;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::circles::Circle;
use crate::{Lease, LeaseId, Mode, Resource, duration};

pub use advice::{Part, Remedy, Words};
pub use context::LockContext;
pub use fault::{Claimed, Fault, Sequence};

/// A result with [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The kind of a failure, for exit codes and statuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Class {
    /// Bad input or corrupt data.
    BadInput,
    /// There is no such thing.
    NotFound,
    /// The store cannot be reached or written.
    Unreachable,
    /// A mistake in Tenure itself.
    Internal,
    /// Another holder has the lock, or the wait was too long.
    Busy,
    /// The request contradicts the current state: order, re-entry, version.
    Conflict,
    /// Not the owner, fenced, or the lease is over.
    NotAllowed,
    /// The configuration is wrong, or the store cannot lock safely here.
    Configuration,
    /// The lock was lost while it was needed.
    Lost,
    /// Interrupted by a signal.
    Interrupted,
    /// The outcome is not known: the store failed before it answered.
    Unknown,
}

impl Class {
    /// Returns the word in `error.kind` of JSON.
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
            Class::Unknown => "unknown",
        }
    }
}

/// An error of Tenure.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Another holder has the lock, and the caller did not want to wait.
    #[error("{context} is held{}", by(context, holders))]
    Busy {
        /// The lock that was asked for.
        context: Box<LockContext>,
        /// The holders, as far as they are known.
        holders: Vec<Lease>,
    },
    /// Another holder had the lock for as long as the caller wanted to wait.
    #[error(
        "{}{context} was not free within {}; held{}",
        context.words_of_timeout(), duration::show(*limit), by(context, holders)
    )]
    Timeout {
        /// The lock that was asked for.
        context: Box<LockContext>,
        /// The time that the caller waited.
        waited: Duration,
        /// The time that the caller allowed.
        limit: Duration,
        /// The number of times that the store was asked.
        attempts: u32,
        /// The holders, as far as they are known.
        holders: Vec<Lease>,
    },
    /// The session already holds or waits for the resource.
    #[error("{context} is held by this session already, as lease {lease}")]
    Reentry {
        /// The lock that was asked for.
        context: Box<LockContext>,
        /// The lease in the way.
        lease: LeaseId,
    },
    /// The session holds a lock that must be taken after this one.
    #[error("{asked} must be taken before {held}, which this session holds")]
    Order {
        /// The resource that was asked for.
        asked: Resource,
        /// The resource that is held and comes later.
        held: Resource,
    },
    /// The request closes a circle of requests that wait for each other.
    #[error("nobody in this circle can go on: {circle}")]
    Deadlock {
        /// The lock that was asked for.
        context: Box<LockContext>,
        /// The circle that it closes.
        circle: Box<Circle>,
    },
    /// The mode in which an outer `run` holds the lock is too weak.
    #[error("the outer run holds {} for {held}, which is too weak for {}", context.resource, context.mode)]
    TooWeak {
        /// The lock that was asked for.
        context: Box<LockContext>,
        /// The mode in which the outer `run` holds it.
        held: Mode,
    },
    /// The request contradicts the current state.
    #[error("{problem}")]
    Conflict {
        /// The refused request and the reason.
        problem: String,
        /// The lock that was asked for, if it is about one.
        context: Option<Box<LockContext>>,
        /// The next step for the caller.
        remedy: Remedy,
    },
    /// A record is not at the version that the caller expects: another caller changed it.
    #[error("{record} has {actual}, not {expected}")]
    RecordChanged {
        /// The kind and id of the record.
        record: String,
        /// The version that the caller expects.
        expected: String,
        /// The state that is there.
        actual: String,
    },
    /// The change was made, but a later part of the call failed.
    #[error("{done}; but then: {source}")]
    HalfWay {
        /// The part that was done, and its consequence.
        done: String,
        /// The error of the later part.
        source: Box<Error>,
    },
    /// The lease is over: released, or taken away.
    #[error("lease {lease} is over: {reason}")]
    LeaseOver {
        /// The lease that is over.
        lease: LeaseId,
        /// The reason why it is over.
        reason: String,
    },
    /// The lock no longer protects anything: its proof is gone.
    #[error("{context} was lost: {reason}")]
    Lost {
        /// The lock that was held.
        context: Box<LockContext>,
        /// The reason for the loss.
        reason: String,
    },
    /// The caller may not do this: the lease belongs to another owner, or only its session can end
    /// it.
    #[error("{problem}")]
    NotAllowed {
        /// The refused request and the reason.
        problem: String,
        /// The next step for the caller.
        remedy: Remedy,
    },
    /// There is more than a store reads in one step.
    #[error("{what} is more than {limit} at once, which is not read in one go")]
    TooMany {
        /// The kind of items of which there are too many.
        what: String,
        /// The largest number that is read.
        limit: usize,
    },
    /// Input from outside is invalid.
    #[error("{0}")]
    BadInput(String),
    /// A file is corrupt.
    #[error("{path}: {problem}", path = path.display())]
    Corrupt {
        /// The corrupt file or table.
        path: PathBuf,
        /// The problem with it, in words.
        problem: String,
    },
    /// There is no such thing.
    #[error("{0}")]
    NotFound(String),
    /// The store never granted this resource.
    #[error("{resource} was never locked in {store}")]
    UnknownResource {
        /// The resource that was asked for.
        resource: Resource,
        /// The address of the store, without password.
        store: String,
    },
    /// The configuration is wrong, or the store cannot lock safely here.
    #[error("{problem}")]
    Configuration {
        /// The problem, in words.
        problem: String,
        /// The next step for the caller.
        remedy: Remedy,
    },
    /// The system refused a file operation.
    #[error("cannot {action} {path}: {source}", path = path.display())]
    Io {
        /// The action that failed, as a verb.
        action: &'static str,
        /// The path of the file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The server of a store cannot be reached, or turned us away for the moment.
    #[error("cannot use {store}: {problem}")]
    Unreachable {
        /// The address of the server, without password.
        store: String,
        /// The answer of the server, or why there was none.
        problem: String,
    },
    /// All connections for locks are in use, and none became free in time.
    #[error("all {limit} connections to {store} are in use, and none came back within {}", duration::show(*waited))]
    Exhausted {
        /// The address of the store.
        store: String,
        /// The largest number of connections.
        limit: usize,
        /// The time that the caller waited for one.
        waited: Duration,
    },
    /// A passing fault did not pass: it was tried as often as the settings allow.
    #[error("too many retries: it failed {attempts} times, the last time with: {last}")]
    TooManyRetries {
        /// The number of tries.
        attempts: u32,
        /// The error of the last try.
        #[source]
        last: Box<Error>,
    },
    /// Interrupted by a signal, or cancelled by the caller.
    #[error("interrupted while {act} {name}")]
    Interrupted {
        /// The action that was interrupted, such as "waiting for".
        act: &'static str,
        /// The resource that the caller waited for or worked on.
        resource: Resource,
        /// The name of the resource in messages.
        name: String,
    },
    /// The error of a feature above the locks.
    #[error("{0}")]
    Of(Box<dyn Fault>),
    /// A mistake in Tenure itself.
    #[error("internal error: {0}")]
    Internal(String),
}

impl Error {
    /// Makes an I/O error with the path it happened on.
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

    /// Makes an error of a wrong configuration, or of a store that cannot lock safely here.
    pub fn configuration(problem: impl Into<String>, remedy: impl Into<Remedy>) -> Self {
        let (problem, remedy) = (problem.into(), remedy.into());
        Error::Configuration { problem, remedy }
    }

    /// Makes an error of something that the caller may not do.
    pub fn not_allowed(problem: impl Into<String>, remedy: impl Into<Remedy>) -> Self {
        let (problem, remedy) = (problem.into(), remedy.into());
        Error::NotAllowed { problem, remedy }
    }

    /// Makes an error of a request that contradicts the current state.
    pub fn conflict(problem: impl Into<String>, remedy: impl Into<Remedy>) -> Self {
        let (problem, remedy) = (problem.into(), remedy.into());
        let context = None;
        Error::Conflict {
            problem,
            context,
            remedy,
        }
    }

    /// Makes an error of a corrupt file, or of a corrupt table.
    pub fn corrupt(path: impl Into<PathBuf>, problem: impl Into<String>) -> Self {
        let (path, problem) = (path.into(), problem.into());
        Error::Corrupt { path, problem }
    }

    /// Makes an error of a lease that is over, and says how it ended.
    pub fn over(lease: &LeaseId, reason: impl Into<String>) -> Self {
        Error::LeaseOver {
            lease: lease.clone(),
            reason: reason.into(),
        }
    }

    /// Makes an error of a lease that the store does not know, or no longer.
    pub fn not_held(lease: &LeaseId) -> Self {
        Self::over(lease, "it is not held in this store")
    }

    /// Makes an error of a lock that was lost, and says what happened to it.
    pub fn lost(context: Box<LockContext>, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Error::Lost { context, reason }
    }

    /// Makes an error of a wait that was cancelled.
    pub fn interrupted(resource: Resource) -> Self {
        let (act, name) = ("waiting for", resource.to_string());
        Error::Interrupted {
            act,
            resource,
            name,
        }
    }

    /// Makes an error of a lease that is not in the state that the request needs.
    pub fn unexpected(
        context: Box<LockContext>,
        expected: impl fmt::Display,
        actual: impl fmt::Display,
    ) -> Self {
        Error::Conflict {
            problem: format!("{context}: expected {expected}, but it is {actual}"),
            context: Some(context),
            remedy: Remedy::from("look at its state with: {ls}"),
        }
    }

    /// Returns the error of a feature, if it is one of this type.
    pub fn fault<F: Fault>(&self) -> Option<&F> {
        match self {
            Error::Of(fault) => (&**fault as &dyn Any).downcast_ref(),
            _ => None,
        }
    }

    /// Returns the class of the error.
    pub fn class(&self) -> Class {
        match self {
            Error::Busy { .. }
            | Error::Timeout { .. }
            | Error::TooMany { .. }
            | Error::Exhausted { .. } => Class::Busy,
            Error::Reentry { .. }
            | Error::Order { .. }
            | Error::Deadlock { .. }
            | Error::TooWeak { .. }
            | Error::RecordChanged { .. }
            | Error::Conflict { .. } => Class::Conflict,
            Error::LeaseOver { .. } | Error::NotAllowed { .. } => Class::NotAllowed,
            Error::HalfWay { source: cause, .. } | Error::TooManyRetries { last: cause, .. } => {
                cause.class()
            }
            Error::Lost { .. } => Class::Lost,
            Error::BadInput(_) | Error::Corrupt { .. } => Class::BadInput,
            Error::NotFound(_) | Error::UnknownResource { .. } => Class::NotFound,
            Error::Configuration { .. } => Class::Configuration,
            Error::Io { .. } | Error::Unreachable { .. } => Class::Unreachable,
            Error::Interrupted { .. } => Class::Interrupted,
            Error::Of(fault) => fault.class(),
            Error::Internal(_) => Class::Internal,
        }
    }

    /// Returns the resource it is about, if there is one.
    pub fn resource(&self) -> Option<&Resource> {
        match self {
            Error::Busy { context, .. }
            | Error::Timeout { context, .. }
            | Error::Reentry { context, .. }
            | Error::TooWeak { context, .. }
            | Error::Deadlock { context, .. }
            | Error::Conflict {
                context: Some(context),
                ..
            }
            | Error::Lost { context, .. } => Some(&context.resource),
            Error::Order { asked, .. } => Some(asked),
            Error::Interrupted { resource, .. } | Error::UnknownResource { resource, .. } => {
                Some(resource)
            }
            Error::Of(fault) => fault.resource(),
            _ => None,
        }
    }

    /// Returns the holders in the way, as far as they are known.
    pub fn holders(&self) -> &[Lease] {
        match self {
            Error::Busy { holders, .. } | Error::Timeout { holders, .. } => holders,
            _ => &[],
        }
    }

    /// Returns true if the same call may succeed a moment later.
    pub fn is_passing(&self) -> bool {
        match self {
            Error::Io { source, .. } => matches!(
                source.kind(),
                io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock
            ),
            Error::Unreachable { .. } => true,
            Error::TooManyRetries { last, .. } => last.is_passing(),
            _ => false,
        }
    }

    /// Returns this error as that of the last of several tries. After one try it stays as it is.
    pub fn after(self, attempts: u32) -> Self {
        match attempts {
            0 | 1 => self,
            _ => Error::TooManyRetries {
                attempts,
                last: Box::new(self),
            },
        }
    }
}

fn by(context: &LockContext, holders: &[Lease]) -> String {
    match holders {
        [] if context.is_nodes() => " by a program that speaks proper-lockfile".into(),
        [] if context.without_record().is_some() => " by a program that leaves no record".into(),
        [] => String::new(),
        [one] => format!(" by {}", one.owner),
        [one, rest @ ..] => format!(" by {} and {} more", one.owner, rest.len()),
    }
}
