//! The database in use: connections, the ear, and what all steps say of the store.

use std::future::Future;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tenure_core::decide::Millis;
use tenure_core::{Error, LeaseId, Mode, Place, Resource, Result, RetryPolicy, SessionId};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_postgres::Row;

use super::ear::Ear;
use super::examine;
use super::owed::Debts;
use super::patience::time_left;
use super::pool::{Lent, Pool, Transaction};
use super::sql::Asked;
use super::stays::Stays;
use crate::connect::{left, spread};
use crate::fault::unreachable;
use crate::{Address, prove, schema};

/// The time to live of a guard's lease, where the address does not say otherwise.
const TTL: Duration = Duration::from_secs(30);

/// How long a look waits for what this process itself has left behind.
const SETTLE: Duration = Duration::from_secs(2);

/// What the store and its background work have in common.
pub(super) struct Inner {
    /// Itself, for work that goes on after a drop.
    pub(super) itself: Weak<Inner>,
    url: String,
    process: String,
    ttl: Duration,
    pool: Arc<Pool>,
    pub(super) ear: Ear,
    pub(super) stays: Stays,
    pub(super) debts: Debts,
    runtime: Handle,
    /// How much goes on that a drop left behind.
    behind: watch::Sender<usize>,
}

impl Inner {
    /// Proves that sessions are sessions, and makes the tables that are missing.
    pub(super) async fn open(address: Address, deadline: Instant) -> Result<Arc<Inner>> {
        let address = Arc::new(address);
        let opened = timeout(left(deadline), Self::set_up(Arc::clone(&address), deadline)).await;
        opened.map_err(|_| unreachable(&address, "no answer in time"))?
    }

    async fn set_up(address: Arc<Address>, deadline: Instant) -> Result<Arc<Inner>> {
        let connection = prove::sessions(&address, deadline).await?;
        examine::refuse_old(&connection, &address).await?;
        schema::migrate(&connection, &address, deadline).await?;
        let process = SessionId::from_random(random()).as_str().to_owned();
        let ttl = address.lease_ttl().unwrap_or(TTL);
        let pool = Pool::new(Arc::clone(&address), ttl);
        pool.adopt(connection, deadline).await?;
        Ok(Arc::new_cyclic(|itself| Inner {
            itself: Weak::clone(itself),
            url: address.to_string(),
            ttl,
            ear: Ear::new(Arc::clone(&pool), process.clone()),
            stays: Stays::default(),
            debts: Debts::default(),
            runtime: Handle::current(),
            behind: watch::Sender::new(0),
            process,
            pool,
        }))
    }

    /// The address, without a password.
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// The name of this process in the tables, and of the channel it is woken by.
    pub(super) fn process(&self) -> &str {
        &self.process
    }

    /// How long a lease lasts that nobody renews.
    pub(super) fn ttl(&self) -> Duration {
        self.ttl
    }

    /// Goes on with something that a drop leaves behind, in the runtime the store was opened in.
    pub(super) fn leave_behind(&self, work: impl Future<Output = ()> + Send + 'static) {
        let Some(inner) = self.itself.upgrade() else {
            return;
        };
        inner.behind.send_modify(|count| *count += 1);
        let counted = Behind(inner);
        self.runtime.spawn(async move {
            work.await;
            drop(counted);
        });
    }

    /// Waits until nothing of that goes on any more, for a moment at most: a process sees what
    /// itself has ended.
    pub(super) async fn settled(&self) {
        let mut behind = self.behind.subscribe();
        // Whatever is left after that is told by the leases themselves.
        drop(timeout(SETTLE, behind.wait_for(|count| *count == 0)).await);
    }

    pub(super) fn address(&self) -> &Arc<Address> {
        self.pool.address()
    }

    /// A connection, for statements that are transactions of their own.
    pub(super) async fn lend(&self) -> Result<Lent> {
        self.lend_until(Millis::MAX).await
    }

    /// The same for a caller whose time ends then.
    pub(super) async fn lend_until(&self, until: Millis) -> Result<Lent> {
        self.pool
            .lend(Duration::from_millis(time_left(until)))
            .await
    }

    /// The same for what cannot wait until others are done.
    pub(super) async fn lend_urgently(&self) -> Result<Lent> {
        self.pool.lend_urgently().await
    }

    /// A transaction, and these statements, in one round trip.
    pub(super) async fn begin(&self, first: &[Asked<'_>]) -> Result<(Transaction, Vec<Vec<Row>>)> {
        self.lend().await?.begin(first).await
    }

    /// The same for what cannot wait until others are done.
    pub(super) async fn begin_urgently(
        &self,
        first: &[Asked<'_>],
    ) -> Result<(Transaction, Vec<Vec<Row>>)> {
        self.lend_urgently().await?.begin(first).await
    }

    /// Asks again where a fault passes: a few times, with pauses.
    pub(super) async fn retrying<T, F>(&self, mut ask: impl FnMut() -> F) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        let policy = RetryPolicy::default();
        let mut failed = 0;
        loop {
            let error = match ask().await {
                Ok(done) => return Ok(done),
                Err(error) => error,
            };
            failed += 1;
            match policy.pause(failed, spread()) {
                Some(pause) if error.is_passing() => sleep(pause).await,
                _ => return Err(error),
            }
        }
    }

    pub(super) fn place(&self, resource: &Resource, mode: Mode) -> Box<Place> {
        Box::new(Place {
            resource: resource.clone(),
            mode,
            store: self.url.clone(),
            location: "tenure.dal_locks".into(),
        })
    }

    /// The error for a request whose time is over.
    pub(super) fn late(&self, resource: &Resource, mode: Mode) -> Error {
        Error::Busy {
            place: self.place(resource, mode),
            holders: Vec::new(),
        }
    }

    /// The error for a lease that is not there.
    pub(super) fn over(&self, lease: &LeaseId) -> Error {
        Error::LeaseOver {
            lease: lease.clone(),
            reason: "it is not held in this store".into(),
        }
    }

    /// The same, with how it ended where that is known.
    pub(super) async fn gone(&self, lease: &LeaseId) -> Error {
        match self.how_it_ended(lease).await {
            Ok(Some(reason)) => Error::LeaseOver {
                lease: lease.clone(),
                reason,
            },
            _ => self.over(lease),
        }
    }
}

/// One thing that goes on; counted until it is done or dropped.
struct Behind(Arc<Inner>);

impl Drop for Behind {
    fn drop(&mut self) {
        self.0.behind.send_modify(|count| *count -= 1);
    }
}

fn random() -> [u8; 10] {
    let mut bytes = [0; 10];
    let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    assert_eq!(
        filled,
        Ok(10),
        "the kernel gives a few random bytes at once"
    );
    bytes
}
