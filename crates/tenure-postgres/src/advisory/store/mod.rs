//! Advisory locks as a store: the modes of resources on three keys each.
//!
//! # The keys of a resource
//!
//! All are of 64 bits, made of its name: the *turn*, the *intent* and the *door*. Each is a [`Guard`] on a
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
//! - A write lease takes two connections, and a third while it waits.
//! - Who does not want to wait may be told busy because of another who was just then refused.
//! - Programs that use the same keys by themselves are excluded, and not listed.

mod list;
mod records;

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tenure_core::duration::DURATION_MAX;
use tenure_core::{
    Binding, Capabilities, Error, Lease, LeaseId, LeaseState, Listing, Mode, Query, Reply, Request,
    Resource, Result, Store, Token, UpgradeRequest,
};
use tenure_files::clock;

use super::standing::PROBE_EVERY;
use super::{AdvisoryLocks, Guard, GuardState, Key, Settings};
use crate::Address;

/// A write lease takes two connections, and a program may hold many: there is room for nearly 50 of them.
const SETTINGS: Settings = Settings {
    pool: 15,
    overflow: 85,
    patience: Duration::from_secs(5),
};

/// What the server waits longer than the asker.
const LONGER: Duration = Duration::from_secs(5);

/// Leases on advisory locks.
pub struct AdvisoryStore {
    locks: AdvisoryLocks,
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

/// What is held of the keys. All None once it is released.
#[derive(Default)]
struct Keys {
    /// Only while it waits for the others.
    turn: Option<Guard>,
    intent: Option<Guard>,
    door: Option<Guard>,
}

impl Keys {
    fn guards(&self) -> impl Iterator<Item = &Guard> {
        self.intent.iter().chain(&self.door)
    }

    /// The door first: whoever gets the intent then finds it open.
    fn in_order(&mut self) -> impl Iterator<Item = Guard> + use<> {
        let all = [self.door.take(), self.intent.take(), self.turn.take()];
        all.into_iter().flatten()
    }

    async fn release(mut self) -> Result<()> {
        let mut released = Ok(());
        for guard in self.in_order() {
            released = released.and(guard.release().await);
        }
        released
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        Guard::drop_in_order(self.in_order());
    }
}

impl Held {
    fn keys(&self) -> MutexGuard<'_, Keys> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How a key is asked for.
#[derive(Debug, Clone, Copy)]
enum Asking {
    Once,
    Until(Duration),
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
            locks,
            held: Mutex::default(),
        })
    }

    /// The keys of a resource: the turn, the intent and the door.
    pub fn keys_of(resource: &Resource) -> [Key; 3] {
        let name = resource.as_str();
        let key = |what: &str| Key::of_name(&format!("{what} {name}"));
        [key("turn"), key("intent"), Key::of_name(name)]
    }

    fn held(&self) -> MutexGuard<'_, HashMap<LeaseId, Arc<Held>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn held_as(&self, lease: &LeaseId) -> Result<Arc<Held>> {
        self.held().get(lease).cloned().ok_or_else(|| over(lease))
    }

    async fn take(&self, key: Key, mode: Mode, asking: Asking) -> Result<Option<Guard>> {
        let session = self.locks.session();
        if let Asking::Until(limit) = asking {
            return session.acquire(key, mode, limit).await.map(Some);
        }
        let taken = session.try_acquire(key, mode).await?;
        if taken.is_some() || !self.locks.owes() {
            return Ok(taken);
        }
        self.locks.settled().await;
        session.try_acquire(key, mode).await
    }

    /// Takes what the mode needs. Dropped half-way, what it has taken is given back with its guard.
    async fn take_keys(&self, request: &Request, asking: Asking) -> Result<Option<Keys>> {
        let [turn, intent, door] = Self::keys_of(&request.resource);
        let mode = request.mode;
        let mut keys = Keys::default();
        if matches!(asking, Asking::Until(_)) || mode == Mode::Read {
            let how = match mode {
                Mode::Read => Mode::Read,
                _ => Mode::Write,
            };
            keys.turn = self.take(turn, how, asking).await?;
            if keys.turn.is_none() {
                return Ok(None);
            }
        }
        if mode != Mode::Read {
            keys.intent = self.take(intent, Mode::Write, asking).await?;
        }
        let may_enter = mode == Mode::Read || keys.intent.is_some();
        if mode != Mode::Upgradeable && may_enter {
            keys.door = self.take(door, mode, asking).await?;
        }
        let wanted = (mode != Mode::Read, mode != Mode::Upgradeable);
        if wanted != (keys.intent.is_some(), keys.door.is_some()) {
            keys.release().await?;
            return Ok(None);
        }
        if let Some(turn) = keys.turn.take() {
            // What is lost with it is the turn, which is over.
            let _ = turn.release().await;
        }
        Ok(Some(keys))
    }

    async fn grant(&self, request: &Request, asking: Asking) -> Result<Option<Lease>> {
        if request.capacity.is_some() {
            return Err(Error::Configuration {
                problem: format!("{} counts no holders, so it has no slots", self.url),
                remedy: "use a store that has them, such as the lease store on postgres://".into(),
            });
        }
        let Some(keys) = self.take_keys(request, asking).await? else {
            return Ok(None);
        };
        if matches!(asking, Asking::Until(_)) && is_late(request) {
            keys.release().await?;
            // Who has given up drops this.
            return std::future::pending().await;
        }
        let (shown_by, guard) = match (&keys.intent, &keys.door) {
            (_, Some(door)) => (Shown::Door, door),
            (Some(intent), None) => (Shown::Intent, intent),
            (None, None) => return Err(Error::Internal("a lease without a key".into())),
        };
        // The first may have been lost while the last was waited for.
        keys.guards().try_for_each(Guard::check)?;
        let drawn = (request.mode == Mode::Write).then(|| guard.token());
        let (token, acquired_at) = records::show(guard, request, drawn).await?;
        let held = Held {
            resource: request.resource.clone(),
            shown_by,
            keys: Mutex::new(keys),
        };
        self.held().insert(request.lease.clone(), Arc::new(held));
        let asker = &request.asker;
        Ok(Some(Lease {
            lease: request.lease.clone(),
            resource: request.resource.clone(),
            mode: request.mode,
            owner: asker.owner.clone(),
            session: asker.session.clone(),
            token,
            acquired_at,
            expires_at: None,
            heartbeat_at: acquired_at,
            binding: Binding::Session,
            state: LeaseState::Held,
            pid: asker.pid,
            host: asker.host.clone(),
            command: asker.command.clone(),
            purpose: request.purpose.clone(),
            metadata: request.metadata.clone(),
        }))
    }

    async fn raise(&self, lease: &LeaseId, asking: Asking) -> Result<Option<Token>> {
        let held = self.held_as(lease)?;
        let intent = {
            let keys = held.keys();
            match (&keys.intent, &keys.door) {
                (Some(intent), None) => intent.recorder()?,
                (Some(_), Some(_)) => return Err(self.conflict(&held, "upgradeable", "write")),
                _ => return Err(self.conflict(&held, "upgradeable", "read")),
            }
        };
        let [_, _, door] = Self::keys_of(&held.resource);
        let Some(door) = self.take(door, Mode::Write, asking).await? else {
            return Ok(None);
        };
        let token = door.token();
        records::raise(&intent, &held.resource, Mode::Write, Some(token)).await?;
        // Released meanwhile: the door goes with it.
        let mut keys = held.keys();
        if keys.intent.is_none() {
            return Err(over(lease));
        }
        keys.door = Some(door);
        Ok(Some(token))
    }

    async fn lower(&self, lease: &LeaseId) -> Result<Mode> {
        let held = self.held_as(lease)?;
        let (intent, door) = {
            let mut keys = held.keys();
            match (held.shown_by, &keys.intent) {
                (Shown::Intent, Some(intent)) if keys.door.is_some() => {
                    (intent.recorder()?, keys.door.take())
                }
                _ => return Err(self.conflict(&held, "upgraded", "not upgraded")),
            }
        };
        records::raise(&intent, &held.resource, Mode::Upgradeable, None).await?;
        if let Some(door) = door {
            door.release().await?;
        }
        Ok(Mode::Upgradeable)
    }

    /// What the probes of its keys say.
    fn check(&self, lease: &LeaseId) -> Result<()> {
        let held = self.held_as(lease)?;
        let keys = held.keys();
        for guard in keys.guards() {
            guard.check()?;
            if guard.state() == GuardState::Unknown {
                return Err(Error::Unreachable {
                    store: self.url.clone(),
                    problem: "no answer for a second".into(),
                });
            }
        }
        Ok(())
    }

    fn conflict(&self, held: &Held, expected: &str, actual: &str) -> Error {
        let [_, _, door] = Self::keys_of(&held.resource);
        match door.place(Mode::Write, self.locks.address()) {
            Ok(mut place) => {
                place.resource = held.resource.clone();
                Error::Conflict {
                    place,
                    expected: expected.into(),
                    actual: actual.into(),
                }
            }
            Err(error) => error,
        }
    }

    async fn give_back(&self, lease: &LeaseId) -> Result<()> {
        let held = self.held().remove(lease).ok_or_else(|| over(lease))?;
        let keys = std::mem::take(&mut *held.keys());
        keys.release().await
    }
}

/// A little longer than the asker waits: what it waits for ends with the future, and the keeper says why.
fn until(boot_ms: Option<u64>) -> Asking {
    Asking::Until(match boot_ms {
        Some(until) => Duration::from_millis(until.saturating_sub(clock::boot_now())) + LONGER,
        None => DURATION_MAX,
    })
}

/// Whether the asker has given up: it may have been stopped when it should have said so.
fn is_late(request: &Request) -> bool {
    let until = request.until;
    until.is_some_and(|until| clock::boot_now() > until)
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
            let granted = self.grant(request, until(request.until)).await?;
            granted.ok_or_else(|| Error::Internal("a lock that was waited for was skipped".into()))
        })
    }

    fn try_upgrade<'a>(&'a self, lease: &'a LeaseId) -> Reply<'a, Option<Token>> {
        Box::pin(self.raise(lease, Asking::Once))
    }

    fn upgrade<'a>(&'a self, request: &'a UpgradeRequest) -> Reply<'a, Token> {
        Box::pin(async move {
            let raised = self.raise(&request.lease, until(request.until)).await?;
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
        // Its guards give the keys back in the background.
        let held = self.held().remove(lease);
        drop(held.map(|held| std::mem::take(&mut *held.keys())));
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
