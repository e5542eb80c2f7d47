//! The calls of a store with leases of their own, with the faults of [`FaultyStore`].

use std::sync::Arc;
use std::time::Duration;

use tenure::audit::{AuditPage, AuditQuery};
use tenure::internal::{KeyState, Keyed, LeaseStore};
use tenure::leases::{Findings, Recovery};
use tenure::store::{Asker, Reply};
use tenure::{Lease, LeaseId, Mode, Owner, SessionId};

use super::FaultyStore;

impl FaultyStore {
    fn within(&self) -> &dyn LeaseStore {
        let leases = self.inner.leases();
        leases.expect("it is asked only where the store has leases")
    }
}

/// Passes a call on to the store within, after the faults that are set for its name.
macro_rules! passed_on {
    ($self:ident, $call:literal, $what:expr, $within:ident => $then:expr) => {
        Box::pin(async move {
            $self.begin($call, $what).await?;
            let $within = $self.within();
            $then.await
        })
    };
}

impl LeaseStore for FaultyStore {
    fn find<'a>(&'a self, lease: &'a LeaseId) -> Reply<'a, Option<Lease>> {
        passed_on!(self, "find", lease.as_str(), within => within.find(lease))
    }

    fn has_guard<'a>(&'a self, lease: &'a LeaseId) -> Reply<'a, bool> {
        self.within().has_guard(lease)
    }

    fn ended<'a>(&'a self, lease: &'a LeaseId) -> Reply<'a, Option<String>> {
        passed_on!(self, "ended", lease.as_str(), within => within.ended(lease))
    }

    fn of_session<'a>(&'a self, session: &'a SessionId) -> Reply<'a, Vec<Lease>> {
        passed_on!(self, "of_session", session.as_str(), within => within.of_session(session))
    }

    fn bind<'a>(
        &'a self,
        leases: &'a [LeaseId],
        ttl: Duration,
        keyed: Option<&'a Keyed>,
    ) -> Reply<'a, Vec<Lease>> {
        passed_on!(self, "bind", "", within => within.bind(leases, ttl, keyed))
    }

    fn begin_key<'a>(&'a self, keyed: &'a Keyed) -> Reply<'a, KeyState> {
        passed_on!(self, "begin_key", keyed.key.as_str(), within => within.begin_key(keyed))
    }

    fn forget_key<'a>(&'a self, keyed: &'a Keyed) -> Reply<'a, ()> {
        passed_on!(self, "forget_key", keyed.key.as_str(), within => within.forget_key(keyed))
    }

    fn extend<'a>(&'a self, lease: &'a LeaseId, ttl: Option<Duration>) -> Reply<'a, Lease> {
        passed_on!(self, "extend", lease.as_str(), within => within.extend(lease, ttl))
    }

    fn release_by<'a>(&'a self, lease: &'a LeaseId, actor: &'a Owner) -> Reply<'a, ()> {
        passed_on!(self, "release", lease.as_str(), within => within.release_by(lease, actor))
    }

    fn downgrade_by<'a>(&'a self, lease: &'a LeaseId, actor: &'a Owner) -> Reply<'a, Mode> {
        passed_on!(self, "downgrade", lease.as_str(), within => within.downgrade_by(lease, actor))
    }

    fn take_over<'a>(
        &'a self,
        lease: &'a LeaseId,
        new: &'a LeaseId,
        ttl: Duration,
        asker: &'a Asker,
    ) -> Reply<'a, Option<Lease>> {
        passed_on!(self, "take_over", lease.as_str(), within => within.take_over(lease, new, ttl, asker))
    }

    fn recover<'a>(
        &'a self,
        actor: &'a Owner,
        recovery: Recovery,
        after: Option<&'a str>,
    ) -> Reply<'a, Findings> {
        passed_on!(self, "recover", "", within => within.recover(actor, recovery, after))
    }

    fn break_lease<'a>(
        &'a self,
        lease: &'a LeaseId,
        actor: &'a Owner,
        reason: &'a str,
    ) -> Reply<'a, Lease> {
        passed_on!(self, "break", lease.as_str(), within => within.break_lease(lease, actor, reason))
    }

    fn audit<'a>(&'a self, query: &'a AuditQuery) -> Reply<'a, AuditPage> {
        passed_on!(self, "audit", "", within => within.audit(query))
    }

    fn claim<'a>(
        &'a self,
        lease: &'a LeaseId,
        claimant: &'a str,
        asker: &'a Arc<Asker>,
    ) -> Reply<'a, ()> {
        passed_on!(self, "claim", lease.as_str(), within => within.claim(lease, claimant, asker))
    }

    fn unclaim<'a>(&'a self, lease: &'a LeaseId, claimant: &'a str) -> Reply<'a, ()> {
        passed_on!(self, "unclaim", lease.as_str(), within => within.unclaim(lease, claimant))
    }
}
