//! Advisory locks as a store: the modes of resources on three keys each.
//!
//! # The keys of a resource
//!
//! All are of 64 bits, made of its name: the *turn*, the *intent* and the *door*. Each is a [`Guard`](super::Guard) on a
//! connection of its own, and they are taken in this order.
//!
//! | mode | turn, while it waits | intent | door |
//! |---|---|---|---|
//! | read | shared | | shared |
//! | upgradeable | exclusive | exclusive | |
//! | write | exclusive | exclusive | exclusive |
//! | upgraded | | exclusive | exclusive |
//!
//! So readers share with readers and with one upgradeable holder, and everything else excludes. The turn keeps those who come
//! later behind whoever waits to be alone. Nobody waits for a key that comes before one it has: there is no circle.
//!
//! An upgrade takes the door, past the turn: it goes before the line, waits for the readers that are there, and the server
//! lets no later one pass it. Dropped, it leaves the intent as it was. A downgrade gives the door back.
//!
//! Who does not want to wait takes no turn, except to read: who waits with a turn has the intent, or waits for who has it.
//!
//! | file | step |
//! |---|---|
//! | `acquire`, `release` | a new lease; its end |
//! | `upgrade` | upgradeable to write and back |
//! | `renew` | proof |
//! | `list`, `records` | who holds; what others see of a lease |
//! | `keys` | the keys of a resource, and how they are taken |
//! | `line` | the line within this process, and room for connections |
//!
//! # What a drop leaves behind
//!
//! A dropped guard or future frees its keys in the background. Whoever drops one and asks again expects it to be free. So a
//! request that would be told busy, and a look, wait for what this process is about to give back.
//!
//! # Guarantees
//!
//! - As the service: a lock ends with its connection, tokens never go back, a dropped future leaves nothing.
//! - A token is drawn with the door, and noted durably before the lease is told.
//!
//! # Limitations
//!
//! - No leases of their own, and no capacities: the server counts no holders.
//! - Waiters are not listed, and the order among those who wait is the server's.
//! - A write lease takes two connections, and a third while it waits. An upgradeable one counts for as many, so that an
//!   upgrade never waits for a connection. A process has 100: beyond that nothing is granted until some are given back.
//! - Of those of one process that wait for the same resource ten wait at the server, and the others for their place among
//!   the ten.
//! - Who does not want to wait may be told busy because of another who was just then refused.
//! - Programs that use the same keys by themselves are excluded, and not listed.

mod acquire;
mod keys;
mod line;
mod list;
mod records;
mod release;
mod renew;
mod upgrade;

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tenure_core::{
    Capabilities, Error, Lease, LeaseId, Listing, Mode, Query, Reply, Request, Resource, Result,
    Store, Token, UpgradeRequest,
};

use super::standing::PROBE_EVERY;
use super::{AdvisoryLocks, Settings};
use crate::Address;
use keys::{Asking, Keys};
use line::Line;

/// A write lease takes two connections, and a program may hold many: there is room for nearly 50 of them.
const SETTINGS: Settings = Settings {
    pool: 15,
    overflow: 85,
    patience: Duration::from_secs(5),
};

/// Leases on advisory locks.
pub struct AdvisoryStore {
    locks: AdvisoryLocks,
    line: Line,
    url: String,
    held: Mutex<HashMap<LeaseId, Arc<Held>>>,
}

/// A lease of this process.
struct Held {
    resource: Resource,
    /// What others see of it.
    shown_by: Shown,
    keys: Mutex<Keys>,
}

/// The guard whose connection the record of a lease is kept for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shown {
    Intent,
    Door,
}

impl Held {
    fn keys(&self) -> MutexGuard<'_, Keys> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AdvisoryStore {
    /// Opens the store in the database at `postgres://…`.
    ///
    /// # Errors
    ///
    /// As [`AdvisoryLocks::open`].
    pub async fn open(address: &str) -> Result<AdvisoryStore> {
        // Whoever looks at the server sees whose connections these are.
        let name = format!("advisory, process {}", std::process::id());
        let address = Address::parse(address)?.named(&name);
        let locks = AdvisoryLocks::open_at(address, SETTINGS).await?;
        Ok(AdvisoryStore {
            url: format!("advisory:{}", locks.address()),
            line: Line::new(&SETTINGS),
            locks,
            held: Mutex::default(),
        })
    }

    fn held(&self) -> MutexGuard<'_, HashMap<LeaseId, Arc<Held>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn held_as(&self, lease: &LeaseId) -> Result<Arc<Held>> {
        self.held().get(lease).cloned().ok_or_else(|| over(lease))
    }
}

fn over(lease: &LeaseId) -> Error {
    Error::LeaseOver {
        lease: lease.clone(),
        reason: "this process does not hold it".into(),
    }
}

impl Store for AdvisoryStore {
    fn url(&self) -> &str {
        &self.url
    }

    fn place_of(&self, resource: &Resource) -> String {
        let [turn, intent, door] = Self::keys_of(resource);
        format!("advisory lock {door}, after {turn} and {intent}")
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            strict_order: false,
            lists_waiters: false,
            cross_process: true,
            check_every: Some(PROBE_EVERY),
            ttl: None,
            slots: false,
        }
    }

    fn try_acquire<'a>(&'a self, request: &'a Request) -> Reply<'a, Option<Lease>> {
        Box::pin(self.grant(request, Asking::Once))
    }

    fn acquire<'a>(&'a self, request: &'a Request) -> Reply<'a, Lease> {
        Box::pin(async move {
            let granted = self.grant(request, Asking::Until(request.until)).await?;
            granted.ok_or_else(|| Error::Internal("a lock that was waited for was skipped".into()))
        })
    }

    fn try_upgrade<'a>(&'a self, lease: &'a LeaseId) -> Reply<'a, Option<Token>> {
        Box::pin(self.raise(lease, Asking::Once))
    }

    fn upgrade<'a>(&'a self, request: &'a UpgradeRequest) -> Reply<'a, Token> {
        Box::pin(async move {
            let asking = Asking::Until(request.until);
            let raised = self.raise(&request.lease, asking).await?;
            raised
                .ok_or_else(|| Error::Internal("an upgrade that was waited for was skipped".into()))
        })
    }

    fn downgrade<'a>(&'a self, lease: &'a LeaseId) -> Reply<'a, Mode> {
        Box::pin(self.lower(lease))
    }

    fn renew<'a>(&'a self, lease: &'a LeaseId) -> Reply<'a, Option<Duration>> {
        Box::pin(std::future::ready(self.check(lease).map(|()| None)))
    }

    fn release<'a>(&'a self, lease: &'a LeaseId) -> Reply<'a, ()> {
        Box::pin(self.give_back(lease))
    }

    fn abandon(&self, lease: &LeaseId) {
        self.let_go(lease);
    }

    fn list<'a>(&'a self, query: &'a Query) -> Reply<'a, Listing> {
        Box::pin(async move {
            self.locks.settled().await;
            list::list(&self.locks, query).await
        })
    }

    fn token<'a>(&'a self, resource: &'a Resource) -> Reply<'a, Token> {
        Box::pin(list::token(&self.locks, resource))
    }

    fn descriptor(&self, _lease: &LeaseId) -> Result<Option<OwnedFd>> {
        Ok(None)
    }
}
