//! A store for tests: it fails, dawdles and logs its calls as a test wants.

mod leases;

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tenure::internal::LeaseStore;
use tenure::memory::MemoryStore;
use tenure::store::{Capabilities, Reply, Request, Store, UpgradeRequest};
use tenure::{
    Error, Keeper, Lease, LeaseId, Listing, Mode, Query, Resource, Result, SessionId, Settings,
    Token,
};

pub struct FaultyStore {
    /// The store that does the work; by default a memory store.
    inner: Arc<dyn Store>,
    check_every: Option<Duration>,
    /// The time that a lease lasts, if it expires.
    ttl: Option<Duration>,
    /// Decides over all renewals until it is set again.
    renew_behaviour: Mutex<RenewBehaviour>,
    /// The number of times that each call yields before it does anything.
    yields: usize,
    /// Errors that the next calls return; a call is named `call` or `call what`.
    faults: Mutex<VecDeque<(&'static str, Error)>>,
    /// Errors that the next downgrades return although they are done.
    lost_answers: Mutex<VecDeque<Error>>,
    log: Mutex<Vec<String>>,
}

/// The behaviour of renewals.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum RenewBehaviour {
    #[default]
    Normal,
    /// It fails.
    Failing,
    /// It is never answered.
    Silent,
    /// It is never answered if it is for this lease.
    SilentFor(LeaseId),
    /// It is answered after this time.
    Slow(Duration),
}

pub fn passing() -> Error {
    Error::io("lock", "/x", io::Error::from(io::ErrorKind::WouldBlock))
}

pub fn broken() -> Error {
    let source = io::Error::from(io::ErrorKind::PermissionDenied);
    Error::io("lock", "/x", source)
}

pub fn over(reason: &str) -> Error {
    Error::over(&LeaseId::parse("x").unwrap(), reason)
}

impl Default for FaultyStore {
    fn default() -> Self {
        FaultyStore::over(Arc::new(MemoryStore::new()))
    }
}

impl FaultyStore {
    /// Makes a store in front of another one.
    pub fn over(inner: Arc<dyn Store>) -> FaultyStore {
        FaultyStore {
            inner,
            check_every: None,
            ttl: None,
            renew_behaviour: Mutex::default(),
            yields: 0,
            faults: Mutex::default(),
            lost_answers: Mutex::default(),
            log: Mutex::default(),
        }
    }

    /// Makes a store whose locks can be lost, and are checked this often.
    pub fn checked(every: Duration) -> FaultyStore {
        FaultyStore {
            check_every: Some(every),
            ..FaultyStore::default()
        }
    }

    /// Makes a store whose leases run out unless they are renewed.
    pub fn leased(ttl: Duration) -> FaultyStore {
        FaultyStore {
            check_every: Some(Duration::from_secs(2)),
            ttl: Some(ttl),
            ..FaultyStore::default()
        }
    }

    /// Sets how renewals behave from now on.
    pub fn renewals_become(&self, renew_behaviour: RenewBehaviour) {
        *self.renew_behaviour.lock().unwrap() = renew_behaviour;
    }

    /// Makes a store whose calls have await points.
    pub fn dawdling() -> FaultyStore {
        FaultyStore::default().dawdle()
    }

    /// Gives the calls of this store await points.
    pub fn dawdle(self) -> FaultyStore {
        FaultyStore { yields: 2, ..self }
    }

    pub fn fail(&self, call: &'static str, error: Error) {
        self.faults.lock().unwrap().push_back((call, error));
    }

    /// Lets the next downgrade be done and answer with this error.
    pub fn lose_downgrade(&self, error: Error) {
        self.lost_answers.lock().unwrap().push_back(error);
    }

    /// Returns all calls so far, as `call what`.
    pub fn log(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }

    pub fn count(&self, call: &str) -> usize {
        let is = |entry: &&String| entry.split(' ').next() == Some(call);
        self.log().iter().filter(is).count()
    }

    pub fn keep(self) -> (Arc<FaultyStore>, Keeper) {
        self.keep_with(Settings::default())
    }

    pub fn keep_with(self, settings: Settings) -> (Arc<FaultyStore>, Keeper) {
        let store = Arc::new(self);
        let keeper = Keeper::from_store(store.clone(), settings);
        (store, keeper)
    }

    async fn begin(&self, call: &'static str, what: &str) -> Result<()> {
        self.log.lock().unwrap().push(format!("{call} {what}"));
        for _ in 0..self.yields {
            tokio::task::yield_now().await;
        }
        let mut faults = self.faults.lock().unwrap();
        let all = format!("{call} {what}");
        match faults.iter().position(|(of, _)| *of == call || *of == all) {
            Some(at) => Err(faults.remove(at).unwrap().1),
            None => Ok(()),
        }
    }
}

impl Store for FaultyStore {
    fn url(&self) -> &str {
        self.inner.url()
    }

    fn location_of(&self, resource: &Resource) -> String {
        self.inner.location_of(resource)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            check_every: self.check_every,
            ttl: self.ttl,
            ..self.inner.capabilities()
        }
    }

    fn acquire<'a>(&'a self, request: &'a Request) -> Reply<'a, Option<Lease>> {
        Box::pin(async move {
            self.begin("acquire", request.resource.as_str()).await?;
            self.inner.acquire(request).await
        })
    }

    fn upgrade<'a>(&'a self, request: &'a UpgradeRequest) -> Reply<'a, Option<Token>> {
        Box::pin(async move {
            self.begin("upgrade", request.lease.as_str()).await?;
            self.inner.upgrade(request).await
        })
    }

    fn downgrade<'a>(&'a self, lease: &'a LeaseId) -> Reply<'a, Mode> {
        Box::pin(async move {
            self.begin("downgrade", lease.as_str()).await?;
            let done = self.inner.downgrade(lease).await;
            match self.lost_answers.lock().unwrap().pop_front() {
                Some(error) => Err(error),
                None => done,
            }
        })
    }

    fn renew<'a>(&'a self, lease: &'a LeaseId) -> Reply<'a, Option<Duration>> {
        Box::pin(async move {
            self.begin("renew", lease.as_str()).await?;
            let renew_behaviour = self.renew_behaviour.lock().unwrap().clone();
            match renew_behaviour {
                RenewBehaviour::Normal => {}
                RenewBehaviour::Failing => return Err(broken()),
                RenewBehaviour::SilentFor(other) if other != *lease => {}
                RenewBehaviour::Silent | RenewBehaviour::SilentFor(_) => {
                    std::future::pending().await
                }
                RenewBehaviour::Slow(time) => tokio::time::sleep(time).await,
            }
            self.inner.renew(lease).await?;
            Ok(self.ttl)
        })
    }

    fn release<'a>(&'a self, lease: &'a LeaseId) -> Reply<'a, ()> {
        Box::pin(async move {
            self.begin("release", lease.as_str()).await?;
            self.inner.release(lease).await
        })
    }

    fn abandon(&self, lease: &LeaseId) {
        let abandoned = format!("abandon {lease}");
        self.log.lock().unwrap().push(abandoned);
        self.inner.abandon(lease);
    }

    fn list<'a>(&'a self, query: &'a Query) -> Reply<'a, Listing> {
        Box::pin(async move {
            self.begin("list", "").await?;
            self.inner.list(query).await
        })
    }

    fn token<'a>(&'a self, resource: &'a Resource) -> Reply<'a, Option<Token>> {
        Box::pin(async move {
            self.begin("token", resource.as_str()).await?;
            self.inner.token(resource).await
        })
    }

    fn end_session(&self, session: &SessionId) {
        let ended = format!("end_session {session}");
        self.log.lock().unwrap().push(ended);
        self.inner.end_session(session);
    }

    fn leases(&self) -> Option<&dyn LeaseStore> {
        self.inner.leases().map(|_| self as &dyn LeaseStore)
    }

    fn descriptor(&self, lease: &LeaseId) -> Result<Option<OwnedFd>> {
        self.inner.descriptor(lease)
    }
}
