//! The entry for programs: locks, sessions and a listing of holders.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tenure_core::patterns::{EntityGuard, EntityLocks};
use tenure_core::{Error, Mode, Result, Token, duration, setters};

use super::acquire::{Ask, acquire};
use super::monitor::{self, Locks};
use super::pool::Pool;
use super::reentry::{HeldKeys, lease_id};
use super::sql::Step;
use super::{Guard, Key, Namespace};
use crate::connect::{ConnectFailure, Connection, open_with_retry};
use crate::{Address, prove, schema};

/// The default wait for a lock.
pub const DEFAULT_WAIT: Duration = Duration::from_secs(15);

/// The limits of connections, and of waits for everything but a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
#[must_use]
pub struct Settings {
    /// Connections that are kept open.
    pub pool: usize,
    /// Connections beyond that, opened when needed and closed afterwards.
    pub overflow: usize,
    /// The longest wait of `lock_or_skip` for a connection, and of a listing for its answer.
    /// Neither waits for a lock that is held.
    pub wait: Duration,
    /// The longest wait of `open` for a server that is away or has no room.
    pub open: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            pool: 15,
            overflow: 10,
            wait: Duration::from_secs(5),
            open: Duration::from_secs(5),
        }
    }
}

impl Settings {
    setters! {
        /// Sets how many connections are kept open.
        with_pool(pool: usize) => pool = pool;
        /// Sets how many connections there may be beyond those.
        with_overflow(overflow: usize) => overflow = overflow;
        /// Sets how long everything but a lock is waited for.
        with_wait(wait: Duration) => wait = wait;
        /// Sets how long `open` waits for a server that is away or has no room.
        with_open(open: Duration) => open = open;
    }
}

/// Advisory locks of one database, each on a connection of its own. Cheap to clone.
#[derive(Clone)]
pub struct AdvisoryLocks {
    pub(super) pool: Arc<Pool>,
    wait: Duration,
}

/// The exclusive locks of one namespace, as [`tenure_core::patterns`] take them.
#[derive(Clone)]
pub struct NamespaceLocks {
    locks: AdvisoryLocks,
    namespace: Namespace,
}

impl EntityLocks for NamespaceLocks {
    type Guard = Guard;

    async fn lock(&self, id: i32, wait: Duration) -> Result<Guard> {
        self.locks.lock(self.namespace, id, wait).await
    }

    async fn lock_or_skip(&self, id: i32) -> Result<Option<Guard>> {
        self.locks.lock_or_skip(self.namespace, id).await
    }

    async fn scope<F: Future>(&self, work: F) -> F::Output {
        self.locks.scope(work).await
    }
}

impl EntityGuard for Guard {
    fn token(&self) -> Token {
        Guard::token(self)
    }

    async fn lost(&self) -> Error {
        Guard::lost(self).await
    }

    async fn release(self) -> Result<()> {
        Guard::release(self).await
    }
}

/// One logical unit of work, which never waits for a lock of its own.
#[derive(Clone)]
pub struct Session {
    pub(super) locks: AdvisoryLocks,
    held_keys: Arc<HeldKeys>,
}

/// The connections of the pool, counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolState {
    /// The number of open connections that are not in use.
    pub kept: usize,
    /// The number of locks that can still be held at once.
    pub free: usize,
}

impl AdvisoryLocks {
    /// Opens the service: proves that the database keeps sessions apart, and makes missing tables.
    ///
    /// # Errors
    ///
    /// `Configuration` behind a pooler that shares sessions, and where rights are missing;
    /// `Unreachable`.
    pub async fn open(url: &str, settings: Settings) -> Result<AdvisoryLocks> {
        duration::check_wait(settings.wait)?;
        let address = Arc::new(Address::parse(url)?.named("advisory"));
        let open = async |deadline| {
            let connection = prove::sessions(&address, "", deadline).await?;
            schema::migrate(&connection, &address, deadline).await?;
            Self::on(Arc::clone(&address), &settings, connection, deadline).await
        };
        open_with_retry(&address, settings.open, open).await
    }

    /// Makes the service of a connection that is proved, to a database that has the tables.
    pub(crate) async fn on(
        address: Arc<Address>,
        settings: &Settings,
        connection: Connection,
        deadline: Instant,
    ) -> Result<AdvisoryLocks, ConnectFailure> {
        let pool = Pool::with(address, settings, connection, deadline).await?;
        Ok(AdvisoryLocks {
            pool: Arc::new(pool),
            wait: settings.wait,
        })
    }

    /// Returns a new session.
    pub fn session(&self) -> Session {
        Session {
            locks: self.clone(),
            held_keys: Arc::default(),
        }
    }

    /// Returns the locks of one namespace, each taken in the session of the [scope](Self::scope) or
    /// one of its own.
    pub fn of(&self, namespace: Namespace) -> NamespaceLocks {
        NamespaceLocks {
            locks: self.clone(),
            namespace,
        }
    }

    /// Waits for an exclusive lock, in the session of the [scope](Self::scope) or one of its own.
    ///
    /// # Errors
    ///
    /// Errors of [`Session::lock`].
    pub async fn lock(&self, namespace: Namespace, id: i32, wait: Duration) -> Result<Guard> {
        self.session_of_scope().lock(namespace, id, wait).await
    }

    /// Takes an exclusive lock if it is free, in the session of the [scope](Self::scope) or one of
    /// its own.
    ///
    /// # Errors
    ///
    /// Errors of [`Session::lock_or_skip`].
    pub async fn lock_or_skip(&self, namespace: Namespace, id: i32) -> Result<Option<Guard>> {
        self.session_of_scope().lock_or_skip(namespace, id).await
    }

    /// Waits for a shared lock, in the session of the [scope](Self::scope) or one of its own.
    ///
    /// # Errors
    ///
    /// Errors of [`Session::lock`].
    pub async fn lock_shared(
        &self,
        namespace: Namespace,
        id: i32,
        wait: Duration,
    ) -> Result<Guard> {
        self.session_of_scope()
            .lock_shared(namespace, id, wait)
            .await
    }

    /// Takes a shared lock if it is not held exclusively, in the session of the
    /// [scope](Self::scope) or one of its own.
    ///
    /// # Errors
    ///
    /// Errors of [`Session::lock_or_skip`].
    pub async fn lock_shared_or_skip(
        &self,
        namespace: Namespace,
        id: i32,
    ) -> Result<Option<Guard>> {
        self.session_of_scope()
            .lock_shared_or_skip(namespace, id)
            .await
    }

    /// Lists every holder and waiter of an advisory lock in this database, of Tenure or not.
    ///
    /// The listing has a connection of its own, so it answers while all others are in use.
    ///
    /// # Errors
    ///
    /// `Unreachable`.
    pub async fn list(&self) -> Result<Locks> {
        monitor::list(&self.pool.address, Instant::now() + self.wait).await
    }

    /// Returns the error for work that asks for a key it holds already.
    ///
    /// # Errors
    ///
    /// Errors of [`Key::context`].
    pub fn reentry(&self, key: Key, mode: Mode) -> Result<Error> {
        Ok(Error::Reentry {
            context: key.context(mode, self.pool.address.to_string())?,
            lease: lease_id(key),
        })
    }

    /// Returns the number of connections.
    pub fn pool_state(&self) -> PoolState {
        let (kept, free) = self.pool.kept_and_free();
        PoolState { kept, free }
    }
}

impl Session {
    /// Waits for an exclusive lock.
    ///
    /// # Errors
    ///
    /// `Timeout` if it was not free in time; `Reentry`, at once, if this session holds it or asks
    /// for it; `Exhausted` if no connection came back in time; `Unreachable`.
    pub async fn lock(&self, namespace: Namespace, id: i32, wait: Duration) -> Result<Guard> {
        self.acquire(Key::Pair(namespace, id), Mode::Write, wait)
            .await
    }

    /// Takes an exclusive lock if it is free. Returns `None` if any session holds it, this one
    /// included.
    ///
    /// # Errors
    ///
    /// `Exhausted` if no connection came back in time; `Unreachable`.
    pub async fn lock_or_skip(&self, namespace: Namespace, id: i32) -> Result<Option<Guard>> {
        self.try_acquire(Key::Pair(namespace, id), Mode::Write)
            .await
    }

    /// Waits for a shared lock.
    ///
    /// # Errors
    ///
    /// Errors of [`lock`](Session::lock).
    pub async fn lock_shared(
        &self,
        namespace: Namespace,
        id: i32,
        wait: Duration,
    ) -> Result<Guard> {
        self.acquire(Key::Pair(namespace, id), Mode::Read, wait)
            .await
    }

    /// Takes a shared lock if it is not held exclusively.
    ///
    /// # Errors
    ///
    /// Errors of [`lock_or_skip`](Session::lock_or_skip).
    pub async fn lock_shared_or_skip(
        &self,
        namespace: Namespace,
        id: i32,
    ) -> Result<Option<Guard>> {
        self.try_acquire(Key::Pair(namespace, id), Mode::Read).await
    }

    /// Waits for any key, shared (read) or exclusive (write).
    ///
    /// # Errors
    ///
    /// Errors of [`lock`](Session::lock); `BadInput` for the mode upgradeable, which advisory locks
    /// do not have.
    pub async fn acquire(&self, key: Key, mode: Mode, wait: Duration) -> Result<Guard> {
        duration::check_wait(wait)?;
        match self.ask(Step::Lock, key, mode, wait)? {
            None => Err(self.locks.reentry(key, mode)?),
            Some(ask) => acquire(&self.locks.pool, ask)
                .await?
                .ok_or_else(|| Error::Internal("a lock that was waited for was skipped".into())),
        }
    }

    /// Takes any key if that needs no waiting.
    ///
    /// # Errors
    ///
    /// Errors of [`lock_or_skip`](Session::lock_or_skip); `BadInput` for the mode upgradeable.
    pub async fn try_acquire(&self, key: Key, mode: Mode) -> Result<Option<Guard>> {
        match self.ask(Step::Try, key, mode, self.locks.wait)? {
            None => Ok(None),
            Some(ask) => acquire(&self.locks.pool, ask).await,
        }
    }

    /// Reserves the key for a request. Returns `None` if the session holds the key or asks for it.
    fn ask(&self, step: Step, key: Key, mode: Mode, limit: Duration) -> Result<Option<Ask>> {
        if mode == Mode::Upgradeable {
            let problem = "an advisory lock is read or write, never upgradeable";
            return Err(Error::BadInput(problem.into()));
        }
        Ok(self.held_keys.reserve(key).map(|reservation| Ask {
            step,
            key,
            mode,
            reservation,
            limit,
        }))
    }
}
