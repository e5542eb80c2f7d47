//! The options of sessions and requests.

use std::time::Duration;

use serde_json::Value;
use tenure_core::{Asker, LeaseId, Mode, Owner, Resource};

use super::asker;

/// The owner of a session, and what counts as held by it.
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

    /// Sets the command that people see.
    pub fn with_command(mut self, command: impl Into<String>) -> Self {
        self.command = Some(command.into());
        self
    }

    /// Sets the leases that count as held although the session did not take them.
    pub fn with_ancestors(mut self, ancestors: Vec<OuterLease>) -> Self {
        self.ancestors = ancestors;
        self
    }

    /// Returns the asker, for locks that are in no store, such as those of documents.
    pub fn asker(&self) -> Asker {
        asker::asker(self.owner.clone(), self.command.clone())
    }
}

/// A lease of a `tenure run` around a session. The session counts it as held although it did not
/// take it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OuterLease {
    /// The address of the store it is in.
    pub store: String,
    /// The resource.
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
    /// The number of holders of the resource at once, for this request; `None` leaves it to the modes. It
    /// applies to every lock of a set. Not all stores support it.
    pub capacity: Option<u32>,
}

impl Options {
    /// Sets how long to wait. Zero does not wait.
    pub fn with_wait(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    /// Sets the reason, for people.
    pub fn with_purpose(mut self, purpose: impl Into<String>) -> Self {
        self.purpose = Some(purpose.into());
        self
    }

    /// Sets JSON that is kept with the lease.
    pub fn with_metadata(mut self, metadata: Value) -> Self {
        self.metadata = Some(metadata);
        self
    }

    /// Sets how many may hold the resource at once, for this request.
    pub fn with_capacity(mut self, capacity: u32) -> Self {
        self.capacity = Some(capacity);
        self
    }
}
