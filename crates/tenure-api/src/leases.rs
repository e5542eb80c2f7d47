//! Locks: who takes, keeps, gives back and sees them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tenure_core::audit::AuditPage;
use tenure_core::leases::Finding;
use tenure_core::{
    IdempotenceKey, Lease, LeaseId, Listing, Mode, Owner, Resource, Timestamp, Token,
};

use crate::operation::operation;
use crate::publish::{Recovered, Removed};
use crate::text::{Span, Wanted};

/// Takes locks that outlive the call, all or none.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Acquire {
    /// The locks.
    pub resources: Vec<Wanted>,
    /// The mode of those without one of their own: write, if it is left out.
    #[serde(default = "write")]
    pub mode: Mode,
    /// How long the leases last unless renewed, from 1s to 24h: 15m, if it is left out.
    #[serde(default)]
    pub ttl: Option<Span>,
    /// How long to wait for them; `0s` does not wait.
    #[serde(default)]
    pub wait: Option<Span>,
    /// Why, for people who look.
    #[serde(default)]
    pub purpose: Option<String>,
    /// Kept with the leases.
    #[serde(default)]
    pub metadata: Option<Value>,
    /// The caller's name for this request: asked again under it, the same leases are answered.
    #[serde(default)]
    pub key: Option<IdempotenceKey>,
}
operation!("acquire", Acquire, Leases);

fn write() -> Mode {
    Mode::Write
}

/// Leases, in the order they were taken.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Leases {
    /// The leases.
    pub leases: Vec<Lease>,
}

impl Leases {
    /// Returns a list of one.
    pub fn one(lease: Lease) -> Self {
        let leases = vec![lease];
        Self { leases }
    }
}

/// Looks a lease up.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Find {
    /// The lease.
    pub lease: LeaseId,
}
operation!("find", Find, Leases);

/// Gives a lease new time.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Renew {
    /// The lease.
    pub lease: LeaseId,
    /// How long it lasts from now on: as long as before, if it is left out.
    #[serde(default)]
    pub ttl: Option<Span>,
}
operation!("renew", Renew, Leases);

/// Ends a lease.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Release {
    /// The id of the lease, or the resource of which the caller has just one.
    pub lease: String,
}
operation!("release", Release, Leases);

/// Makes an upgradeable lease exclusive, once nobody else reads.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Upgrade {
    /// The lease.
    pub lease: LeaseId,
    /// How long to wait for the readers to leave; `0s` does not wait.
    #[serde(default)]
    pub wait: Option<Span>,
}
operation!("upgrade", Upgrade, Leases);

/// Makes an upgraded lease upgradeable again.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Downgrade {
    /// The lease.
    pub lease: LeaseId,
}
operation!("downgrade", Downgrade, Leases);

/// Asks whether a token is that of the newest exclusive grant.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// The resource.
    pub resource: Resource,
    /// The token, as the lease has it.
    pub token: Token,
}
operation!("check", Check, Checked);

/// A token that is good. One that is not is an error.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Checked {
    /// The resource.
    pub resource: Resource,
    /// The token.
    pub token: Token,
    /// True.
    pub good: bool,
}

/// Lists what is held and who waits, and why.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Ls {
    /// The beginning of a resource, or a kind; `slot` lists the slots.
    pub prefix: Option<String>,
    /// Only what this owner holds.
    pub owner: Option<Owner>,
    /// At most this many.
    pub limit: Option<usize>,
    /// Only what comes after, as `next` of an earlier page says.
    pub after: Option<String>,
}
operation!("ls", Ls, Listing);

/// Ends stale leases and unfinished publishes. It is always safe.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Recover {
    /// True to change nothing, and only say what could be recovered and why the rest is kept.
    pub dry_run: bool,
}
operation!("recover", Recover, Stale);

/// Everything that looks stale, and what became of it.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Stale {
    /// The leases.
    pub leases: Vec<Finding>,
    /// Null: the list is never cut.
    pub next: Option<String>,
    /// Publishes that were not finished.
    pub manifests: Vec<Recovered>,
    /// Directories that publishes left behind.
    pub directories: Vec<Removed>,
}

/// Takes a lease away from its holder. It is for people.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Break {
    /// The lease.
    pub lease: LeaseId,
    /// Why, for the holder and for the record.
    pub reason: String,
}
operation!("break", Break, Leases);

/// Reads the record of what was done to locks, oldest first.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Audit {
    /// Only what was done to this resource.
    pub resource: Option<Resource>,
    /// Only from this time on.
    pub since: Option<Timestamp>,
    /// At most this many.
    pub limit: Option<usize>,
    /// Only what comes after, as `next` of an earlier page says.
    pub after: Option<String>,
}
operation!("audit", Audit, AuditPage);
