//! The memory store, as an implementation of the store trait.

use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use tenure_core::internal::lock;
use tenure_core::request::Awaited;
use tenure_core::{
    Capabilities, Lease, LeaseId, Listing, Mode, Query, Reply, Request, Resource, Result, Store,
    Token, UpgradeRequest,
};

use super::list;
use super::tables::Tables;

/// The address of every memory store.
const URL: &str = "memory:";

/// Locks within one process.
#[derive(Default)]
pub struct MemoryStore {
    tables: Mutex<Tables>,
}

impl MemoryStore {
    /// Returns a new store in which nothing is held.
    pub fn new() -> Self {
        Self::default()
    }

    pub(super) fn tables(&self) -> MutexGuard<'_, Tables> {
        lock(&self.tables)
    }
}

impl Store for MemoryStore {
    fn url(&self) -> &str {
        URL
    }

    fn location_of(&self, resource: &Resource) -> String {
        format!("{URL}{resource}")
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            strict_order: true,
            lists_waiters: true,
            cross_process: false,
            check_every: None,
            ttl: None,
            slots: true,
            retries: false,
        }
    }

    fn acquire<'a>(&'a self, request: &'a Request) -> Reply<'a, Option<Lease>> {
        Box::pin(self.ask(Awaited::Lease(request.clone())))
    }

    fn upgrade<'a>(&'a self, request: &'a UpgradeRequest) -> Reply<'a, Option<Token>> {
        Box::pin(self.upgrade_or_queue(request))
    }

    fn downgrade<'a>(&'a self, lease: &'a LeaseId) -> Reply<'a, Mode> {
        Box::pin(async { self.downgrade_now(lease) })
    }

    fn renew<'a>(&'a self, lease: &'a LeaseId) -> Reply<'a, Option<Duration>> {
        Box::pin(async { self.renew_now(lease).map(|()| None) })
    }

    fn release<'a>(&'a self, lease: &'a LeaseId) -> Reply<'a, ()> {
        Box::pin(async { self.release_now(lease) })
    }

    fn abandon(&self, lease: &LeaseId) {
        // A lease that is over needs nothing more.
        drop(self.release_now(lease));
    }

    fn list<'a>(&'a self, query: &'a Query) -> Reply<'a, Listing> {
        Box::pin(async { Ok(list::list(&self.tables(), query)) })
    }

    fn position<'a>(
        &'a self,
        resource: &'a Resource,
        lease: &'a LeaseId,
    ) -> Reply<'a, Option<usize>> {
        Box::pin(async { Ok(list::position(&self.tables(), resource, lease)) })
    }

    fn token<'a>(&'a self, resource: &'a Resource) -> Reply<'a, Option<Token>> {
        Box::pin(async { Ok(self.tables().token_of(resource)) })
    }

    fn descriptor(&self, _lease: &LeaseId) -> Result<Option<OwnedFd>> {
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::task::Poll;

    use tenure_core::Error;
    use tenure_core::decide::Wait;
    use tenure_core::{Asker, LeaseState, Owner, SessionId};

    use super::*;

    fn request(session: &str, lease: &str, mode: Mode) -> Request {
        let asker = Asker {
            session: SessionId::parse(session).unwrap(),
            owner: Owner::parse(session).unwrap(),
            pid: 1,
            host: "desk".into(),
            command: "test".into(),
            agent: None,
        };
        Request {
            standing: Default::default(),
            lease: LeaseId::parse(lease).unwrap(),
            resource: Resource::parse("a").unwrap(),
            mode,
            asker: Arc::new(asker),
            purpose: None,
            metadata: None,
            deadline: None,
            wait: Wait::No,
            capacity: None,
        }
    }

    /// Polls a reply once, and returns true if it has to wait.
    async fn asks<T>(reply: &mut Reply<'_, T>) -> bool {
        std::future::poll_fn(|context| Poll::Ready(reply.as_mut().poll(context).is_pending())).await
    }

    #[tokio::test]
    async fn nothing_is_kept_of_a_resource_that_nobody_holds_or_awaits() {
        let store = MemoryStore::new();
        for mode in Mode::ALL {
            let request = request("s1", "l1", mode);
            let lease = store.acquire(&request).await.unwrap().unwrap();
            assert_eq!(store.tables().entries.len(), 1);
            store.release_now(&lease.lease).unwrap();
            assert!(store.tables().entries.is_empty());
            assert!(store.tables().resources.is_empty());
        }
    }

    #[tokio::test]
    async fn a_lease_that_is_over_is_told_so_and_leaves_nothing() {
        let store = MemoryStore::new();
        let lease = LeaseId::parse("l1").unwrap();
        let over = |error: Error| matches!(error, Error::LeaseOver { .. });
        assert!(over(store.release_now(&lease).unwrap_err()));
        assert!(over(store.renew_now(&lease).unwrap_err()));
        let upgrade = UpgradeRequest {
            standing: Default::default(),
            lease: lease.clone(),
            asker: request("s1", "l1", Mode::Write).asker,
            deadline: None,
            wait: Wait::No,
        };
        assert!(over(store.upgrade(&upgrade).await.unwrap_err()));
        assert!(over(store.downgrade_now(&lease).unwrap_err()));
        store.abandon(&lease);
        assert!(store.tables().entries.is_empty());
    }

    #[tokio::test]
    async fn the_token_of_a_resource_is_its_own_whether_it_is_held_or_free() {
        let store = MemoryStore::new();
        let first = request("s1", "l1", Mode::Write);
        let resource = &first.resource;
        assert_eq!(store.token(resource).await.unwrap(), None);
        let lease = store.acquire(&first).await.unwrap().unwrap();
        let elsewhere = Request {
            standing: Default::default(),
            resource: Resource::parse("b").unwrap(),
            ..request("s1", "l2", Mode::Write)
        };
        store.acquire(&elsewhere).await.unwrap().unwrap();
        assert_eq!(store.token(resource).await.unwrap(), Some(lease.token));
        store.release_now(&lease.lease).unwrap();
        assert_eq!(store.token(resource).await.unwrap(), Some(lease.token));
    }

    #[tokio::test]
    async fn a_slot_that_is_free_again_goes_to_the_first_in_line_and_is_held_at_once() {
        let store = MemoryStore::new();
        let slot = |name: &str, slots| Request {
            standing: Default::default(),
            capacity: Some(slots),
            ..request(name, name, Mode::Write)
        };
        let first = store.acquire(&slot("a", 2)).await.unwrap().unwrap();
        let second = store.acquire(&slot("b", 2)).await.unwrap().unwrap();
        assert!(second.token > first.token);
        assert!(store.acquire(&slot("c", 2)).await.unwrap().is_none());
        let third = Request {
            standing: Default::default(),
            wait: Wait::Until(u64::MAX),
            ..slot("d", 2)
        };
        let mut third = store.acquire(&third);
        assert!(asks(&mut third).await, "a third has one of two slots");
        let listing = store.list(&Query::default()).await.unwrap();
        let waiting = listing.waiting.unwrap();
        assert_eq!(waiting[0].reason, "all 2 slots are taken");
        // Another request counts three slots, but does not overtake earlier ones.
        assert!(store.acquire(&slot("e", 3)).await.unwrap().is_none());
        store.release_now(&first.lease).unwrap();
        let lease = third.await.unwrap().unwrap();
        assert_eq!(lease.state, LeaseState::Held);
        assert!(store.acquire(&slot("e", 3)).await.unwrap().is_some());
    }

    #[tokio::test]
    async fn a_session_is_refused_what_it_holds_even_without_a_keeper() {
        let store = MemoryStore::new();
        let outer = request("s1", "l1", Mode::Read);
        store.acquire(&outer).await.unwrap().unwrap();
        let inner = request("s1", "l2", Mode::Read);
        let error = store.acquire(&inner).await.unwrap_err();
        assert!(
            matches!(&error, Error::Reentry { lease, .. } if *lease == outer.lease),
            "{error}"
        );
    }
}
