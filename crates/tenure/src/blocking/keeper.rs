//! The keeper and its sessions.

use std::fmt;
use std::sync::Arc;

use tenure_core::{
    Lease, Listing, LockSet, Mode, Owner, Query, Resource, Result, SessionId, Store,
};

use super::Guard;
use super::thread::Thread;
use crate::{Options, SessionOptions, Settings};

/// An open store. Clones share it and its thread.
#[derive(Clone)]
pub struct Keeper {
    pub(super) thread: Arc<Thread>,
    pub(super) keeper: crate::Keeper,
}

impl Keeper {
    /// Opens a store with the default settings.
    pub fn open(url: &str) -> Result<Keeper> {
        Self::open_with(url, Settings::default())
    }

    /// Opens a store by its address; see [`crate::Keeper::open_with`].
    pub fn open_with(url: &str, settings: Settings) -> Result<Keeper> {
        let thread = Arc::new(Thread::start()?);
        let keeper = thread.run(crate::Keeper::open_with(url, settings))?;
        Ok(Keeper { thread, keeper })
    }

    /// Makes a keeper of a store that is open already.
    pub fn from_store(store: Arc<dyn Store>, settings: Settings) -> Result<Keeper> {
        let thread = Arc::new(Thread::start()?);
        let keeper = crate::Keeper::from_store(store, settings);
        Ok(Keeper { thread, keeper })
    }

    /// Begins a session, which can hold locks.
    pub fn session(&self, options: SessionOptions) -> Session {
        Session {
            thread: Arc::clone(&self.thread),
            session: self.keeper.session(options),
        }
    }

    /// Returns one page of the holders and waiters.
    pub fn list(&self, query: &Query) -> Result<Listing> {
        self.thread.run(self.keeper.list(query))
    }

    /// Returns all holders of a resource.
    pub fn holders(&self, resource: &Resource) -> Result<Vec<Lease>> {
        self.thread.run(self.keeper.holders(resource))
    }

    /// Returns the settings.
    pub fn settings(&self) -> &Settings {
        self.keeper.settings()
    }
}

/// One unit of work of an owner. Clones are the same session.
#[derive(Clone)]
pub struct Session {
    thread: Arc<Thread>,
    pub(super) session: crate::Session,
}

impl Session {
    /// Returns its id.
    pub fn id(&self) -> &SessionId {
        self.session.id()
    }

    /// Returns the owner it works for.
    pub fn owner(&self) -> &Owner {
        self.session.owner()
    }

    /// Takes a lock, waiting for it as long as the options say;
    /// see [`crate::Session::acquire`].
    pub fn acquire(&self, resource: &Resource, mode: Mode, options: &Options) -> Result<Guard> {
        let guard = self.session.acquire(resource, mode, options);
        Ok(self.guard(self.thread.run(guard)?))
    }

    /// Takes a lock if that needs no waiting; see [`crate::Session::try_acquire`].
    pub fn try_acquire(
        &self,
        resource: &Resource,
        mode: Mode,
        options: &Options,
    ) -> Result<Option<Guard>> {
        let guard = self.session.try_acquire(resource, mode, options);
        Ok(self.thread.run(guard)?.map(|guard| self.guard(guard)))
    }

    /// Takes a set of locks, all or none; see [`crate::Session::acquire_many`].
    pub fn acquire_many(&self, set: &LockSet, options: &Options) -> Result<Vec<Guard>> {
        let guards = self.thread.run(self.session.acquire_many(set, options))?;
        Ok(self.guards(guards))
    }

    /// Takes a set of locks if none needs waiting; see [`crate::Session::try_acquire_many`].
    pub fn try_acquire_many(&self, set: &LockSet, options: &Options) -> Result<Option<Vec<Guard>>> {
        let guards = self
            .thread
            .run(self.session.try_acquire_many(set, options))?;
        Ok(guards.map(|guards| self.guards(guards)))
    }

    fn guards(&self, guards: Vec<crate::Guard>) -> Vec<Guard> {
        guards.into_iter().map(|guard| self.guard(guard)).collect()
    }

    fn guard(&self, guard: crate::Guard) -> Guard {
        Guard::new(Arc::clone(&self.thread), guard)
    }
}

impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.keeper.fmt(f)
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.session.fmt(f)
    }
}
