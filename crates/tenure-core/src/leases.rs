//! The [`LeaseStore`] trait: leases that outlive the session that took them.
//!
//! Such a lease starts like any other, bound to the session that asks. When the whole set is
//! granted, [`LeaseStore::bind`] makes all of it lease-bound in one step. Then its time to live
//! starts, and every caller that knows its id may renew and release it.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::audit::{AuditPage, AuditQuery};
use crate::circles::Circle;
use crate::{
    Asker, Error, IdempotenceKey, Lease, LeaseId, LeaseState, Mode, Owner, Reply, Resource, Result,
    SessionId, Timestamp, duration,
};

/// The default time to live.
pub const TTL_DEFAULT: Duration = Duration::from_secs(15 * 60);
/// The shortest time to live.
pub const TTL_MIN: Duration = Duration::from_secs(1);
/// The longest time to live.
pub const TTL_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// The longest grace period for a heartbeat where none is set; see [`grace`].
pub const GRACE_DEFAULT_MAX: Duration = Duration::from_secs(15);
/// The shortest grace period that can be set.
pub const STALE_GRACE_MIN: Duration = HEARTBEAT_MIN;
/// The longest grace period that can be set.
pub const STALE_GRACE_MAX: Duration = TTL_MAX;
/// The time that a store remembers an idempotence key.
pub const KEY_KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// The shortest time between two heartbeats.
pub const HEARTBEAT_MIN: Duration = Duration::from_secs(1);

/// Checks the interval of a holder's heartbeats. A lease that lasts for `ttl` must get at least
/// three heartbeats in that time, so that a failed one does not end it.
///
/// # Errors
///
/// `Configuration` if the interval is too short, or too long for the lease.
pub fn check_heartbeat(every: Duration, ttl: Option<Duration>) -> Result<()> {
    let shown = duration::show(every);
    let problem = match ttl {
        _ if every < HEARTBEAT_MIN => format!("a heartbeat every {shown} is too often"),
        Some(ttl) if every > ttl / 3 => format!(
            "a heartbeat every {shown} is too seldom for leases of {}",
            duration::show(ttl)
        ),
        _ => return Ok(()),
    };
    Err(Error::configuration(
        problem,
        "heartbeat is from 1s to a third of the time of a lease, which is 30s unless the \
                 address of a server says otherwise with ?lease_ttl=",
    ))
}

/// Checks a grace period that is set.
///
/// # Errors
///
/// `Configuration` if it is out of bounds.
pub fn check_stale_grace(grace: Duration) -> Result<()> {
    if (STALE_GRACE_MIN..=STALE_GRACE_MAX).contains(&grace) {
        return Ok(());
    }
    Err(Error::configuration(
        format!("bad grace period {}", duration::show(grace)),
        format!(
            "stale_grace is from {} to {}",
            duration::show(STALE_GRACE_MIN),
            duration::show(STALE_GRACE_MAX)
        ),
    ))
}

/// Returns the age that a heartbeat may reach before the lease can be recovered: the one that is
/// set, else the time to live, but 15 s at most.
pub fn grace(ttl: Duration, set: Option<Duration>) -> Duration {
    set.unwrap_or(ttl.min(GRACE_DEFAULT_MAX))
}

/// A request under an idempotence key: the same request under the same key gets the same leases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keyed {
    /// The key that the caller chose.
    pub key: IdempotenceKey,
    /// The owner of the key. Each owner has keys of its own.
    pub owner: Owner,
    /// The request in its one spelling; see [`spell_request`].
    pub request: String,
    /// The session that asks now.
    pub asker: Arc<Asker>,
}

/// The record that a store has under a key.
#[derive(Debug, Clone, PartialEq)]
pub enum KeyState {
    /// The key was free. The asker has it until it binds the leases or its session ends.
    Yours,
    /// Another session that is alive asks under this key.
    Taken(SessionId),
    /// The same request was granted before, and no other request took its leases. A store gives
    /// those that have [expired](KeyState::expired) new time in the transaction that answers so.
    Done(Vec<Lease>),
    /// The request was granted before, but not to the coding agent that asks now: that agent may
    /// not have these leases, and they get no new time.
    Foreign(Box<Lease>),
    /// The key was used for another request, or its leases are over.
    Conflict(String),
}

/// Spells the leases that a key got, for the row of the key.
pub fn spell_leases(leases: &[LeaseId]) -> Result<String> {
    let ids: Vec<&str> = leases.iter().map(LeaseId::as_str).collect();
    serde_json::to_string(&ids).map_err(|error| Error::Internal(error.to_string()))
}

impl KeyState {
    /// Returns the leases of the answer whose time is over. They get new time before the caller is
    /// told of them: the next request for what they hold would end them.
    pub fn expired(&self) -> Vec<LeaseId> {
        let KeyState::Done(leases) = self else {
            return Vec::new();
        };
        let expired = |lease: &&Lease| lease.state == LeaseState::Expired;
        let expired = leases.iter().filter(expired);
        expired.map(|lease| lease.lease.clone()).collect()
    }

    /// Replaces leases of the answer by the same leases with their new time.
    #[must_use]
    pub fn renewed(mut self, renewed: Vec<Lease>) -> Self {
        if let KeyState::Done(leases) = &mut self {
            for new in renewed {
                let mut old = leases.iter_mut().filter(|old| old.lease == new.lease);
                if let Some(old) = old.next() {
                    *old = new;
                }
            }
        }
        self
    }
}

impl Keyed {
    /// Returns the state of a key whose request was answered: `request` got `leases`, as
    /// [`spell_leases`] spells them.
    pub fn answered(
        &self,
        request: &str,
        leases: &str,
        made_at: Timestamp,
        mut find: impl FnMut(&LeaseId) -> Result<Option<Lease>>,
    ) -> Result<KeyState> {
        if request != self.request {
            let problem = format!("it was used for another request at {made_at}");
            return Ok(KeyState::Conflict(problem));
        }
        let ids: Vec<LeaseId> = serde_json::from_str(leases)
            .map_err(|error| Error::corrupt("keys", error.to_string()))?;
        let mut held = Vec::with_capacity(ids.len());
        for id in ids {
            let Some(lease) = find(&id)? else {
                let problem = format!("lease {id}, which it got at {made_at}, is over");
                return Ok(KeyState::Conflict(problem));
            };
            if !lease.may_be_changed_under(self.asker.agent.as_ref()) {
                return Ok(KeyState::Foreign(Box::new(lease)));
            }
            if lease.state == LeaseState::Revoking {
                let problem = format!(
                    "lease {}, which it got at {made_at}, is being broken",
                    lease.lease
                );
                return Ok(KeyState::Conflict(problem));
            }
            held.push(lease);
        }
        Ok(KeyState::Done(held))
    }
}

const CLAIMANT_BYTES_MAX: usize = 200;

/// Checks the name of the claimant of a lease.
pub fn check_claimant(claimant: &str) -> Result<()> {
    if (1..=CLAIMANT_BYTES_MAX).contains(&claimant.len()) {
        return Ok(());
    }
    let problem = format!("a claimant is 1 to {CLAIMANT_BYTES_MAX} bytes long");
    Err(Error::BadInput(problem))
}

/// The reason why a lease that looks stale was recovered or kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Finding {
    /// The lease that was examined.
    #[serde(flatten)]
    pub lease: Lease,
    /// True if its time is over or, for a session-bound lease, its session is proved dead.
    pub expired: bool,
    /// True if its heartbeat is older than the grace period. It always is where the grace period is
    /// not longer than the time of the lease.
    pub heartbeat_old: bool,
    /// The active job that claims it, if any.
    pub claimed_by: Option<String>,
    /// True if all conditions hold.
    pub recoverable: bool,
    /// True if this call recovered it.
    pub recovered: bool,
    /// The conditions that hold and those that do not, for people.
    pub reason: String,
}

/// Facts about a lease whose time is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stale {
    /// The time since it expired.
    pub expired: Duration,
    /// The age of its heartbeat.
    pub heartbeat: Duration,
    /// The largest age that its heartbeat may have, or `None` if that is not longer than the time
    /// of the lease. Then the heartbeat has nothing to decide.
    pub grace: Option<Duration>,
    /// The active job that claims it, if any.
    pub claimed_by: Option<String>,
}

impl Finding {
    /// Finds which conditions hold for a lease whose time is over.
    pub fn stale(lease: &Lease, stale: Stale) -> Self {
        let Stale {
            expired,
            heartbeat,
            grace,
            claimed_by,
        } = stale;
        let heartbeat_old = grace.is_none_or(|grace| heartbeat >= grace);
        let mut parts = vec![format!("expired {} ago", duration::show(expired))];
        parts.extend(grace.map(|grace| {
            let (age, limit) = (duration::show(heartbeat), duration::show(grace));
            match heartbeat_old {
                true => format!("heartbeat {age} ago, older than {limit}"),
                false => format!("but its heartbeat is {age} old, not yet {limit}"),
            }
        }));
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

    /// Makes the finding for a lease whose session is dead, for this reason.
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

    /// Makes the finding for a lease that is kept, for this reason.
    pub fn kept(lease: &Lease, reason: String) -> Self {
        Self {
            lease: lease.clone(),
            expired: false,
            heartbeat_old: false,
            claimed_by: None,
            recoverable: false,
            recovered: false,
            reason,
        }
    }
}

/// One page of what recovery found.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Findings {
    /// The leases of the page that look stale.
    pub leases: Vec<Finding>,
    /// The start of the next page, if there is one.
    pub next: Option<String>,
}

impl Findings {
    /// Returns a page, with the cursor of the next one.
    pub fn new(leases: Vec<Finding>, next: Option<String>) -> Self {
        Self { leases, next }
    }
}

/// The choice between recovery and a mere look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recovery {
    /// Explain, and change nothing.
    DryRun,
    /// Recover what can be recovered.
    Real,
}

/// A store whose leases can outlive the session that took them.
///
/// The keeper checks whether a caller may do what it asks. It compares owner and binding, which
/// do not change for as long as a lease is bound.
pub trait LeaseStore: Send + Sync {
    /// Returns the lease with this id, if there is one.
    fn find<'a>(&'a self, lease: &'a LeaseId) -> Reply<'a, Option<Lease>>;

    /// Returns true if a guard in any process holds the lease: then other callers may not change
    /// it by its id. Always false in stores whose guards are bound to their sessions.
    fn has_guard<'a>(&'a self, _lease: &'a LeaseId) -> Reply<'a, bool> {
        Box::pin(std::future::ready(Ok(false)))
    }

    /// Returns the end of a lease in words, or `None` if the store never had it.
    fn ended<'a>(&'a self, lease: &'a LeaseId) -> Reply<'a, Option<String>>;

    /// Returns the lease-bound leases of a session, dead or alive.
    fn of_session<'a>(&'a self, session: &'a SessionId) -> Reply<'a, Vec<Lease>>;

    /// Makes held leases lease-bound: all or none, durably. Their time starts now. The same step
    /// stores the key, if there is one.
    fn bind<'a>(
        &'a self,
        leases: &'a [LeaseId],
        ttl: Duration,
        keyed: Option<&'a Keyed>,
    ) -> Reply<'a, Vec<Lease>>;

    /// Reserves a key for the asker, or returns what the store knows of it.
    fn begin_key<'a>(&'a self, keyed: &'a Keyed) -> Reply<'a, KeyState>;

    /// Gives up a key that was never bound, when a request ends without leases. Never fails.
    fn forget_key<'a>(&'a self, keyed: &'a Keyed) -> Reply<'a, ()>;

    /// Gives a lease-bound lease new time; `None` means its last time to live. An expired lease
    /// can be extended until another caller gets the resource. A lease that a guard holds never
    /// gets less time than it has.
    fn extend<'a>(&'a self, lease: &'a LeaseId, ttl: Option<Duration>) -> Reply<'a, Lease>;

    /// Ends a lease for a caller that knows its id. `actor` is the asker in the audit.
    fn release_by<'a>(&'a self, lease: &'a LeaseId, actor: &'a Owner) -> Reply<'a, ()>;

    /// Makes an upgraded lease upgradeable again for a caller that knows its id.
    fn downgrade_by<'a>(&'a self, lease: &'a LeaseId, actor: &'a Owner) -> Reply<'a, Mode>;

    /// Takes a lease out of the hands of a guard: in one step it gets the id `new`, the asker's
    /// session, and time of its own. No other request can get the resource in between, and nothing
    /// that the guard does to the old id has an effect any more. Returns `None` if the lease is
    /// over, or no guard has it in hand.
    fn take_over<'a>(
        &'a self,
        lease: &'a LeaseId,
        new: &'a LeaseId,
        ttl: Duration,
        asker: &'a Asker,
    ) -> Reply<'a, Option<Lease>>;

    /// Recovers the stale leases of one page, and explains those it keeps.
    fn recover<'a>(
        &'a self,
        actor: &'a Owner,
        recovery: Recovery,
        after: Option<&'a str>,
    ) -> Reply<'a, Findings>;

    /// Starts to take a lease away from its holder. It is revoking until the holder confirms its
    /// stop, for at most ten seconds.
    fn break_lease<'a>(
        &'a self,
        lease: &'a LeaseId,
        actor: &'a Owner,
        reason: &'a str,
    ) -> Reply<'a, Lease>;

    /// Returns the circles of requests that wait for each other, as they are at this moment.
    fn circles(&self) -> Reply<'_, Vec<Circle>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// Returns a page of the audit record.
    fn audit<'a>(&'a self, query: &'a AuditQuery) -> Reply<'a, AuditPage>;

    /// Records that `claimant` needs a lease, for as long as the asking session lives. A claimed
    /// lease is not recovered.
    fn claim<'a>(
        &'a self,
        lease: &'a LeaseId,
        claimant: &'a str,
        asker: &'a Arc<Asker>,
    ) -> Reply<'a, ()>;

    /// Ends a claim.
    fn unclaim<'a>(&'a self, lease: &'a LeaseId, claimant: &'a str) -> Reply<'a, ()>;
}

/// Returns the one spelling of a request for a set.
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
