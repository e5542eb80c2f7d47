//! The memory store as a store.

use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use tenure_core::{
    Capabilities, Error, Lease, LeaseId, Listing, Mode, Place, Query, Reply, Request, Resource,
    Result, Store, Token, UpgradeRequest,
};

use super::list;
use super::shelf::Shelf;
use crate::poison::lock;

/// The address of every memory store.
const URL: &str = "memory:";

/// Locks within one process.
#[derive(Default)]
pub struct MemoryStore {
    shelf: Mutex<Shelf>,
}

impl MemoryStore {
    /// A new store in which nothing is held.
    pub fn new() -> Self {
        Self::default()
    }

    pub(super) fn shelf(&self) -> MutexGuard<'_, Shelf> {
        lock(&self.shelf)
    }
}

impl Store for MemoryStore {
    fn url(&self) -> &str {
        URL
    }

    fn place_of(&self, resource: &Resource) -> String {
        location(resource)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            strict_order: true,
            lists_waiters: true,
            cross_process: false,
            check_every: None,
            ttl: None,
            slots: true,
        }
    }

    fn try_acquire<'a>(&'a self, request: &'a Request) -> Reply<'a, Option<Lease>> {
        Box::pin(async { self.try_take(request) })
    }

    fn acquire<'a>(&'a self, request: &'a Request) -> Reply<'a, Lease> {
        Box::pin(self.take(request))
    }

    fn try_upgrade<'a>(&'a self, lease: &'a LeaseId) -> Reply<'a, Option<Token>> {
        Box::pin(async { self.try_become_write(lease) })
    }

    fn upgrade<'a>(&'a self, request: &'a UpgradeRequest) -> Reply<'a, Token> {
        Box::pin(self.become_write(request))
    }

    fn downgrade<'a>(&'a self, lease: &'a LeaseId) -> Reply<'a, Mode> {
        Box::pin(async { self.become_upgradeable(lease) })
    }

    fn renew<'a>(&'a self, lease: &'a LeaseId) -> Reply<'a, Option<Duration>> {
        Box::pin(async { self.show(lease).map(|()| None) })
    }

    fn release<'a>(&'a self, lease: &'a LeaseId) -> Reply<'a, ()> {
        Box::pin(async { self.end(lease) })
    }

    fn abandon(&self, lease: &LeaseId) {
        // A lease that is over needs nothing more.
        drop(self.end(lease));
    }

    fn list<'a>(&'a self, query: &'a Query) -> Reply<'a, Listing> {
        Box::pin(async { Ok(list::list(&self.shelf(), query)) })
    }

    fn token<'a>(&'a self, resource: &'a Resource) -> Reply<'a, Token> {
        Box::pin(async { Ok(self.shelf().token_of(resource)) })
    }

    fn descriptor(&self, _lease: &LeaseId) -> Result<Option<OwnedFd>> {
        Ok(None)
    }
}

pub(super) fn place(resource: &Resource, mode: Mode) -> Box<Place> {
    Box::new(Place {
        resource: resource.clone(),
        mode,
        store: URL.to_owned(),
        location: location(resource),
    })
}

fn location(resource: &Resource) -> String {
    format!("{URL}{resource}")
}

pub(super) fn over(lease: &LeaseId) -> Error {
    Error::LeaseOver {
        lease: lease.clone(),
        reason: "it is not held in this store".into(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::task::Poll;

    use tenure_core::{Asker, LeaseState, Owner, SessionId};

    use super::*;

    fn request(session: &str, lease: &str, mode: Mode) -> Request {
        let asker = Asker {
            session: SessionId::parse(session).unwrap(),
            owner: Owner::parse(session).unwrap(),
            pid: 1,
            host: "desk".into(),
            command: "test".into(),
        };
        Request {
            lease: LeaseId::parse(lease).unwrap(),
            resource: Resource::parse("a").unwrap(),
            mode,
            asker: Arc::new(asker),
            purpose: None,
            metadata: None,
            deadline: None,
            until: None,
            capacity: None,
        }
    }

    /// Asks once. Whether that has to wait.
    async fn asks<T>(reply: &mut Reply<'_, T>) -> bool {
        std::future::poll_fn(|context| Poll::Ready(reply.as_mut().poll(context).is_pending())).await
    }

    #[test]
    fn nothing_is_kept_of_a_resource_that_nobody_holds_or_awaits() {
        let store = MemoryStore::new();
        for mode in Mode::ALL {
            let request = request("s1", "l1", mode);
            let lease = store.try_take(&request).unwrap().unwrap();
            assert_eq!(store.shelf().entries.len(), 1);
            store.end(&lease.lease).unwrap();
            assert!(store.shelf().entries.is_empty());
            assert!(store.shelf().resources.is_empty());
        }
    }

    #[test]
    fn a_lease_that_is_over_is_told_so_and_leaves_nothing() {
        let store = MemoryStore::new();
        let lease = LeaseId::parse("l1").unwrap();
        let over = |error: Error| matches!(error, Error::LeaseOver { .. });
        assert!(over(store.end(&lease).unwrap_err()));
        assert!(over(store.show(&lease).unwrap_err()));
        assert!(over(store.try_become_write(&lease).unwrap_err()));
        assert!(over(store.become_upgradeable(&lease).unwrap_err()));
        store.abandon(&lease);
        assert!(store.shelf().entries.is_empty());
    }

    #[tokio::test]
    async fn the_token_of_what_is_held_is_its_own_and_of_a_free_resource_never_lower() {
        let store = MemoryStore::new();
        let first = request("s1", "l1", Mode::Write);
        let resource = &first.resource;
        assert_eq!(store.token(resource).await.unwrap(), Token::NONE);
        let lease = store.try_take(&first).unwrap().unwrap();
        let elsewhere = Request {
            resource: Resource::parse("b").unwrap(),
            ..request("s1", "l2", Mode::Write)
        };
        store.try_take(&elsewhere).unwrap().unwrap();
        assert_eq!(store.token(resource).await.unwrap(), lease.token);
        store.end(&lease.lease).unwrap();
        assert!(store.token(resource).await.unwrap() >= lease.token);
    }

    #[tokio::test]
    async fn a_slot_that_is_free_again_goes_to_the_first_in_line_and_is_held_at_once() {
        let store = MemoryStore::new();
        let slot = |name: &str, slots| Request {
            capacity: Some(slots),
            ..request(name, name, Mode::Write)
        };
        let first = store.try_take(&slot("a", 2)).unwrap().unwrap();
        let second = store.try_take(&slot("b", 2)).unwrap().unwrap();
        assert!(second.token > first.token);
        assert!(store.try_take(&slot("c", 2)).unwrap().is_none());
        let third = slot("d", 2);
        let mut third = store.acquire(&third);
        assert!(asks(&mut third).await, "a third has one of two slots");
        let listing = store.list(&Query::default()).await.unwrap();
        let waiting = listing.waiting.unwrap();
        assert_eq!(waiting[0].reason, "all 2 slots are taken");
        // Another counts three slots, but does not overtake who came before.
        assert!(store.try_take(&slot("e", 3)).unwrap().is_none());
        store.end(&first.lease).unwrap();
        let lease = third.await.unwrap();
        assert_eq!(lease.state, LeaseState::Held);
        assert!(store.try_take(&slot("e", 3)).unwrap().is_some());
    }

    #[test]
    fn a_session_is_refused_what_it_holds_even_without_a_keeper() {
        let store = MemoryStore::new();
        let outer = request("s1", "l1", Mode::Read);
        store.try_take(&outer).unwrap().unwrap();
        let inner = request("s1", "l2", Mode::Read);
        let error = store.try_take(&inner).unwrap_err();
        assert!(
            matches!(&error, Error::Reentry { lease, .. } if *lease == outer.lease),
            "{error}"
        );
    }
}
