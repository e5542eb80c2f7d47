//! What a store does that has leases of their own: grants that outlive who took them.
//!
//! A lease-bound lease begins like any other, bound to the session that asks. Only when the
//! whole set is there does [`LeaseStore::bind`] make it lease-bound, in one step for all
//! of it: then its time begins to run, and whoever knows its id may renew and release it.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use crate::audit::{AuditPage, AuditQuery};
use crate::{
    Asker, IdempotenceKey, Lease, LeaseId, LeaseState, Mode, Owner, Reply, Resource, SessionId,
    duration,
};

/// The time to live of a lease nobody says anything else about.
pub const TTL_DEFAULT: Duration = Duration::from_secs(15 * 60);
/// The shortest time to live.
pub const TTL_MIN: Duration = Duration::from_secs(1);
/// The longest time to live.
pub const TTL_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// A heartbeat older than this, or than the time to live if that is shorter, is old.
pub const GRACE_MAX: Duration = Duration::from_secs(15);
/// How long a key is remembered.
pub const KEY_KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// How old a heartbeat may get before the lease can be recovered.
pub fn grace(ttl: Duration) -> Duration {
    ttl.min(GRACE_MAX)
}

/// What a key stands for: asked again with the same, it gets the same leases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keyed {
    /// The key, as the caller chose it.
    pub key: IdempotenceKey,
    /// For whom. Every owner has keys of its own.
    pub owner: Owner,
    /// What is asked for, spelled so that the same request is spelled the same.
    pub request: String,
    /// Who asks now.
    pub asker: Arc<Asker>,
}

/// What a store knows under a key.
#[derive(Debug, Clone, PartialEq)]
pub enum KeyState {
    /// Nothing yet: the asker has it now, until it binds the leases or its session ends.
    Yours,
    /// Another session that is alive is asking under it.
    Taken(SessionId),
    /// The same was asked before, and this is what it got. All of it is still held.
    Done(Vec<Lease>),
    /// Something else was asked under it, or what it got is over.
    Conflict(String),
}

/// Why a lease that looks stale was recovered, or was not.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// The lease.
    #[serde(flatten)]
    pub lease: Lease,
    /// Its time is over; for a session-bound lease, its session is proved dead.
    pub expired: bool,
    /// Its heartbeat is older than the grace period.
    pub heartbeat_old: bool,
    /// The active job that claims it.
    pub claimed_by: Option<String>,
    /// All conditions hold.
    pub recoverable: bool,
    /// It was recovered by this very call.
    pub recovered: bool,
    /// The same for people: which conditions hold, and which do not.
    pub reason: String,
}

/// What is known of a lease whose time is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stale {
    /// How long it has been over.
    pub expired: Duration,
    /// How old its heartbeat is.
    pub heartbeat: Duration,
    /// How old that may be.
    pub grace: Duration,
    /// The active job that claims it.
    pub claimed_by: Option<String>,
}

impl Finding {
    /// Which conditions hold for a lease whose time is over.
    pub fn stale(lease: &Lease, stale: Stale) -> Self {
        let Stale {
            expired,
            heartbeat,
            grace,
            claimed_by,
        } = stale;
        let heartbeat_old = heartbeat >= grace;
        let (age, limit) = (duration::show(heartbeat), duration::show(grace));
        let mut parts = vec![format!("expired {} ago", duration::show(expired))];
        parts.push(match heartbeat_old {
            true => format!("heartbeat {age} ago, older than {limit}"),
            false => format!("but its heartbeat is {age} old, not yet {limit}"),
        });
        parts.push(match &claimed_by {
            None => "no active job claims it".into(),
            Some(by) => format!("but {by} claims it, which is alive"),
        });
        if lease.state == LeaseState::Revoking {
            parts.push("it is being broken".into());
        }
        Self {
            lease: lease.clone(),
            expired: true,
            heartbeat_old,
            recoverable: heartbeat_old && claimed_by.is_none(),
            claimed_by,
            recovered: false,
            reason: parts.join("; "),
        }
    }

    /// A lease that is over with who had it, for this reason.
    pub fn dead(lease: &Lease, reason: String) -> Self {
        Self {
            lease: lease.clone(),
            expired: true,
            heartbeat_old: true,
            claimed_by: None,
            recoverable: true,
            recovered: false,
            reason,
        }
    }
}

/// One page of what recovery found.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Findings {
    /// Every lease of the page that looks stale.
    pub leases: Vec<Finding>,
    /// Where the next page begins.
    pub next: Option<String>,
}

/// Whether recovery only looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recovery {
    /// Explains and changes nothing.
    DryRun,
    /// Recovers what can be.
    Real,
}

/// A store whose leases can outlive who took them.
///
/// Whether a caller may do what it asks (its owner, the binding) is checked by the keeper:
/// neither changes for as long as a lease is bound.
pub trait LeaseStore: Send + Sync {
    /// Looks a lease up.
    fn find<'a>(&'a self, lease: &'a LeaseId) -> Reply<'a, Option<Lease>>;

    /// Whether a guard has the lease in hand, in whatever process: then nobody else changes it by its id. Never
    /// where the leases of guards are bound to their sessions.
    fn has_guard<'a>(&'a self, _lease: &'a LeaseId) -> Reply<'a, bool> {
        Box::pin(std::future::ready(Ok(false)))
    }

    /// How a lease ended that is no longer there; None if there never was one.
    fn ended<'a>(&'a self, lease: &'a LeaseId) -> Reply<'a, Option<String>>;

    /// The lease-bound leases of a session, whoever is left of it.
    fn of_session<'a>(&'a self, session: &'a SessionId) -> Reply<'a, Vec<Lease>>;

    /// Makes held leases lease-bound, all or none, durably. Their time begins now. What was
    /// asked under a key is remembered in the same step.
    fn bind<'a>(
        &'a self,
        leases: &'a [LeaseId],
        ttl: Duration,
        keyed: Option<&'a Keyed>,
    ) -> Reply<'a, Vec<Lease>>;

    /// Begins to ask under a key.
    fn begin_key<'a>(&'a self, keyed: &'a Keyed) -> Reply<'a, KeyState>;

    /// Gives up a key that was never bound. Never fails: called when a request ends without leases.
    fn forget_key<'a>(&'a self, keyed: &'a Keyed) -> Reply<'a, ()>;

    /// Gives a lease-bound lease new time, its last time to live if None. An expired one
    /// too, as long as nobody took over. What a guard has in hand never gets less than it has.
    fn extend<'a>(&'a self, lease: &'a LeaseId, ttl: Option<Duration>) -> Reply<'a, Lease>;

    /// Takes away what is stale, or says why not; one page of leases.
    fn recover<'a>(
        &'a self,
        actor: &'a Owner,
        recovery: Recovery,
        after: Option<&'a str>,
    ) -> Reply<'a, Findings>;

    /// Begins to take a lease away from its holder: it is revoking until the holder
    /// confirms its stop, or ten seconds.
    fn break_lease<'a>(
        &'a self,
        lease: &'a LeaseId,
        actor: &'a Owner,
        reason: &'a str,
    ) -> Reply<'a, Lease>;

    /// Reads the record of what was done.
    fn audit<'a>(&'a self, query: &'a AuditQuery) -> Reply<'a, AuditPage>;

    /// Says that a lease is needed by whoever `claimant` names, for as long as the session
    /// lives. A claimed lease is not recovered.
    fn claim<'a>(
        &'a self,
        lease: &'a LeaseId,
        claimant: &'a str,
        asker: &'a Arc<Asker>,
    ) -> Reply<'a, ()>;

    /// Ends a claim.
    fn unclaim<'a>(&'a self, lease: &'a LeaseId, claimant: &'a str) -> Reply<'a, ()>;
}

/// Spells a request for a set so that the same set is spelled the same.
pub fn spell_request<'a>(
    set: impl IntoIterator<Item = &'a (Resource, Mode)>,
    ttl: Duration,
) -> String {
    let mut spelled = String::new();
    for (resource, mode) in set {
        spelled.push_str(resource.as_str());
        spelled.push('=');
        spelled.push_str(mode.as_str());
        spelled.push(' ');
    }
    spelled.push_str(&ttl.as_millis().to_string());
    spelled
}
