//! The [`Store`] trait, and the types of its questions and answers.

use std::collections::BTreeSet;
use std::future::Future;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{
    Lease, LeaseId, LeaseStore, LockContext, Mode, Owner, RecordStore, Remedy, Request, Resource,
    Result, SessionId, Timestamp, Token, UpgradeRequest, setters,
};

/// A future with the answer of a store.
pub type Reply<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// The abilities of a store beyond exclusion, timeouts, cancellation and the listing of holders,
/// which every store has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// The store serves waiters strictly in order of arrival, across processes too.
    pub strict_order: bool,
    /// The store can list its waiters.
    pub lists_waiters: bool,
    /// Several processes can share this store.
    pub cross_process: bool,
    /// The interval at which a holder checks that it still holds, or `None` if nothing can take a
    /// lock away.
    pub check_every: Option<Duration>,
    /// The time that the lease of a guard lasts without a renewal, or `None` if it lasts as long as
    /// its session.
    pub ttl: Option<Duration>,
    /// A request may state how many can hold a resource at once.
    pub slots: bool,
    /// The store itself tries again after passing faults, as only it knows what a fault left
    /// behind. Otherwise the keeper does.
    pub retries: bool,
}

/// The selection of leases to list.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
#[must_use]
pub struct Query {
    /// Only this resource.
    pub resource: Option<Resource>,
    /// Only resources whose canonical spelling starts with this.
    pub prefix: Option<String>,
    /// Only leases of this owner.
    pub owner: Option<Owner>,
    /// Only leases of these owners.
    pub owners: Option<BTreeSet<Owner>>,
    /// At most this many. A store may return fewer, with a cursor.
    pub limit: Option<usize>,
    /// Only what comes after this cursor, which an earlier page returned.
    pub after: Option<String>,
    /// Only leases: the queues are not read, and `waiting` is empty.
    pub held_only: bool,
}

impl Query {
    setters! {
        /// Lists this resource only.
        with_resource(resource: Resource) => resource = Some(resource);
        /// Lists resources only whose canonical spelling starts with this.
        with_prefix(prefix: impl Into<String>) => prefix = Some(prefix.into());
        /// Lists leases of this owner only.
        with_owner(owner: Owner) => owner = Some(owner);
        /// Lists leases of these owners only.
        with_owners(owners: impl IntoIterator<Item = Owner>) => owners = Some(owners.into_iter().collect());
        /// Lists at most this many.
        with_limit(limit: usize) => limit = Some(limit);
        /// Lists only what comes after this cursor, which an earlier page returned.
        with_after(cursor: impl Into<String>) => after = Some(cursor.into());
    }

    /// Lists leases only, without the queues.
    pub fn held_only(mut self) -> Self {
        self.held_only = true;
        self
    }
}

/// A queued request, as JSON shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Waiting {
    /// The id the lease will have.
    pub waiter: LeaseId,
    /// The resource it waits for.
    pub resource: Resource,
    /// The mode it asks for.
    pub mode: Mode,
    /// The owner that waits.
    pub owner: Owner,
    /// The time when it joined the line.
    pub since: Timestamp,
    /// The time when it gives up.
    pub deadline: Option<Timestamp>,
    /// Its place in the line, from 1.
    pub position: usize,
    /// The reason why it is not granted now, in words.
    pub reason: String,
    /// The leases and waiters that block it.
    pub blocked_by: Vec<LeaseId>,
}

/// A page of what is held and who waits, as `ls --json` shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Listing {
    /// The leases, sorted by resource.
    pub held: Vec<Lease>,
    /// The start of the next page of `held`, if there is one.
    pub next: Option<String>,
    /// The waiters, or `None` if the store cannot know them.
    pub waiting: Option<Vec<Waiting>>,
    /// The start of the next page of `waiting`, if there is one.
    pub waiting_next: Option<String>,
}

impl Listing {
    /// Returns a page of leases, in a store that cannot know its waiters.
    pub fn new(held: Vec<Lease>, next: Option<String>) -> Self {
        Self {
            held,
            next,
            waiting: None,
            waiting_next: None,
        }
    }

    /// Adds a page of waiters.
    #[must_use]
    pub fn with_waiting(mut self, waiting: Vec<Waiting>, next: Option<String>) -> Self {
        self.waiting = Some(waiting);
        self.waiting_next = next;
        self
    }
}

/// One result of [`Store::examine`], for a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Examined {
    /// The subject of the examination, in a word or two.
    pub name: &'static str,
    /// True if nothing has to be done.
    #[serde(rename = "ok")]
    pub good: bool,
    /// The result, in words.
    #[serde(rename = "detail")]
    pub text: String,
    /// The remedy, if something has to be done.
    pub remedy: Option<Remedy>,
}

/// The result of an examination; bad if it has a remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    text: String,
    remedy: Option<Remedy>,
}

impl Found {
    /// Returns the result of a part with which nothing has to be done.
    pub fn good(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            remedy: None,
        }
    }

    /// Returns the result of a part with which something is wrong; `remedy` says what to do.
    pub fn bad(text: impl Into<String>, remedy: impl Into<Remedy>) -> Self {
        Self {
            text: text.into(),
            remedy: Some(remedy.into()),
        }
    }

    /// Makes the result for the part called `name`.
    pub fn of(self, name: &'static str) -> Examined {
        Examined {
            name,
            good: self.remedy.is_none(),
            text: self.text,
            remedy: self.remedy,
        }
    }
}

/// A place where leases are kept.
///
/// A store applies [`decide`](crate::decide::decide) or the kernel's locks to single
/// resources. The keeper does sets, order, re-entry, deadlines and retries.
///
/// # Rules for implementations
///
/// - Dropping the future of `acquire` or `upgrade` leaves neither a lock nor a waiter:
///   a grant in the same instant is released before `drop` returns, or later by the store.
/// - `abandon` never blocks for long and never fails: it is called from `Drop`.
pub trait Store: Send + Sync {
    /// Returns the address that opens this store again.
    fn url(&self) -> &str;

    /// Returns the place where the store keeps a resource, for messages: a path, table or key.
    fn location_of(&self, resource: &Resource) -> String;

    /// Returns the abilities of this store.
    fn capabilities(&self) -> Capabilities;

    /// Takes the lock, waiting for it as [`Request::wait`] says. Returns `None` if it is not free,
    /// or did not become free in time.
    fn acquire<'a>(&'a self, request: &'a Request) -> Reply<'a, Option<Lease>>;

    /// Makes an upgradeable lease exclusive, waiting for that as [`UpgradeRequest::wait`] says.
    /// Returns `None` if that is not possible now, or was not in time. If the future is dropped,
    /// the lease is as before.
    fn upgrade<'a>(&'a self, request: &'a UpgradeRequest) -> Reply<'a, Option<Token>>;

    /// Makes an upgraded lease upgradeable again.
    fn downgrade<'a>(&'a self, lease: &'a LeaseId) -> Reply<'a, Mode>;

    /// Proves that the lease is still held, and records that for others. Returns how long the
    /// lease lasts from the moment of the call, or `None` if it lasts as long as its session.
    fn renew<'a>(&'a self, lease: &'a LeaseId) -> Reply<'a, Option<Duration>>;

    /// Ends the lease.
    fn release<'a>(&'a self, lease: &'a LeaseId) -> Reply<'a, ()>;

    /// Ends the lease from `Drop`. Failures are ignored.
    fn abandon(&self, lease: &LeaseId);

    /// Lists leases and waiters. Takes no lock that could make another request busy.
    fn list<'a>(&'a self, query: &'a Query) -> Reply<'a, Listing>;

    /// Returns the place in line, from 1, of the request for a lease, or `None` if it does not wait
    /// or the store cannot know.
    fn position<'a>(
        &'a self,
        _resource: &'a Resource,
        _lease: &'a LeaseId,
    ) -> Reply<'a, Option<usize>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Returns the token of the last exclusive grant of a resource, zero if it was only ever
    /// shared, or `None` if the store never granted it.
    fn token<'a>(&'a self, resource: &'a Resource) -> Reply<'a, Option<Token>>;

    /// Examines the store for `tenure doctor` and changes nothing. It may read everything. A part
    /// that cannot be examined is reported as bad, and the other parts are still examined.
    fn examine(&self) -> Reply<'_, Vec<Examined>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// Ends a session that holds nothing any more. Failures are ignored.
    fn end_session(&self, _session: &SessionId) {}

    /// Returns the description of a lock in this store, for errors about it.
    fn context_of(&self, resource: &Resource, mode: Mode) -> Box<LockContext> {
        let location = self.location_of(resource);
        let context = LockContext::new(resource.clone(), mode, self.url(), location);
        Box::new(context)
    }

    /// Returns the calls for leases that outlive their session, or `None` if every lease of this
    /// store ends with its session.
    fn leases(&self) -> Option<&dyn LeaseStore> {
        None
    }

    /// Returns the door to records, or `None` if this store keeps none.
    fn records(&self) -> Option<&dyn RecordStore> {
        None
    }

    /// Returns a descriptor that keeps the lease held for as long as any process has it open,
    /// or `None` if the store has no such descriptors.
    fn descriptor(&self, lease: &LeaseId) -> Result<Option<OwnedFd>>;
}
