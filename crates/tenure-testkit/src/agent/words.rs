//! The commands and answers of an agent: one JSON object a line.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tenure::{Error, Lease, Mode, Resource, SessionId, Token};

use super::lease_words::LeaseCommand;

/// One command, with the number its answer will carry.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Order {
    /// The number.
    pub id: u64,
    /// The command.
    pub command: Command,
}

/// One answer, with the number of its command.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Reply {
    /// The number of the command, or 0 for what nobody asked for.
    pub id: u64,
    /// The answer.
    pub answer: Answer,
}

/// How a lock is asked for.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Notes {
    /// The purpose.
    pub purpose: Option<String>,
    /// The metadata.
    pub metadata: Option<Value>,
    /// How many may hold it at once.
    pub capacity: Option<u32>,
}

/// A command. It names a lock by its resource, since a session has each lock at most once.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// Begin a session; the one before it ends with everything it holds and awaits.
    Open {
        /// The owner of the session.
        owner: String,
    },
    /// Take a lock, waiting for it.
    Acquire {
        /// The resource.
        resource: Resource,
        /// The mode.
        mode: Mode,
        /// How long to wait.
        wait: Duration,
        /// Purpose, metadata and capacity.
        notes: Notes,
    },
    /// Take a lock if that needs no waiting.
    Try {
        /// The resource.
        resource: Resource,
        /// The mode.
        mode: Mode,
    },
    /// Take a set, waiting for it.
    AcquireMany {
        /// The resources and their modes.
        items: Vec<(Resource, Mode)>,
        /// How long to wait for all of it.
        wait: Duration,
    },
    /// Take a set if that needs no waiting.
    TryMany {
        /// The resources and their modes.
        items: Vec<(Resource, Mode)>,
    },
    /// Upgrade, waiting for it.
    Upgrade {
        /// The resource.
        resource: Resource,
        /// How long to wait.
        wait: Duration,
    },
    /// Upgrade if that needs no waiting.
    TryUpgrade {
        /// The resource.
        resource: Resource,
    },
    /// Go back to upgradeable.
    Downgrade {
        /// The resource.
        resource: Resource,
    },
    /// Release a lock.
    Release {
        /// The resource.
        resource: Resource,
    },
    /// List what is held.
    List,
    /// Again and again under the write lock: read a number from a file and write it plus one.
    Count {
        /// The lock.
        resource: Resource,
        /// The file.
        file: PathBuf,
        /// How often.
        times: u32,
    },
    /// Watch a lock; answered when it is lost.
    Watch {
        /// The resource.
        resource: Resource,
    },
    /// Do something about leases of their own.
    OnLease(LeaseCommand),
    /// Drop a command that is under way. It answers, the cancellation does not.
    Cancel {
        /// The number of the command.
        order: u64,
    },
    /// Panic in a task that holds every lock of the session. The agent lives on.
    Panic,
    /// Do nothing at all until the gate opens. Threads only; a process is stopped by a signal.
    Stop,
    /// Unwind the agent itself. Threads only; a process is killed by a signal.
    Crash,
    /// End the process at once, releasing nothing.
    Exit,
}

/// An answer of an agent.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// It is there and waits for commands.
    Ready {
        /// Its process.
        pid: u32,
    },
    /// The session has begun.
    Opened {
        /// Its id.
        session: SessionId,
    },
    /// The locks are held.
    Granted {
        /// As these leases.
        leases: Vec<Lease>,
    },
    /// It would have to wait, or the session holds it already.
    NotAcquired,
    /// The lock is exclusive now.
    Upgraded {
        /// Its new token.
        token: Token,
    },
    /// The lock is upgradeable again.
    Downgraded {
        /// The lease as it is now.
        lease: Box<Lease>,
    },
    /// A lease of its own was looked up or changed.
    Changed {
        /// The lease as it is now.
        lease: Box<Lease>,
    },
    /// What was read, as `--json` shows it.
    Told {
        /// The list.
        list: Value,
    },
    /// The lock that was watched is lost.
    Lost(Failure),
    /// What is held.
    Listed {
        /// By anyone.
        leases: Vec<Lease>,
    },
    /// It is done.
    Done,
    /// The command was dropped before it was done.
    Cancelled,
    /// It failed.
    Failed(Failure),
}

/// An error, as far as it matters to a test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The kind of the error.
    pub kind: Kind,
    /// Its message.
    pub message: String,
    /// What it names: the resource asked for, then the one in the way.
    pub names: Vec<Resource>,
}

/// The errors that tests tell apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Held, and not waited for.
    Busy,
    /// Held for as long as was waited.
    Timeout,
    /// Held or awaited by the session itself.
    Reentry,
    /// Something later is held or awaited.
    Order,
    /// It closes a circle of requests that wait for each other.
    Deadlock,
    /// The lease is not in the state that is needed.
    Conflict,
    /// The lease is over.
    LeaseOver,
    /// Another's lease, one that only its session ends, or a token that is fenced.
    NotAllowed,
    /// There is no such lease or resource.
    NotFound,
    /// What was asked makes no sense.
    BadInput,
    /// The lock was taken away.
    Lost,
    /// Anything else.
    Other,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let kind = match &error {
            Error::Busy { .. } => Kind::Busy,
            Error::Timeout { .. } => Kind::Timeout,
            Error::Reentry { .. } => Kind::Reentry,
            Error::Order { .. } => Kind::Order,
            Error::Deadlock { .. } => Kind::Deadlock,
            Error::Conflict { .. } => Kind::Conflict,
            Error::LeaseOver { .. } => Kind::LeaseOver,
            Error::NotAllowed { .. } => Kind::NotAllowed,
            Error::NotFound(_) | Error::UnknownResource { .. } => Kind::NotFound,
            Error::BadInput(_) => Kind::BadInput,
            Error::Lost { .. } => Kind::Lost,
            _ => Kind::Other,
        };
        let mut names: Vec<Resource> = error.resource().cloned().into_iter().collect();
        if let Error::Order { held, .. } = &error {
            names.push(held.clone());
        }
        Failure {
            kind,
            message: error.to_string(),
            names,
        }
    }
}
