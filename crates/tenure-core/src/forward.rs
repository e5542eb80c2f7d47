//! The methods of the store traits, for stores that keep their steps in a field `inner`.
//!
//! The traits need boxed futures, so that a keeper can hold any store. The steps of a store are plain `async` functions
//! of the same names, each in its own file. These macros connect the two, once for all stores.

/// The methods of [`Store`](crate::Store) that every such store forwards.
#[doc(hidden)]
#[macro_export]
macro_rules! forward_store {
    () => {
        fn url(&self) -> &str {
            self.inner.url()
        }

        fn acquire<'a>(
            &'a self,
            request: &'a $crate::Request,
        ) -> $crate::Reply<'a, Option<$crate::Lease>> {
            Box::pin(self.inner.acquire(request))
        }

        fn upgrade<'a>(
            &'a self,
            request: &'a $crate::UpgradeRequest,
        ) -> $crate::Reply<'a, Option<$crate::Token>> {
            Box::pin(self.inner.upgrade(request))
        }

        fn downgrade<'a>(&'a self, lease: &'a $crate::LeaseId) -> $crate::Reply<'a, $crate::Mode> {
            Box::pin(self.inner.downgrade(lease))
        }

        fn renew<'a>(
            &'a self,
            lease: &'a $crate::LeaseId,
        ) -> $crate::Reply<'a, Option<std::time::Duration>> {
            Box::pin(self.inner.renew(lease))
        }

        fn release<'a>(&'a self, lease: &'a $crate::LeaseId) -> $crate::Reply<'a, ()> {
            Box::pin(self.inner.release(lease))
        }

        fn abandon(&self, lease: &$crate::LeaseId) {
            self.inner.abandon(lease);
        }

        fn list<'a>(&'a self, query: &'a $crate::Query) -> $crate::Reply<'a, $crate::Listing> {
            Box::pin(self.inner.list(query))
        }

        fn position<'a>(
            &'a self,
            resource: &'a $crate::Resource,
            lease: &'a $crate::LeaseId,
        ) -> $crate::Reply<'a, Option<usize>> {
            Box::pin(self.inner.position(resource, lease))
        }

        fn token<'a>(
            &'a self,
            resource: &'a $crate::Resource,
        ) -> $crate::Reply<'a, Option<$crate::Token>> {
            Box::pin(self.inner.token(resource))
        }

        fn examine(&self) -> $crate::Reply<'_, Vec<$crate::Examined>> {
            Box::pin(async { Ok(self.inner.examine().await) })
        }

        fn end_session(&self, session: &$crate::SessionId) {
            self.inner.end_session(session);
        }

        fn leases(&self) -> Option<&dyn $crate::LeaseStore> {
            Some(self)
        }
    };
}

/// All methods of [`LeaseStore`](crate::LeaseStore).
#[doc(hidden)]
#[macro_export]
macro_rules! forward_lease_store {
    () => {
        fn find<'a>(
            &'a self,
            lease: &'a $crate::LeaseId,
        ) -> $crate::Reply<'a, Option<$crate::Lease>> {
            Box::pin(self.inner.find(lease))
        }

        fn has_guard<'a>(&'a self, lease: &'a $crate::LeaseId) -> $crate::Reply<'a, bool> {
            Box::pin(self.inner.has_guard(lease))
        }

        fn ended<'a>(&'a self, lease: &'a $crate::LeaseId) -> $crate::Reply<'a, Option<String>> {
            Box::pin(self.inner.ended(lease))
        }

        fn of_session<'a>(
            &'a self,
            session: &'a $crate::SessionId,
        ) -> $crate::Reply<'a, Vec<$crate::Lease>> {
            Box::pin(self.inner.of_session(session))
        }

        fn bind<'a>(
            &'a self,
            leases: &'a [$crate::LeaseId],
            ttl: std::time::Duration,
            keyed: Option<&'a $crate::leases::Keyed>,
        ) -> $crate::Reply<'a, Vec<$crate::Lease>> {
            Box::pin(self.inner.bind(leases, ttl, keyed))
        }

        fn begin_key<'a>(
            &'a self,
            keyed: &'a $crate::leases::Keyed,
        ) -> $crate::Reply<'a, $crate::leases::KeyState> {
            Box::pin(self.inner.begin_key(keyed))
        }

        fn forget_key<'a>(&'a self, keyed: &'a $crate::leases::Keyed) -> $crate::Reply<'a, ()> {
            Box::pin(self.inner.forget_key(keyed))
        }

        fn extend<'a>(
            &'a self,
            lease: &'a $crate::LeaseId,
            ttl: Option<std::time::Duration>,
        ) -> $crate::Reply<'a, $crate::Lease> {
            Box::pin(self.inner.extend(lease, ttl))
        }

        fn recover<'a>(
            &'a self,
            actor: &'a $crate::Owner,
            recovery: $crate::leases::Recovery,
            after: Option<&'a str>,
        ) -> $crate::Reply<'a, $crate::leases::Findings> {
            Box::pin(self.inner.recover(actor, recovery, after))
        }

        fn break_lease<'a>(
            &'a self,
            lease: &'a $crate::LeaseId,
            actor: &'a $crate::Owner,
            reason: &'a str,
        ) -> $crate::Reply<'a, $crate::Lease> {
            Box::pin(self.inner.break_lease(lease, actor, reason))
        }

        fn audit<'a>(
            &'a self,
            query: &'a $crate::audit::AuditQuery,
        ) -> $crate::Reply<'a, $crate::audit::AuditPage> {
            Box::pin(self.inner.audit(query))
        }

        fn claim<'a>(
            &'a self,
            lease: &'a $crate::LeaseId,
            claimant: &'a str,
            asker: &'a std::sync::Arc<$crate::Asker>,
        ) -> $crate::Reply<'a, ()> {
            Box::pin(self.inner.claim(lease, claimant, asker))
        }

        fn unclaim<'a>(
            &'a self,
            lease: &'a $crate::LeaseId,
            claimant: &'a str,
        ) -> $crate::Reply<'a, ()> {
            Box::pin(self.inner.unclaim(lease, claimant))
        }
    };
}
