//! The line within this process, and room for connections.
//!
//! A request takes up to three connections one after the other, and gives none back before it has the last. Taken
//! singly, those behind it would take the last ones, and all would wait for each other.
//!
//! # Invariants
//!
//! - A request has [`Room`] for all its connections before its first key, and a lease for those of an upgrade, too. So who
//!   has a key never waits for a connection of somebody who waits for that key.
//! - Of those who wait for one resource [`AT_THE_SERVER`] take keys. The others wait for a [`Place`], in the order in which
//!   they came, and take no room from who wants something else.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tenure_core::{Error, Resource, Result};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::{Address, Settings};

/// How many of those who wait for one resource do so at the server.
const AT_THE_SERVER: usize = 10;

pub(super) struct Line {
    room: Arc<Semaphore>,
    limit: usize,
    patience: Duration,
    places: Arc<Places>,
}

/// Room for a number of connections, until dropped. What is dropped with it is on its way back, and is waited for.
pub(super) struct Room(OwnedSemaphorePermit);

/// A place among those who take keys of a resource, until dropped.
pub(super) struct Place {
    _permit: OwnedSemaphorePermit,
    _entry: Entry,
}

/// Somebody who wants a place, or has one.
struct Entry {
    resource: Resource,
    places: Arc<Places>,
}

/// The free places of every resource that somebody waits for, and how many have an entry.
#[derive(Default)]
struct Places(Mutex<HashMap<Resource, (Arc<Semaphore>, usize)>>);

impl Line {
    pub(super) fn new(settings: &Settings) -> Line {
        let limit = settings.pool + settings.overflow;
        Line {
            room: Arc::new(Semaphore::new(limit)),
            limit,
            patience: settings.patience,
            places: Arc::default(),
        }
    }

    /// Waits for a place among those who take keys of a resource.
    pub(super) async fn place(&self, resource: &Resource) -> Result<Place> {
        let (free, entry) = Places::enter(&self.places, resource);
        let permit = free.acquire_owned().await.map_err(|_| closed())?;
        Ok(Place {
            _permit: permit,
            _entry: entry,
        })
    }

    /// Waits for room.
    pub(super) async fn room(&self, connections: u32) -> Result<Room> {
        let room = Arc::clone(&self.room).acquire_many_owned(connections);
        room.await.map(Room).map_err(|_| closed())
    }

    /// Waits for room as long as whoever does not want to wait for a lock.
    pub(super) async fn room_soon(&self, connections: u32, address: &Address) -> Result<Room> {
        let asked = Instant::now();
        let room = timeout(self.patience, self.room(connections)).await;
        room.unwrap_or_else(|_| {
            Err(Error::Exhausted {
                store: address.to_string(),
                limit: self.limit,
                waited: asked.elapsed(),
            })
        })
    }
}

impl Room {
    /// Gives back what is beyond so many connections.
    pub(super) fn shrink(&mut self, connections: u32) {
        let beyond = self.0.num_permits().saturating_sub(connections as usize);
        drop(self.0.split(beyond));
    }
}

impl Places {
    /// The places of a resource. They are kept for as long as somebody has an entry.
    fn enter(places: &Arc<Places>, resource: &Resource) -> (Arc<Semaphore>, Entry) {
        let mut all = places.all();
        let (free, entries) = all
            .entry(resource.clone())
            .or_insert_with(|| (Arc::new(Semaphore::new(AT_THE_SERVER)), 0));
        *entries += 1;
        let entry = Entry {
            resource: resource.clone(),
            places: Arc::clone(places),
        };
        (Arc::clone(free), entry)
    }

    fn all(&self) -> MutexGuard<'_, HashMap<Resource, (Arc<Semaphore>, usize)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut all = self.places.all();
        if let Some((_, entries)) = all.get_mut(&self.resource) {
            *entries -= 1;
            if *entries == 0 {
                all.remove(&self.resource);
            }
        }
    }
}

fn closed() -> Error {
    Error::Internal("the line was closed".into())
}
