//! A process that holds and waits as it is told. Each lock has a session of its own.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tenure::leases::LeaseTerms;
use tenure::{
    Error, Guard, GuardState, Keeper, Lease, LockSet, Mode, Options, Owner, Ranking, Resource,
    Session, SessionOptions,
};
use tenure_testkit::postgres::{Database, Proxy};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::histories::with_ttl;
use crate::moment::{Moment, now};
use crate::process::{Child, LONG, heard, runtime, say};

/// Locks are taken this many at once, as a process has this many connections.
const AT_ONCE: usize = 8;

/// An order to a worker.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Order {
    /// Take these locks, and keep the guards. Answered with `Taken`.
    Guards { names: Vec<String> },
    /// Take these as leases of their own; renew each three times in its time. Answered with
    /// `Taken`.
    Leases { names: Vec<String>, ttl: Duration },
    /// Wait for these locks. Each is answered with `Granted`, held for a while and released, or
    /// with `Failed`.
    Wait {
        names: Vec<String>,
        wait: Duration,
        hold: Duration,
    },
    /// Report on guards and leases. Answered with `States`.
    Look,
    /// Release all guards. Answered with `Released`.
    Release,
}

/// A report of a worker.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Report {
    Ready,
    Taken,
    Granted(Won),
    Failed {
        name: String,
        class: String,
        waited: Duration,
        problem: String,
    },
    States(States),
    Released {
        problems: Vec<String>,
    },
}

/// A lock that was granted to a waiter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Won {
    pub name: String,
    pub lease: String,
    pub token: u64,
    pub at: Moment,
}

/// Counts of the guards by their state, and the renewals of leases.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct States {
    pub held: usize,
    pub unknown: usize,
    pub lost: usize,
    /// The moment at which each lease's last renewal was asked for, or `None` if the lease is over.
    pub renewed: BTreeMap<String, Option<Moment>>,
}

/// A worker as its test sees it, with its own proxy to the database.
pub struct Worker {
    pub proxy: Proxy,
    pub child: Child,
    pub won: Vec<Won>,
    pub failed: Vec<(String, String, Duration)>,
}

impl Worker {
    pub fn start(database: &Database, ttl: Duration) -> Self {
        let proxy = Proxy::before(database);
        let url = with_ttl(&proxy.url_through(database), ttl);
        let mut worker = Self {
            proxy,
            child: Child::start("worker", &url),
            won: Vec::new(),
            failed: Vec::new(),
        };
        worker.report(|report| matches!(report, Report::Ready).then_some(()));
        worker
    }

    /// Counts its open connections, as the kernel sees them: connections that it has closed may
    /// still pass through the proxy.
    pub fn connections(&self) -> usize {
        let port = format!(":{:04X}", self.proxy.port());
        let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
        let open = table.lines().filter(|line| {
            let columns: Vec<&str> = line.split_whitespace().collect();
            // Such a line is an established connection to the proxy.
            columns[2].ends_with(&port) && columns[3] == "01"
        });
        open.count()
    }

    pub fn tell(&mut self, order: &Order) {
        self.child.tell(order);
    }

    /// Orders the worker to take something, and waits until it has all of it.
    pub fn take(&mut self, order: &Order) {
        self.tell(order);
        self.report(|report| matches!(report, Report::Taken).then_some(()));
    }

    pub fn look(&mut self) -> States {
        self.tell(&Order::Look);
        self.report(|report| match report {
            Report::States(states) => Some(states.clone()),
            _ => None,
        })
    }

    /// Makes the worker release all guards, and returns what went wrong.
    pub fn release(&mut self) -> Vec<String> {
        self.tell(&Order::Release);
        self.report(|report| match report {
            Report::Released { problems } => Some(problems.clone()),
            _ => None,
        })
    }

    /// Keeps the reports of its waiters, until a moment.
    pub fn hear_until(&mut self, end: Instant) {
        while let Some(report) = self.child.answer_by(end) {
            self.keep(report);
        }
    }

    /// Waits until so many waits have ended, granted or not.
    pub fn ended(&mut self, count: usize, limit: Duration) {
        let end = Instant::now() + limit;
        while self.won.len() + self.failed.len() < count {
            let report = self.child.answer_by(end);
            let (won, failed) = (self.won.len(), &self.failed);
            let report = report.unwrap_or_else(|| {
                panic!("{won} granted and {failed:?} not, of {count}, within {limit:?}")
            });
            self.keep(report);
        }
    }

    fn report<T>(&mut self, wanted: impl Fn(&Report) -> Option<T>) -> T {
        let end = Instant::now() + LONG;
        loop {
            let report = self.child.answer_by(end).expect("a worker answers");
            match wanted(&report) {
                Some(found) => return found,
                None => self.keep(report),
            }
        }
    }

    fn keep(&mut self, report: Report) {
        match report {
            Report::Granted(won) => self.won.push(won),
            Report::Failed {
                name,
                class,
                waited,
                problem,
            } => self
                .failed
                .push((format!("{name}: {problem}"), class, waited)),
            other => panic!("not asked for: {other:?}"),
        }
    }
}

/// Returns names that differ by a number.
pub fn names(prefix: &str, count: usize) -> Vec<String> {
    (0..count)
        .map(|number| format!("{prefix}-{number}"))
        .collect()
}

/// State that all tasks of a worker share.
struct Hands {
    keeper: Keeper,
    guards: Mutex<Vec<Guard>>,
    renewed: Mutex<BTreeMap<String, Option<Moment>>>,
}

/// Plays the role of a worker in this process.
pub fn play(url: &str) {
    runtime().block_on(async {
        let mut heard = heard::<Order>();
        let hands = Arc::new(Hands {
            keeper: Keeper::open(url).await.unwrap(),
            guards: Mutex::default(),
            renewed: Mutex::default(),
        });
        say(&Report::Ready);
        while let Some(order) = heard.recv().await {
            hands.obey(order).await;
        }
    });
}

impl Hands {
    async fn obey(self: &Arc<Self>, order: Order) {
        match order {
            Order::Guards { names } => {
                for some in names.chunks(AT_ONCE) {
                    let mut takers = JoinSet::new();
                    for name in some {
                        let (hands, name) = (Arc::clone(self), name.clone());
                        takers.spawn(async move { hands.acquire(&name, LONG).await.unwrap() });
                    }
                    let guards = takers.join_all().await;
                    self.guards.lock().unwrap().extend(guards);
                }
                say(&Report::Taken);
            }
            Order::Leases { names, ttl } => {
                for some in names.chunks(AT_ONCE) {
                    let mut takers = JoinSet::new();
                    for name in some.iter().cloned() {
                        takers.spawn(Arc::clone(self).lock(name, ttl));
                    }
                    takers.join_all().await;
                }
                say(&Report::Taken);
            }
            Order::Wait { names, wait, hold } => {
                for name in names {
                    tokio::spawn(Arc::clone(self).wait(name, wait, hold));
                }
            }
            Order::Look => say(&Report::States(self.look())),
            Order::Release => {
                let guards = std::mem::take(&mut *self.guards.lock().unwrap());
                let mut problems = Vec::new();
                for guard in guards {
                    if let Err(failed) = guard.release().await {
                        problems.push(failed.to_string());
                    }
                }
                say(&Report::Released { problems });
            }
        }
    }

    async fn session(&self) -> Session {
        let owner = Owner::parse(&format!("worker-{}", std::process::id())).unwrap();
        self.keeper.session(SessionOptions::new(owner))
    }

    async fn acquire(&self, name: &str, wait: Duration) -> Result<Guard, Error> {
        let (session, name) = (self.session().await, Resource::parse(name).unwrap());
        session.acquire(&name, Mode::Write, &patient(wait)).await
    }

    async fn lock(self: Arc<Self>, name: String, ttl: Duration) {
        let session = self.session().await;
        let set = LockSet::new(
            &Ranking::default(),
            [(Resource::parse(&name).unwrap(), Mode::Write)],
        );
        let terms = LeaseTerms::default().with_ttl(ttl);
        let leases = self
            .keeper
            .lock(&session, &set, &terms, &patient(LONG))
            .await;
        let lease = leases.unwrap().remove(0);
        self.note(&name, Some(now()));
        tokio::spawn(self.keep_up(name, lease, ttl));
    }

    /// Renews a lease until it is over. If the store cannot be asked, it is asked again later.
    async fn keep_up(self: Arc<Self>, name: String, lease: Lease, ttl: Duration) {
        loop {
            sleep(ttl / 3).await;
            let asked = now();
            match self.keeper.renew(&lease.lease, None, None).await {
                Ok(_) => self.note(&name, Some(asked)),
                Err(Error::LeaseOver { .. } | Error::NotFound(_)) => {
                    return self.note(&name, None);
                }
                Err(_) => {}
            }
        }
    }

    fn note(&self, name: &str, renewed: Option<Moment>) {
        self.renewed
            .lock()
            .unwrap()
            .insert(name.to_owned(), renewed);
    }

    async fn wait(self: Arc<Self>, name: String, wait: Duration, hold: Duration) {
        let began = Instant::now();
        match self.acquire(&name, wait).await {
            Ok(guard) => {
                let lease = guard.lease();
                say(&Report::Granted(Won {
                    name,
                    lease: lease.lease.to_string(),
                    token: lease.token.get(),
                    at: now(),
                }));
                sleep(hold).await;
                // If the release fails the guard is dropped, and released as soon as that can be.
                drop(guard.release().await);
            }
            Err(error) => say(&Report::Failed {
                name,
                class: error.class().as_str().to_owned(),
                waited: began.elapsed(),
                problem: error.to_string(),
            }),
        }
    }

    fn look(&self) -> States {
        let mut states = States {
            renewed: self.renewed.lock().unwrap().clone(),
            ..States::default()
        };
        for guard in self.guards.lock().unwrap().iter() {
            match guard.state() {
                GuardState::Held => states.held += 1,
                GuardState::Unknown => states.unknown += 1,
                GuardState::Lost => states.lost += 1,
            }
        }
        states
    }
}

fn patient(wait: Duration) -> Options {
    Options::default().with_wait(wait)
}
