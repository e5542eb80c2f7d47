//! What every store does, and what only some can.

use std::future::Future;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::time::Duration;

use serde::Serialize;

use crate::{
    Lease, LeaseId, LeaseStore, Mode, Owner, Request, Resource, Result, SessionId, Timestamp,
    Token, UpgradeRequest,
};

/// The answer of a store, to be awaited.
pub type Reply<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// What a store can do beyond exclusion, timeouts, cancellation and listing of holders,
/// which every store can.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// Waiters are served strictly in the order they came, across processes too.
    pub strict_order: bool,
    /// The queue can be listed.
    pub lists_waiters: bool,
    /// Other processes meet in this store.
    pub cross_process: bool,
    /// How often a holder makes sure that it still holds, or None where nothing can take it away.
    pub check_every: Option<Duration>,
    /// How long the lease of a guard lasts without a renewal, or None where it lasts for as
    /// long as its session.
    pub ttl: Option<Duration>,
    /// A request may say how many can hold a resource at once.
    pub slots: bool,
}

/// Which leases to list.
#[derive(Debug, Clone, Default)]
pub struct Query {
    /// Only this resource.
    pub resource: Option<Resource>,
    /// Only resources whose canonical spelling begins so.
    pub prefix: Option<String>,
    /// Only leases of this owner.
    pub owner: Option<Owner>,
    /// At most this many; a store may answer fewer with a cursor.
    pub limit: Option<usize>,
    /// Only what comes after this cursor, as an earlier page gave it.
    pub after: Option<String>,
}

/// A queued request, as JSON shows it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Waiting {
    /// The id the lease will have.
    pub waiter: LeaseId,
    /// What is waited for.
    pub resource: Resource,
    /// How.
    pub mode: Mode,
    /// Who waits.
    pub owner: Owner,
    /// Since when.
    pub since: Timestamp,
    /// Until when.
    pub deadline: Option<Timestamp>,
    /// Place in the line, from 1.
    pub position: usize,
    /// Why it is not granted now, in words.
    pub reason: String,
    /// The leases in its way.
    pub blocked_by: Vec<LeaseId>,
}

/// A page of what is held and who waits, as `ls --json` shows it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Listing {
    /// What is held, sorted by resource.
    pub held: Vec<Lease>,
    /// Where the next page of `held` begins.
    pub next: Option<String>,
    /// Who waits; None where the store cannot know.
    pub waiting: Option<Vec<Waiting>>,
    /// Where the next page of `waiting` begins.
    pub waiting_next: Option<String>,
}

/// One thing a store found when it looked itself over, for a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Examined {
    /// What was looked at, in a word or two.
    pub name: &'static str,
    /// Whether it is as it should be.
    pub good: bool,
    /// What was found.
    pub text: String,
    /// What to do about it, where it is not.
    pub remedy: Option<String>,
}

/// What was found in one place; bad if something is to be done about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    text: String,
    remedy: Option<String>,
}

impl Found {
    /// It is as it should be.
    pub fn good(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            remedy: None,
        }
    }

    /// It is not, and this is to be done.
    pub fn bad(text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            remedy: Some(remedy.into()),
        }
    }

    /// As it is told of what was looked at.
    pub fn of(self, name: &'static str) -> Examined {
        Examined {
            name,
            good: self.remedy.is_none(),
            text: self.text,
            remedy: self.remedy,
        }
    }
}

/// Where leases live.
///
/// A store applies [`decide`](crate::decide::decide) or the kernel's locks to single
/// resources. Sets, order, re-entry, deadlines and retries are the keeper's.
///
/// # Rules for implementations
///
/// - Dropping the future of `acquire` or `upgrade` leaves neither a lock nor a waiter:
///   a grant in the same instant is given back before `drop` returns, or by the store itself.
/// - `abandon` never blocks for long and never fails: it is called from `Drop`.
pub trait Store: Send + Sync {
    /// The address it can be opened with again.
    fn url(&self) -> &str;

    /// Where a resource lives in it, for messages: a path, table or key.
    fn place_of(&self, resource: &Resource) -> String;

    /// What it can do.
    fn capabilities(&self) -> Capabilities;

    /// Takes the lock if that needs no waiting.
    fn try_acquire<'a>(&'a self, request: &'a Request) -> Reply<'a, Option<Lease>>;

    /// Waits for the lock for as long as the future lives.
    fn acquire<'a>(&'a self, request: &'a Request) -> Reply<'a, Lease>;

    /// Makes an upgradeable lease exclusive if that needs no waiting; None if it does.
    fn try_upgrade<'a>(&'a self, lease: &'a LeaseId) -> Reply<'a, Option<Token>>;

    /// Waits until an upgradeable lease is exclusive; dropped, the lease is as before.
    fn upgrade<'a>(&'a self, request: &'a UpgradeRequest) -> Reply<'a, Token>;

    /// Makes an upgraded lease upgradeable again.
    fn downgrade<'a>(&'a self, lease: &'a LeaseId) -> Reply<'a, Mode>;

    /// Proves that the lease is still held and says so to others. How long it lasts from the
    /// moment this was asked, or None where it lasts for as long as its session.
    fn renew<'a>(&'a self, lease: &'a LeaseId) -> Reply<'a, Option<Duration>>;

    /// Ends the lease.
    fn release<'a>(&'a self, lease: &'a LeaseId) -> Reply<'a, ()>;

    /// Ends the lease from `Drop`, as far as it can.
    fn abandon(&self, lease: &LeaseId);

    /// Lists what is held and who waits, without making anything seem busy.
    fn list<'a>(&'a self, query: &'a Query) -> Reply<'a, Listing>;

    /// The current token of a resource: that of its last exclusive grant, zero if there was none.
    fn token<'a>(&'a self, resource: &'a Resource) -> Reply<'a, Token>;

    /// Looks itself over, for `tenure doctor`, and changes nothing. It may read all there is. A
    /// part that cannot be looked at is found to be bad; the others are looked at all the same.
    fn examine(&self) -> Reply<'_, Vec<Examined>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// Ends a session that holds nothing any more, as far as it can.
    fn end_session(&self, _session: &SessionId) {}

    /// The same store with what only leases of their own need; None where every lease ends with
    /// its session.
    fn leases(&self) -> Option<&dyn LeaseStore> {
        None
    }

    /// A descriptor that keeps the lease held for as long as any process has it open,
    /// where the store has such a thing.
    fn descriptor(&self, lease: &LeaseId) -> Result<Option<OwnedFd>>;
}
