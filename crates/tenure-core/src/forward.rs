//! The methods of the store traits, for stores that keep their steps in a field `inner`.
//!
//! The traits need boxed futures, so that a keeper can hold any store. The steps of a store are
//! plain `async` functions of the same names, each in its own file. These macros connect the two,
//! once for all stores.

/// Writes methods that answer with a boxed future of the step of the same name.
#[doc(hidden)]
#[macro_export]
macro_rules! forward {
    ($($name:ident($($argument:ident: $type:ty),*) -> $answer:ty;)*) => {
        $(
            fn $name<'a>(&'a self, $($argument: $type),*) -> $crate::Reply<'a, $answer> {
                Box::pin(self.inner.$name($($argument),*))
            }
        )*
    };
}

/// Writes the methods of [`Store`](crate::Store) that every such store forwards.
#[doc(hidden)]
#[macro_export]
macro_rules! forward_store {
    () => {
        $crate::forward! {
            acquire(request: &'a $crate::Request) -> Option<$crate::Lease>;
            upgrade(request: &'a $crate::UpgradeRequest) -> Option<$crate::Token>;
            renew(lease: &'a $crate::LeaseId) -> Option<std::time::Duration>;
            list(query: &'a $crate::Query) -> $crate::Listing;
            position(resource: &'a $crate::Resource, lease: &'a $crate::LeaseId) -> Option<usize>;
            token(resource: &'a $crate::Resource) -> Option<$crate::Token>;
        }

        fn downgrade<'a>(&'a self, lease: &'a $crate::LeaseId) -> $crate::Reply<'a, $crate::Mode> {
            Box::pin(self.inner.downgrade(lease, None))
        }

        fn release<'a>(&'a self, lease: &'a $crate::LeaseId) -> $crate::Reply<'a, ()> {
            Box::pin(self.inner.release(lease, None))
        }

        fn url(&self) -> &str {
            self.inner.url()
        }

        fn abandon(&self, lease: &$crate::LeaseId) {
            self.inner.abandon(lease);
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

        fn records(&self) -> Option<&dyn $crate::RecordStore> {
            Some(self)
        }
    };
}

/// Writes all methods of [`LeaseStore`](crate::LeaseStore).
#[doc(hidden)]
#[macro_export]
macro_rules! forward_lease_store {
    () => {
        $crate::forward! {
            find(lease: &'a $crate::LeaseId) -> Option<$crate::Lease>;
            has_guard(lease: &'a $crate::LeaseId) -> bool;
            ended(lease: &'a $crate::LeaseId) -> Option<String>;
            of_session(session: &'a $crate::SessionId) -> Vec<$crate::Lease>;
            bind(
                leases: &'a [$crate::LeaseId],
                ttl: std::time::Duration,
                keyed: Option<&'a $crate::leases::Keyed>
            ) -> Vec<$crate::Lease>;
            begin_key(keyed: &'a $crate::leases::Keyed) -> $crate::leases::KeyState;
            forget_key(keyed: &'a $crate::leases::Keyed) -> ();
            extend(lease: &'a $crate::LeaseId, ttl: Option<std::time::Duration>) -> $crate::Lease;
            take_over(
                lease: &'a $crate::LeaseId,
                new: &'a $crate::LeaseId,
                ttl: std::time::Duration,
                asker: &'a $crate::Asker
            ) -> Option<$crate::Lease>;
            recover(
                actor: &'a $crate::Owner,
                recovery: $crate::leases::Recovery,
                after: Option<&'a str>
            ) -> $crate::leases::Findings;
            break_lease(
                lease: &'a $crate::LeaseId,
                actor: &'a $crate::Owner,
                reason: &'a str
            ) -> $crate::Lease;
            audit(query: &'a $crate::audit::AuditQuery) -> $crate::audit::AuditPage;
            claim(
                lease: &'a $crate::LeaseId,
                claimant: &'a str,
                asker: &'a std::sync::Arc<$crate::Asker>
            ) -> ();
            unclaim(lease: &'a $crate::LeaseId, claimant: &'a str) -> ();
            circles() -> Vec<$crate::circles::Circle>;
        }

        fn release_by<'a>(
            &'a self,
            lease: &'a $crate::LeaseId,
            actor: &'a $crate::Owner,
        ) -> $crate::Reply<'a, ()> {
            Box::pin(self.inner.release(lease, Some(actor)))
        }

        fn downgrade_by<'a>(
            &'a self,
            lease: &'a $crate::LeaseId,
            actor: &'a $crate::Owner,
        ) -> $crate::Reply<'a, $crate::Mode> {
            Box::pin(self.inner.downgrade(lease, Some(actor)))
        }
    };
}

/// Writes all methods of [`RecordStore`](crate::RecordStore).
#[doc(hidden)]
#[macro_export]
macro_rules! forward_record_store {
    () => {
        $crate::forward! {
            read_record(key: &'a $crate::records::RecordKey) -> Option<$crate::records::Record>;
            list_records(query: &'a $crate::records::RecordQuery) -> $crate::records::RecordPage;
            change_records(
                change: &'a $crate::records::RecordChange<'a>
            ) -> Vec<$crate::records::Record>;
            listen(session: &'a $crate::SessionId) -> Box<dyn $crate::records::WakeUps>;
        }
    };
}
