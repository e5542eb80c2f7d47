//! A fresh store, its agents, and proof that someone waits.

mod leases;
mod outlived;

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::pin;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tenure::{
    Capabilities, Keeper, Lease, LockSet, Mode, Options, Owner, Query, Ranking, Session,
    SessionOptions,
};
use tokio::runtime::Runtime;

use crate::agent::{Agent, PATIENCE, resource};
use crate::budget::Budget;
use crate::{Fixture, Fresh};

pub use leases::{TTL_LONG, TTL_SHORT, in_time, throughout};

/// Where the agents of a case are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seating {
    /// All in this process, on one keeper.
    Together,
    /// Each in a process of its own.
    Apart,
    /// The first in this process, the second in one of its own, and so on.
    Mixed,
}

/// A fresh store and a front door to it.
pub struct Stage<'a> {
    fixture: &'a dyn Fixture,
    keeper: Keeper,
    runtime: Runtime,
    fresh: Fresh,
    /// The processes of all agents that were cast.
    pids: Mutex<BTreeSet<u32>>,
}

impl<'a> Stage<'a> {
    /// Makes a store and opens it.
    pub fn new(fixture: &'a dyn Fixture) -> Self {
        let fresh = fixture.fresh();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let keeper = runtime.block_on(Keeper::open(&fresh.url)).unwrap();
        Self {
            fixture,
            keeper,
            runtime,
            fresh,
            pids: Mutex::default(),
        }
    }

    /// What the store can do.
    pub fn capabilities(&self) -> Capabilities {
        self.keeper.store().capabilities()
    }

    /// The front door of this process.
    pub fn keeper(&self) -> &Keeper {
        &self.keeper
    }

    /// The address of the store.
    pub fn url(&self) -> &str {
        &self.fresh.url
    }

    /// Runs a future; the test fails if it does not end.
    pub fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(async {
            let mut work = pin!(work);
            let mut budget = Budget::default();
            loop {
                match tokio::time::timeout(Budget::SLICE, &mut work).await {
                    Ok(done) => return done,
                    Err(_) => budget.spend(|| "it does not end".into()),
                }
            }
        })
    }

    /// The runtime that [`block_on`](Stage::block_on) uses.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// A session of this process.
    pub fn session(&self, owner: &str) -> Session {
        let options = SessionOptions::new(Owner::parse(owner).unwrap());
        self.block_on(self.keeper.session(options)).unwrap()
    }

    /// Where agents can be with this store.
    pub fn seatings(&self) -> &'static [Seating] {
        if self.capabilities().cross_process {
            &[Seating::Together, Seating::Apart, Seating::Mixed]
        } else {
            &[Seating::Together]
        }
    }

    /// Where agents are when any number of them is to be seen waiting. Without a list, the
    /// kernel shows one waiter of each process.
    pub fn seen_waiting(&self) -> Seating {
        if self.capabilities().lists_waiters {
            Seating::Together
        } else {
            Seating::Apart
        }
    }

    /// As far apart as the store allows.
    pub fn apart(&self) -> Seating {
        if self.capabilities().cross_process {
            Seating::Apart
        } else {
            Seating::Together
        }
    }

    /// Agents with these owners. Nothing is left of those that were cast before them and are dead.
    pub fn cast<const N: usize>(&self, seating: Seating, owners: [&str; N]) -> [Agent; N] {
        self.settle();
        self.outlive_the_dead();
        let mut place = 0;
        owners.map(|owner| {
            place += 1;
            let together = match seating {
                Seating::Together => true,
                Seating::Apart => false,
                Seating::Mixed => place % 2 == 1,
            };
            self.agent(together, owner)
        })
    }

    fn agent(&self, together: bool, owner: &str) -> Agent {
        if together {
            return Agent::thread(self.keeper.clone(), owner);
        }
        let agent = Agent::process(self.fixture.child(self.url()), owner);
        self.pids.lock().unwrap().insert(agent.pid());
        agent
    }

    /// Stops an agent between two of its steps: others can go on. A store with one writer at a
    /// time is held up by who is stopped in the middle of writing; that moment is tried again.
    pub fn stop(&self, agent: &mut Agent) {
        let mut budget = Budget::default();
        loop {
            agent.stop();
            if self.goes_on() && !self.fixture.is_held_up(&self.fresh) {
                return;
            }
            agent.resume();
            budget.spend(|| format!("nobody can go on while {} is stopped", agent.owner()));
        }
    }

    /// Whether this process can take and release a lock that nobody else wants.
    fn goes_on(&self) -> bool {
        let session = self.session("stage");
        self.block_on(async {
            let (free, options) = (resource("between-two-steps"), Options::default());
            let taking = session.acquire(&free, Mode::Write, &options);
            let taken = tokio::time::timeout(Budget::SLICE * 10, taking).await;
            matches!(taken, Ok(Ok(_)))
        })
    }

    /// How many wait for a resource.
    pub fn waiting(&self, name: &str) -> usize {
        if !self.capabilities().lists_waiters {
            self.settle();
            return self.seen_to_wait(name);
        }
        self.queue(name).len()
    }

    /// How many wait for a resource, by the other proof there is in stores that do not list them.
    pub fn seen_to_wait(&self, name: &str) -> usize {
        self.fixture.waiters(&self.keeper, &resource(name))
    }

    /// The owners of those who wait for a resource, in the order in which they are listed.
    pub fn queue(&self, name: &str) -> Vec<String> {
        let query = Query {
            resource: Some(resource(name)),
            ..Query::default()
        };
        let listing = self.block_on(self.keeper.list(&query)).unwrap();
        let waiting = listing.waiting.expect("the store lists its waiters");
        let owners = waiting.into_iter().map(|waiter| waiter.owner.to_string());
        owners.collect()
    }

    /// Returns when so many wait for a resource.
    pub fn until_waiting(&self, name: &str, count: usize) {
        let what = format!("{count} wait for {name}");
        until(&what, || self.waiting(name) == count);
    }

    /// Everything that is held.
    pub fn held(&self) -> Vec<Lease> {
        let listing = self.block_on(self.keeper.list(&Query::default()));
        listing.unwrap().held
    }

    /// Everything that is held, as `owner resource mode`, sorted.
    pub fn shown(&self) -> Vec<String> {
        let show = |lease: Lease| format!("{} {} {}", lease.owner, lease.resource, lease.mode);
        let mut shown: Vec<String> = self.held().into_iter().map(show).collect();
        shown.sort();
        shown
    }

    /// Nobody holds anything, and nobody waits as far as the store knows.
    pub fn assert_idle(&self) {
        self.outlive_the_dead();
        self.until_idle();
        let listing = self.block_on(self.keeper.list(&Query::default())).unwrap();
        assert_eq!(listing.held, []);
        assert_eq!(listing.waiting.unwrap_or_default(), []);
    }
}

/// Waits until a condition holds, looking again and again.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let mut budget = Budget::default();
    let mut looked = Instant::now();
    let mut pause = Duration::from_micros(10);
    while !holds() {
        if looked.elapsed() >= Budget::SLICE {
            budget.spend(|| format!("in vain: {what}"));
            looked = Instant::now();
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(1));
    }
}

/// A set of locks, sorted as the keeper does.
pub fn set(items: &[(&str, Mode)]) -> LockSet {
    let items = items.iter().map(|(name, mode)| (resource(name), *mode));
    LockSet::new(&Ranking::default(), items)
}

/// Asks for a lock for that long.
pub fn wait(wait: Duration) -> Options {
    Options {
        wait: Some(wait),
        ..Options::default()
    }
}

/// Asks for a lock for longer than anything takes.
pub fn patient() -> Options {
    wait(PATIENCE)
}
