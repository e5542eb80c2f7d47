//! The database in use: connections, the listener, and the state that all steps share.

use std::future::Future;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tenure_core::decide::{Millis, Wait};
use tenure_core::internal::written_order::StoreOrder;
use tenure_core::leases::{check_heartbeat, check_stale_grace, grace};
use tenure_core::{Error, LeaseId, LockContext, Mode, Resource, Result, RetryPolicy, SessionId};
use tenure_os::random;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_postgres::Row;

use super::OpenOptions;
use super::cleanup::PendingCleanup;
use super::examine;
use super::listener::Listener;
use super::pool::{Pool, PooledConnection};
use super::presence::Presences;
use super::retry::{Retry, time_left};
use super::sql::{Statement, Value};
use crate::advisory::{self, AdvisoryLocks};
use crate::connect::{ConnectFailure, Connection, open_with_retry};
use crate::{Address, prove, schema};

/// The time to live of a guard's lease, where the address does not say otherwise.
const TTL: Duration = Duration::from_secs(30);

/// The time that a listing or a request waits for the background work of this process.
const BACKGROUND_WAIT_MAX: Duration = Duration::from_secs(2);

/// The state that the store and its background work share.
pub(super) struct Inner {
    /// A reference to itself, for work that runs on after a drop.
    pub(super) itself: Weak<Inner>,
    url: String,
    pub(super) process: String,
    pub(super) ttl: Duration,
    options: OpenOptions,
    order: Option<StoreOrder>,
    /// The order that counts in a store in which none is written down.
    pub(super) default_order: String,
    pool: Arc<Pool>,
    pub(super) listener: Listener,
    pub(super) presences: Presences,
    pub(super) pending_cleanup: PendingCleanup,
    runtime: Handle,
    /// The number of pieces of background work that are under way.
    background_work: watch::Sender<usize>,
}

impl Inner {
    /// Proves that no pooler shares sessions, and creates the tables that are missing.
    pub(super) async fn open(address: Address, options: OpenOptions) -> Result<Arc<Inner>> {
        let ttl = checked_ttl(&address, &options)?;
        let address = Arc::new(address);
        let open = async |deadline| {
            let pool = Pool::new(Arc::clone(&address), ttl);
            let connection = prove::sessions(&address, pool.settings(), deadline).await?;
            Self::set_up(pool, connection, ttl, &options, deadline).await
        };
        open_with_retry(&address, options.wait, open).await
    }

    /// Opens the store and advisory locks of the same database: the two connections of the proof
    /// are kept, one for each.
    pub(super) async fn open_with_locks(
        address: Address,
        options: OpenOptions,
        settings: &advisory::Settings,
    ) -> Result<(Arc<Inner>, AdvisoryLocks)> {
        let ttl = checked_ttl(&address, &options)?;
        let address = Arc::new(address);
        let named = Arc::new(address.named("advisory"));
        let open = async |deadline| {
            let pool = Pool::new(Arc::clone(&address), ttl);
            let both = [(&address, pool.settings()), (&named, "")];
            let [first, second] = prove::two_sessions(both, deadline).await?;
            let inner = Self::set_up(pool, first, ttl, &options, deadline).await?;
            let named = Arc::clone(&named);
            let locks = AdvisoryLocks::on(named, settings, second, deadline).await?;
            Ok((inner, locks))
        };
        open_with_retry(&address, options.wait, open).await
    }

    async fn set_up(
        pool: Arc<Pool>,
        connection: Connection,
        ttl: Duration,
        options: &OpenOptions,
        deadline: Instant,
    ) -> Result<Arc<Inner>, ConnectFailure> {
        let address = Arc::clone(pool.address());
        examine::refuse_old(connection.server(), &address)?;
        schema::migrate(&connection, &address, deadline).await?;
        let process = SessionId::from_random(random::bytes()).as_str().to_owned();
        pool.adopt(connection);
        Ok(Arc::new_cyclic(|itself| Inner {
            itself: Weak::clone(itself),
            url: address.to_string(),
            ttl,
            order: options.order.clone().map(StoreOrder::new),
            default_order: StoreOrder::default_text(),
            options: options.clone(),
            listener: Listener::new(Arc::clone(&pool), process.clone()),
            presences: Presences::default(),
            pending_cleanup: PendingCleanup::default(),
            runtime: Handle::current(),
            background_work: watch::Sender::new(0),
            process,
            pool,
        }))
    }

    /// Returns the address, without a password.
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// Returns the policy by which requests are repeated after passing faults.
    pub(super) fn retry_policy(&self) -> &RetryPolicy {
        &self.options.retry
    }

    /// Returns how old the heartbeat of a lease gets before its guard renews it.
    pub(super) fn heartbeat(&self, ttl: Duration) -> Duration {
        let third = ttl / 3;
        self.options
            .heartbeat
            .map_or(third, |every| third.min(every))
    }

    /// Returns the order of the locks of this process, if it was set.
    pub(super) fn order(&self) -> Option<&StoreOrder> {
        self.order.as_ref()
    }

    /// Returns how old the heartbeat of a lease without a guard may get if the lease is given this
    /// time.
    pub(super) fn grace(&self, ttl: Duration) -> Duration {
        grace(ttl, self.options.stale_grace)
    }

    /// Runs work that a drop leaves behind, in the runtime the store was opened in.
    pub(super) fn run_in_background(&self, work: impl Future<Output = ()> + Send + 'static) {
        let Some(inner) = self.itself.upgrade() else {
            return;
        };
        inner.background_work.send_modify(|count| *count += 1);
        let counted = BackgroundWork(inner);
        self.runtime.spawn(async move {
            work.await;
            drop(counted);
        });
    }

    /// Waits until the background work is done, for [`BACKGROUND_WAIT_MAX`] at most: a process does
    /// not see leases that it has ended itself.
    pub(super) async fn background_done(&self) {
        let mut background_work = self.background_work.subscribe();
        // Work that is left after that still shows as leases.
        drop(
            timeout(
                BACKGROUND_WAIT_MAX,
                background_work.wait_for(|count| *count == 0),
            )
            .await,
        );
    }

    pub(super) fn address(&self) -> &Arc<Address> {
        self.pool.address()
    }

    /// Returns a connection, for statements that are transactions of their own.
    pub(super) async fn lend(&self) -> Result<PooledConnection> {
        self.lend_until(Millis::MAX).await
    }

    /// Returns a connection for a caller whose time ends at `until`.
    pub(super) async fn lend_until(&self, until: Millis) -> Result<PooledConnection> {
        self.pool
            .lend(Duration::from_millis(time_left(until)))
            .await
    }

    /// Returns a connection for work that cannot wait until others are done.
    pub(super) async fn lend_urgently(&self) -> Result<PooledConnection> {
        self.pool.lend_urgently().await
    }

    /// Runs one statement, and returns the first row of its answer.
    pub(super) async fn row(
        &self,
        text: &'static str,
        values: Vec<Value<'_>>,
    ) -> Result<Option<Row>> {
        self.lend().await?.row(&Statement::new(text, values)).await
    }

    /// Runs a statement, again while it fails in passing, and returns its rows.
    pub(super) async fn rows(&self, statement: &Statement<'_>) -> Result<Vec<Row>> {
        let run = || async { self.lend().await?.rows(statement).await };
        self.retrying(run).await
    }

    /// Tries again after a passing error, as often as the policy says.
    pub(super) async fn retrying<T, F>(&self, mut ask: impl FnMut() -> F) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        let mut retry = Retry::of(Wait::No, self.retry_policy());
        loop {
            match ask().await {
                Ok(done) => return Ok(done),
                Err(error) => retry.pause(error).await?,
            };
        }
    }

    pub(super) fn context(&self, resource: &Resource, mode: Mode) -> Box<LockContext> {
        Box::new(LockContext::new(
            resource.clone(),
            mode,
            self.url.clone(),
            "tenure.dal_locks",
        ))
    }

    /// Returns the error for a lease that is gone, with its end if that is known.
    pub(super) async fn gone(&self, lease: &LeaseId) -> Error {
        match self.ended(lease).await {
            Ok(Some(reason)) => Error::over(lease, reason),
            _ => Error::not_held(lease),
        }
    }
}

/// Returns the time to live of a guard's lease, if the options suit it.
fn checked_ttl(address: &Address, options: &OpenOptions) -> Result<Duration> {
    let ttl = address.lease_ttl.unwrap_or(TTL);
    if let Some(heartbeat) = options.heartbeat {
        check_heartbeat(heartbeat, Some(ttl))?;
    }
    if let Some(grace) = options.stale_grace {
        check_stale_grace(grace)?;
    }
    Ok(ttl)
}

/// One piece of background work, counted until dropped.
struct BackgroundWork(Arc<Inner>);

impl Drop for BackgroundWork {
    fn drop(&mut self) {
        self.0.background_work.send_modify(|count| *count -= 1);
    }
}
