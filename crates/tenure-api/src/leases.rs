//! Locks: taken, renewed, given back, broken and listed.

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
    /// The resources to lock, each as `KIND:ID` or `KIND:ID=MODE`, in any order.
    pub resources: Vec<Wanted>,
    /// The mode of the resources that name none. Left out, it is `write`.
    #[serde(default = "write")]
    pub mode: Mode,
    /// The time after which the leases end unless they are renewed, from 1s to 24h. Left out, it is
    /// 15m.
    #[serde(default)]
    pub ttl: Option<Span>,
    /// The longest wait for all of them together; `0s` does not wait. Left out, it is that of the
    /// settings, else 5s.
    #[serde(default)]
    pub wait: Option<Span>,
    /// The reason for the locks, shown to people who list them.
    #[serde(default)]
    pub purpose: Option<String>,
    /// Any JSON value, kept with the leases and shown with them.
    #[serde(default)]
    pub metadata: Option<Value>,
    /// A name that the caller gives this request. A repeated request with the same name gets the
    /// leases of the first, so a caller that lost the answer can ask again.
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
    /// The leases, each with its id and its token.
    pub leases: Vec<Lease>,
}

impl Leases {
    /// Returns a list of one.
    pub fn one(lease: Lease) -> Self {
        let leases = vec![lease];
        Self { leases }
    }
}

/// Looks up a lease by its id.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Find {
    /// The id of the lease.
    pub lease: LeaseId,
}
operation!("find", Find, Leases);

/// Makes a lease last longer. Its token stays.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Renew {
    /// The id of the lease.
    pub lease: LeaseId,
    /// The time that the lease lasts from now on, from 1s to 24h. Left out, it is that of its last
    /// grant or renewal.
    #[serde(default)]
    pub ttl: Option<Span>,
}
operation!("renew", Renew, Leases);

/// Ends a lease.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Release {
    /// The id of the lease; or its resource, if the caller has exactly one lease of it.
    pub lease: String,
}
operation!("release", Release, Leases);

/// Makes an upgradeable lease exclusive, once there are no other readers. It gets a new token.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Upgrade {
    /// The id of the lease.
    pub lease: LeaseId,
    /// The longest wait for the readers to leave; `0s` does not wait. Left out, it is that of the
    /// settings, else 5s.
    #[serde(default)]
    pub wait: Option<Span>,
}
operation!("upgrade", Upgrade, Leases);

/// Makes an upgraded lease upgradeable again.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Downgrade {
    /// The id of the lease.
    pub lease: LeaseId,
}
operation!("downgrade", Downgrade, Leases);

/// Checks that a token is that of the newest exclusive grant of a resource. A token that is not is
/// refused with an error.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// The resource that the token belongs to.
    pub resource: Resource,
    /// The token, as it stands in the lease.
    pub token: Token,
}
operation!("check", Check, Checked);

/// A token that is good.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Checked {
    /// The resource that was asked about.
    pub resource: Resource,
    /// The token that was asked about.
    pub token: Token,
    /// Always true: a token that is not good is an error.
    pub good: bool,
}

/// Lists the leases that are held, and the waiters with the reason why each waits.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Ls {
    /// The text with which the listed resources begin, such as `map:atlas`. A word without a colon
    /// lists a kind, and bare names that begin with it; `slot` lists the slots.
    pub prefix: Option<String>,
    /// Only leases of this owner.
    pub owner: Option<Owner>,
    /// The largest number of leases on a page. Left out, it is 100.
    pub limit: Option<usize>,
    /// The `next` of the page before, to get the page after it. Left out, the first page is
    /// returned.
    pub after: Option<String>,
}
operation!("ls", Ls, Listing);

/// Ends stale leases and unfinished publishes. It is always safe: a lease that may still be in use
/// is kept.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Recover {
    /// True to change nothing, and only report what could be recovered and why the rest is kept.
    pub dry_run: bool,
}
operation!("recover", Recover, Stale);

/// Everything that looked stale, and its outcome.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Stale {
    /// The leases that looked stale, each with its outcome.
    pub leases: Vec<Finding>,
    /// Always null: the list is complete.
    pub next: Option<String>,
    /// Publishes that were not finished, each with its outcome.
    pub manifests: Vec<Recovered>,
    /// Directories that publishes left behind, each with whether it was removed.
    pub directories: Vec<Removed>,
}

/// Takes a lease away from its holder. Only people may do it, and no automated owner.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Break {
    /// The id of the lease.
    pub lease: LeaseId,
    /// The reason, which the holder is told and the audit keeps.
    pub reason: String,
}
operation!("break", Break, Leases);

/// Reads the audit, the record of all that was done to locks, oldest entry first.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Audit {
    /// Only entries about this resource.
    pub resource: Option<Resource>,
    /// Only entries from this time on.
    pub since: Option<Timestamp>,
    /// The largest number of entries on a page. Left out, it is 1000.
    pub limit: Option<usize>,
    /// The `next` of the page before, to get the page after it. Left out, the first page is
    /// returned.
    pub after: Option<String>,
}
operation!("audit", Audit, AuditPage);
