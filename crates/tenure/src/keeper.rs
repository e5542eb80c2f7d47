//! The keeper: opens a store and applies the rules to every request.

use std::fmt;
use std::sync::Arc;

use tenure_core::circles::IN_CIRCLE;
use tenure_core::{
    Capabilities, Examined, Lease, LeaseId, Listing, LockContext, Mode, Owner, Query, Resource,
    Result, RetryPolicy, Store,
};

#[cfg(feature = "postgres")]
use tenure_postgres::advisory::{self, AdvisoryLocks};

use crate::retry::retry;
use crate::{Automated, Session, SessionOptions, Settings, url};

/// An open store with its settings. Clones share it.
#[derive(Clone)]
pub struct Keeper {
    shared: Arc<Shared>,
}

struct Shared {
    store: Arc<dyn Store>,
    settings: Settings,
    /// True if the store itself tries again after passing faults.
    store_retries: bool,
}

impl Keeper {
    /// Opens a store with the default settings. See [`open_with`](Keeper::open_with).
    pub async fn open(url: &str) -> Result<Keeper> {
        Self::open_with(url, Settings::default()).await
    }

    /// Opens a store by its address: `memory:` for locks within this keeper and its
    /// clones, `file:DIR` for kernel locks that all processes of the machine share,
    /// `sqlite:PATH` for the same with leases of their own, a line of waiters and an audit,
    /// `postgres://…` for all of that on many machines.
    pub async fn open_with(url: &str, settings: Settings) -> Result<Keeper> {
        let store = url::open(url, &settings).await?;
        Ok(Self::from_store(store, settings))
    }

    /// Opens the store of a `postgres://…`, and advisory locks of the same database: one connection
    /// for each, where two openings would take four. See `PostgresStore::open_with_locks` for what
    /// it does not find out about a pooler.
    #[cfg(feature = "postgres")]
    pub async fn open_with_locks(
        url: &str,
        settings: Settings,
        locks: &advisory::Settings,
    ) -> Result<(Keeper, AdvisoryLocks)> {
        let (store, locks) = url::open_with_locks(url, &settings, locks).await?;
        Ok((Self::from_store(store, settings), locks))
    }

    /// Makes a keeper of a store that is open already.
    pub fn from_store(store: Arc<dyn Store>, settings: Settings) -> Keeper {
        let store_retries = store.capabilities().retries;
        let shared = Shared {
            store,
            settings,
            store_retries,
        };
        Keeper {
            shared: Arc::new(shared),
        }
    }

    /// Returns a keeper of the same store for calls of another asker.
    pub fn asked_by(&self, automated: Automated, actor: Owner) -> Keeper {
        let settings = self.settings().clone();
        let settings = settings.with_automated(automated).with_actor(Some(actor));
        Self::from_store(Arc::clone(self.store()), settings)
    }

    /// Begins a session, which can hold locks.
    pub fn session(&self, options: SessionOptions) -> Session {
        Session::begin(self.clone(), options)
    }

    /// Returns one page of the holders and waiters.
    pub async fn list(&self, query: &Query) -> Result<Listing> {
        let store = self.store();
        let mut listing = retry(self.retry(), || store.list(query)).await?;
        self.tell_circles(&mut listing).await;
        Ok(listing)
    }

    /// Adds the circle to the reason of every waiter that is in one. A listing is worth showing
    /// without that, too.
    async fn tell_circles(&self, listing: &mut Listing) {
        let waiting = listing
            .waiting
            .as_mut()
            .filter(|waiting| !waiting.is_empty());
        let (Some(waiting), Some(leases)) = (waiting, self.store().leases()) else {
            return;
        };
        for circle in leases.circles().await.unwrap_or_default() {
            for waiter in waiting
                .iter_mut()
                .filter(|waiter| circle.has(&waiter.waiter))
            {
                waiter.reason = format!("{}{IN_CIRCLE}{circle}", waiter.reason);
            }
        }
    }

    /// Returns all holders of a resource.
    pub async fn holders(&self, resource: &Resource) -> Result<Vec<Lease>> {
        let mut holders = Vec::new();
        let mut query = Query::default().with_resource(resource.clone()).held_only();
        loop {
            let page = self.list(&query).await?;
            holders.extend(page.held);
            if page.next.is_none() {
                return Ok(holders);
            }
            query.after = page.next;
        }
    }

    /// Returns the place in line, from 1, of the request for a lease, or `None` if it does not wait
    /// or the store cannot know.
    pub async fn position(&self, resource: &Resource, lease: &LeaseId) -> Result<Option<usize>> {
        let store = self.store();
        retry(self.retry(), || store.position(resource, lease)).await
    }

    /// Returns the address that opens the store again.
    pub fn url(&self) -> &str {
        self.shared.store.url()
    }

    /// Returns the abilities of the store.
    pub fn capabilities(&self) -> Capabilities {
        self.shared.store.capabilities()
    }

    /// Returns true if the store has leases that outlive their session.
    pub fn keeps_leases(&self) -> bool {
        self.shared.store.leases().is_some()
    }

    /// Returns the description of a lock in the store, for errors about it.
    pub fn context_of(&self, resource: &Resource, mode: Mode) -> Box<LockContext> {
        self.shared.store.context_of(resource, mode)
    }

    /// Examines the store, and changes nothing. A part that cannot be examined is reported as bad.
    ///
    /// # Errors
    ///
    /// Errors of the store, if it cannot be examined at all.
    pub async fn examine(&self) -> Result<Vec<Examined>> {
        self.shared.store.examine().await
    }

    /// Returns the store, past all rules of the keeper.
    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.shared.store
    }

    /// Returns the policy of retries after passing faults, or `None` if the store tries again
    /// itself.
    pub(crate) fn retry(&self) -> Option<&RetryPolicy> {
        let settings = &self.shared.settings;
        (!self.shared.store_retries).then_some(&settings.retry)
    }

    /// Returns the settings.
    pub fn settings(&self) -> &Settings {
        &self.shared.settings
    }
}

impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keeper({})", self.store().url())
    }
}
