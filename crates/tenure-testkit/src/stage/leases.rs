//! The leases, recovery and audit of a store, as this process sees them.

use std::time::{Duration, Instant};

use tenure::{Lease, LeaseId, LeaseState, Owner};
use tenure_core::audit::{AuditQuery, Entry};
use tenure_core::leases::{Finding, Recovery};

use super::{Stage, until};
use crate::agent::resource;

/// The shortest life of a lease. The grace period is as long and runs at the same time.
pub const TTL_SHORT: Duration = tenure_core::leases::TTL_MIN;
/// A life that no case outlasts.
pub const TTL_LONG: Duration = Duration::from_secs(600);

impl Stage<'_> {
    /// Returns a lease as the list shows it, or `None` if it is not held.
    pub fn listed(&self, lease: &LeaseId) -> Option<Lease> {
        self.held().into_iter().find(|held| held.lease == *lease)
    }

    /// Returns when the time of a lease is over. The lease is still there.
    pub fn until_expired(&self, lease: &LeaseId) {
        until("the lease expires", || {
            let listed = self.listed(lease).expect("nobody takes it over");
            listed.state == LeaseState::Expired
        });
    }

    /// Asks for a recovery as `admin`, and returns its findings.
    pub fn recover(&self, recovery: Recovery) -> Vec<Finding> {
        let actor = Owner::parse("admin").unwrap();
        let found = self.keeper().recover(&actor, recovery);
        self.block_on(found).unwrap()
    }

    /// Asks for a recovery as `admin`, and returns its finding about one lease.
    pub fn recover_one(&self, recovery: Recovery, lease: &LeaseId) -> Option<Finding> {
        let mut found = self.recover(recovery).into_iter();
        found.find(|finding| finding.lease.lease == *lease)
    }

    /// Returns the audit, read page by page.
    pub fn audit(&self, query: &AuditQuery) -> Vec<Entry> {
        let mut query = query.clone();
        let mut entries = Vec::new();
        loop {
            let page = self.block_on(self.keeper().audit(&query)).unwrap();
            if let Some(limit) = query.limit {
                assert!(page.entries.len() <= limit, "a page of {limit}");
            }
            let stuck = page.entries.is_empty() && page.next.is_some();
            assert!(!stuck, "an empty page that is not the last");
            entries.extend(page.entries);
            query.after = page.next;
            if query.after.is_none() {
                return entries;
            }
        }
    }

    /// Returns the audit of a resource, oldest first.
    pub fn audit_of(&self, name: &str) -> Vec<Entry> {
        self.audit(&AuditQuery::default().with_resource(resource(name)))
    }

    /// Returns the audit of a resource as `action owner`, oldest first.
    pub fn recorded(&self, name: &str) -> Vec<String> {
        let show = |entry: Entry| format!("{} {}", entry.action.as_str(), entry.owner);
        self.audit_of(name).into_iter().map(show).collect()
    }
}

/// Checks again and again for this long, and once more at the end, that something holds.
pub fn throughout(time: Duration, mut holds: impl FnMut()) {
    let began = Instant::now();
    while began.elapsed() < time {
        holds();
        std::thread::sleep(Duration::from_millis(5));
    }
    holds();
}

/// Checks that an attempt is done in time in three of at most five tries. The machine may stand
/// still in the others, but an attempt that is late every other time is too slow. It measures
/// itself.
pub fn in_time(what: &str, limit: Duration, mut attempt: impl FnMut() -> Duration) {
    let mut took = Vec::new();
    while took.len() < 5 {
        took.push(attempt());
        let good = took.iter().filter(|took| **took <= limit).count();
        if good == 3 {
            return;
        }
    }
    panic!("{what} took {took:?}, not at most {limit:?}");
}
