//! The options of sessions and requests.

use std::time::Duration;

use serde_json::Value;
use tenure_core::{Asker, LeaseId, Mode, Owner, Resource, setters};

use super::asker;

/// The owner of a session, and the leases that count as held by it.
#[derive(Debug, Clone)]
#[non_exhaustive]
#[must_use]
pub struct SessionOptions {
    /// The owner the session works for.
    pub owner: Owner,
    /// The command that people see, or `None` for the command line of this process.
    pub command: Option<String>,
    /// Leases that count as held although the session did not take them.
    pub ancestors: Vec<OuterLease>,
}

impl SessionOptions {
    /// Returns the options of a session of this process with no outer leases.
    pub fn new(owner: Owner) -> Self {
        Self {
            owner,
            command: None,
            ancestors: Vec::new(),
        }
    }

    setters! {
        /// Sets the command that people see.
        with_command(command: impl Into<String>) => command = Some(command.into());
        /// Sets the leases that count as held although the session did not take them.
        with_ancestors(ancestors: Vec<OuterLease>) => ancestors = ancestors;
    }

    /// Returns the asker, for locks that are in no store, such as those of documents.
    pub fn asker(&self) -> Asker {
        asker::asker(self.owner.clone(), self.command.clone(), None)
    }
}

/// A lease of a `tenure run` around a session. The session counts it as held although it did not
/// take it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OuterLease {
    /// The address of the store it is in.
    pub store: String,
    /// The resource that is held.
    pub resource: Resource,
    /// The mode it is held in.
    pub mode: Mode,
    /// The id of the lease.
    pub lease: LeaseId,
}

impl OuterLease {
    /// Returns the lease of a run around a session.
    pub fn new(store: impl Into<String>, resource: Resource, mode: Mode, lease: LeaseId) -> Self {
        let store = store.into();
        Self {
            store,
            resource,
            mode,
            lease,
        }
    }
}

/// The options of a request for a lock.
///
/// ```
/// # use std::time::Duration;
/// let options = tenure::Options::default()
///     .with_wait(Duration::from_secs(30))
///     .with_purpose("nightly build");
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
#[must_use]
pub struct Options {
    /// The longest wait. Zero does not wait; `None` waits as long as the settings say.
    pub wait: Option<Duration>,
    /// The reason, for people.
    pub purpose: Option<String>,
    /// Any JSON that is kept with the lease.
    pub metadata: Option<Value>,
    /// The number of holders of the resource at once, for this request; `None` leaves it to the
    /// modes. It applies to every lock of a set. Not all stores support it.
    pub capacity: Option<u32>,
    /// True if the lease will outlast the session.
    pub(crate) lasting: bool,
}

impl Options {
    setters! {
        /// Sets the longest wait. Zero does not wait.
        with_wait(wait: Duration) => wait = Some(wait);
        /// Sets the reason, for people.
        with_purpose(purpose: impl Into<String>) => purpose = Some(purpose.into());
        /// Sets JSON that is kept with the lease.
        with_metadata(metadata: Value) => metadata = Some(metadata);
        /// Sets the number of holders of the resource at once, for this request.
        with_capacity(capacity: u32) => capacity = Some(capacity);
    }
}
