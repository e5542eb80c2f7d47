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
    /// The number, chosen by the sender.
    pub id: u64,
    /// The command to carry out.
    pub command: Command,
}

/// One answer, with the number of its command.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Reply {
    /// The number of the command, or 0 for an answer without a command.
    pub id: u64,
    /// The answer to the command.
    pub answer: Answer,
}

/// The details of a request for a lock.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Notes {
    /// The purpose, as the record of the lease shows it.
    pub purpose: Option<String>,
    /// The metadata, which the store keeps as they are.
    pub metadata: Option<Value>,
    /// The number of holders there may be at once.
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
        /// The resource to lock.
        resource: Resource,
        /// The mode to lock it in.
        mode: Mode,
        /// The longest wait.
        wait: Duration,
        /// Purpose, metadata and capacity.
        notes: Notes,
    },
    /// Take a lock if no wait is needed.
    Try {
        /// The resource to lock.
        resource: Resource,
        /// The mode to lock it in.
        mode: Mode,
    },
    /// Take a set, waiting for it.
    AcquireMany {
        /// The resources and their modes.
        items: Vec<(Resource, Mode)>,
        /// The longest wait for the whole set.
        wait: Duration,
    },
    /// Take a set if no wait is needed.
    TryMany {
        /// The resources and their modes.
        items: Vec<(Resource, Mode)>,
    },
    /// Upgrade, waiting for it.
    Upgrade {
        /// The resource whose lock is upgraded.
        resource: Resource,
        /// The longest wait.
        wait: Duration,
    },
    /// Upgrade if no wait is needed.
    TryUpgrade {
        /// The resource whose lock is upgraded.
        resource: Resource,
    },
    /// Go back to upgradeable.
    Downgrade {
        /// The resource whose lock is downgraded.
        resource: Resource,
    },
    /// Release a lock.
    Release {
        /// The resource whose lock is released.
        resource: Resource,
    },
    /// List the leases of all holders.
    List,
    /// Read a number from a file and write it plus one, again and again, each time under the write
    /// lock.
    Count {
        /// The resource whose lock protects the file.
        resource: Resource,
        /// The file with the number.
        file: PathBuf,
        /// The number of times.
        times: u32,
    },
    /// Watch a lock; the answer comes when it is lost.
    Watch {
        /// The resource whose lock is watched.
        resource: Resource,
    },
    /// Carry out a command about leases that outlive their session.
    OnLease(LeaseCommand),
    /// Drop a command that is under way. That command is answered, the cancellation is not.
    Cancel {
        /// The number of the command.
        order: u64,
    },
    /// Panic in a task that holds every lock of the session. The agent lives on.
    Panic,
    /// Do nothing at all until the gate opens. For threads only; a process is stopped by a signal.
    Stop,
    /// Unwind the agent itself. For threads only; a process is killed by a signal.
    Crash,
    /// End the process at once, releasing nothing.
    Exit,
}

/// An answer of an agent.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The agent is there and waits for commands.
    Ready {
        /// The id of its process.
        pid: u32,
    },
    /// The session has begun.
    Opened {
        /// The id of the session.
        session: SessionId,
    },
    /// The locks are held.
    Granted {
        /// The leases that were granted.
        leases: Vec<Lease>,
    },
    /// A wait would be needed, or the session holds the lock already.
    NotAcquired,
    /// The lock is exclusive now.
    Upgraded {
        /// The new token of the lock.
        token: Token,
    },
    /// The lock is upgradeable again.
    Downgraded {
        /// The lease as it is now.
        lease: Box<Lease>,
    },
    /// A lease that outlives its session was looked up or changed.
    Changed {
        /// The lease as it is now.
        lease: Box<Lease>,
    },
    /// The command has a result, shown as by `--json`.
    Told {
        /// The result: a list, or a number.
        list: Value,
    },
    /// The lock that was watched is lost.
    Lost(Failure),
    /// The leases were listed.
    Listed {
        /// The leases of all holders.
        leases: Vec<Lease>,
    },
    /// The command is done.
    Done,
    /// The command was dropped before it was done.
    Cancelled,
    /// The command failed.
    Failed(Failure),
}

/// An error, as far as it matters to a test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The kind of the error.
    pub kind: Kind,
    /// The message of the error.
    pub message: String,
    /// The resources that the error names: the one asked for, then the one in the way.
    pub names: Vec<Resource>,
}

/// The errors that tests tell apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The lock is held, and was not waited for.
    Busy,
    /// The lock was held until the wait ran out.
    Timeout,
    /// The session itself holds or awaits the lock.
    Reentry,
    /// The session holds or awaits something that is ordered later.
    Order,
    /// The request closes a circle of requests that wait for each other.
    Deadlock,
    /// The lease is not in the state that is needed.
    Conflict,
    /// The lease is over.
    LeaseOver,
    /// The lease is another owner's, or only its session may end it, or the token is fenced.
    NotAllowed,
    /// There is no such lease or resource.
    NotFound,
    /// The request makes no sense.
    BadInput,
    /// The lock was taken away.
    Lost,
    /// Any other error.
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
