//! A fresh store, its agents, and proof that an agent waits.

mod leases;
mod outlived;

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::pin;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tenure::store::Capabilities;
use tenure::{
    Keeper, Lease, LockSet, Mode, Options, Owner, Query, Ranking, Session, SessionOptions,
};
use tokio::runtime::Runtime;

use crate::agent::{Agent, LONG_WAIT, resource};
use crate::budget::Budget;
use crate::{Fixture, Fresh};

pub use leases::{TTL_LONG, TTL_SHORT, in_time, throughout};

/// The processes in which the agents of a case run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// All agents run in this process, on one keeper.
    Together,
    /// Each agent runs in a process of its own.
    Apart,
    /// The first agent runs in this process, the second in one of its own, and so on.
    Mixed,
}

/// A fresh store and a keeper for it.
pub struct Stage<'a> {
    fixture: &'a dyn Fixture,
    keeper: Keeper,
    runtime: Runtime,
    fresh: Fresh,
    /// The processes of all agents that were started.
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

    /// Returns the capabilities of the store.
    pub fn capabilities(&self) -> Capabilities {
        self.keeper.capabilities()
    }

    /// Returns the keeper of this process.
    pub fn keeper(&self) -> &Keeper {
        &self.keeper
    }

    /// Returns the address of the store.
    pub fn url(&self) -> &str {
        &self.fresh.url
    }

    /// Runs a future; the test fails if the future does not end.
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

    /// Returns the runtime that [`block_on`](Stage::block_on) uses.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Begins a session of this process.
    pub fn session(&self, owner: &str) -> Session {
        let options = SessionOptions::new(Owner::parse(owner).unwrap());
        self.keeper.session(options)
    }

    /// Returns the placements that this store allows.
    pub fn placements(&self) -> &'static [Placement] {
        if self.capabilities().cross_process {
            &[Placement::Together, Placement::Apart, Placement::Mixed]
        } else {
            &[Placement::Together]
        }
    }

    /// Returns the placement in which every waiting agent can be seen. If the store lists no
    /// waiters, the kernel shows one for each process.
    pub fn seen_waiting(&self) -> Placement {
        if self.capabilities().lists_waiters {
            Placement::Together
        } else {
            Placement::Apart
        }
    }

    /// Returns the placement in processes of their own if the store allows that, else in this
    /// process.
    pub fn apart(&self) -> Placement {
        if self.capabilities().cross_process {
            Placement::Apart
        } else {
            Placement::Together
        }
    }

    /// Starts agents with these owners. First removes the leases that dead agents left in the
    /// store.
    pub fn agents<const N: usize>(&self, placement: Placement, owners: [&str; N]) -> [Agent; N] {
        self.settle();
        self.outlive_the_dead();
        let mut place = 0;
        owners.map(|owner| {
            place += 1;
            let together = match placement {
                Placement::Together => true,
                Placement::Apart => false,
                Placement::Mixed => place % 2 == 1,
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

    /// Stops an agent between two of its steps, so that others can go on. An agent that is stopped
    /// in the middle of a write blocks a store with one writer; another moment is then tried.
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

    /// Returns true if this process can take and release a lock that no agent wants.
    fn goes_on(&self) -> bool {
        let session = self.session("stage");
        self.block_on(async {
            let (free, options) = (resource("between-two-steps"), Options::default());
            let taking = session.acquire(&free, Mode::Write, &options);
            let taken = tokio::time::timeout(Budget::SLICE * 10, taking).await;
            matches!(taken, Ok(Ok(_)))
        })
    }

    /// Returns the number of waiters for a resource.
    pub fn waiting(&self, name: &str) -> usize {
        if !self.capabilities().lists_waiters {
            return self.fixture.waiters(&self.keeper, &resource(name));
        }
        self.queue(name).len()
    }

    /// Returns the owners that wait for a resource, in the order of the listing.
    pub fn queue(&self, name: &str) -> Vec<String> {
        let query = Query::default().with_resource(resource(name));
        let listing = self.block_on(self.keeper.list(&query)).unwrap();
        let waiting = listing.waiting.expect("the store lists its waiters");
        let owners = waiting.into_iter().map(|waiter| waiter.owner.to_string());
        owners.collect()
    }

    /// Returns when there are so many waiters for a resource.
    pub fn until_waiting(&self, name: &str, count: usize) {
        let what = format!("{count} wait for {name}");
        until(&what, || self.waiting(name) == count);
    }

    /// Returns all leases.
    pub fn held(&self) -> Vec<Lease> {
        let listing = self.block_on(self.keeper.list(&Query::default()));
        listing.unwrap().held
    }

    /// Returns all leases as `owner resource mode`, sorted.
    pub fn shown(&self) -> Vec<String> {
        let show = |lease: Lease| format!("{} {} {}", lease.owner, lease.resource, lease.mode);
        let mut shown: Vec<String> = self.held().into_iter().map(show).collect();
        shown.sort();
        shown
    }

    /// Fails unless there are no leases and no waiters in the store.
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

/// Returns a set of locks, sorted as the keeper does.
pub fn set(items: &[(&str, Mode)]) -> LockSet {
    let items = items.iter().map(|(name, mode)| (resource(name), *mode));
    LockSet::new(&Ranking::default(), items)
}

/// Returns options that wait that long.
pub fn wait(wait: Duration) -> Options {
    Options::default().with_wait(wait)
}

/// Returns options that wait longer than any test takes.
pub fn patient() -> Options {
    wait(LONG_WAIT)
}
