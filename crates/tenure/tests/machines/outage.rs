//! The database is out of reach for longer than leases last, and then all processes reach it.
//!
//! Hundreds of leases have run out by then. Some of their holders are dead; some live and were told
//! that they lost their locks; some live and renew leases of their own. Waiters stand in line for
//! the locks of the first two.
//!
//! # The bound on transactions
//!
//! Every process that finds the database again has something to ask; if any of them asked more than
//! a few times, that would be a storm. The bound on transactions is counted from what each has to
//! do:
//!
//! - A wait that is granted looks when it finds the database again, looks when the lease before it
//!   runs out or when it becomes the first of its process, takes over or is handed the lock, takes
//!   it up, and releases, which tries the short way first. That is 6, and as many looks again for
//!   timers of a second while it waits for its turn.
//! - A renewal of a lease of its own is a look and a step, every third of its time.
//! - A process opens at most 8 connections, with three statements each, and keeps its presence.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tenure_testkit::postgres::{Cluster, Database, Psql};
use tenure_testkit::tell;

use crate::moment::{now, until};
use crate::process::{LONG, alone};
use crate::worker::{Order, Won, Worker, names};

const TTL: Duration = Duration::from_secs(8);
/// The scene is set up this often until no lease runs out meanwhile.
const SCENES_MAX: usize = 3;
/// The locks of the process that dies.
const DEAD: usize = 80;
/// The guards of each process that lives, and as many leases of its own.
const LIVE: usize = 40;
const LIVE_PROCESSES: usize = 2;
/// The most connections of a process; each one given up may have another two to say so.
const CONNECTIONS_MAX: usize = 8;
/// The time in which every process gets what it can get.
const SETTLED: Duration = Duration::from_secs(20);
const WAIT: Duration = Duration::from_secs(120);
/// Longer than a process is believed to be alive without a sign.
const PRESENT_FOR: Duration = Duration::from_secs(15);

#[test]
fn leases_that_ran_out_in_an_outage_are_renewed_or_taken_over_in_order_without_a_storm() {
    outage(TTL * 3 / 2);
}

#[test]
fn after_an_outage_longer_than_anybody_is_believed_everybody_is_served_without_a_storm() {
    outage(PRESENT_FOR + TTL);
}

/// The state before the outage: all guards are held, all waiters are in line.
struct Scene {
    look: Psql,
    dying: Worker,
    living: Vec<Worker>,
    waiting: Vec<Worker>,
    /// The locks that the waiters want.
    wanted: Vec<String>,
    database: Database,
}

impl Scene {
    /// Returns `None` if the machine is so busy that a lease ran out before the outage began.
    fn try_new() -> Option<Self> {
        let database = Cluster::shared().database();
        let mut look = database.session();
        let mut dying = Worker::start(&database, TTL);
        dying.take(&Order::Guards {
            names: names("dead", DEAD),
        });
        let mut living: Vec<Worker> = (0..LIVE_PROCESSES)
            .map(|_| Worker::start(&database, TTL))
            .collect();
        for (number, worker) in living.iter_mut().enumerate() {
            worker.take(&Order::Guards {
                names: names(&format!("lost-{number}"), LIVE),
            });
            worker.take(&Order::Leases {
                names: names(&format!("leased-{number}"), LIVE),
                ttl: TTL,
            });
        }
        let lost = (0..LIVE_PROCESSES).flat_map(|number| names(&format!("lost-{number}"), LIVE));
        let wanted: Vec<String> = names("dead", DEAD).into_iter().chain(lost).collect();
        let mut waiting = Vec::new();
        for number in 1..=2 {
            let mut worker = Worker::start(&database, TTL);
            worker.tell(&Order::Wait {
                names: wanted.clone(),
                wait: WAIT,
                hold: Duration::from_millis(20),
            });
            let count = "SELECT count(*) FROM tenure.waiters";
            let all = (number * wanted.len()).to_string();
            let mut seen = String::new();
            let end = Instant::now() + LONG;
            while seen != all {
                assert!(Instant::now() < end, "{seen} of {all} in line");
                seen = look.run(count);
                worker.hear_until(Instant::now() + Duration::from_millis(50));
                assert!(worker.failed.is_empty(), "{:?}", worker.failed);
                if !worker.won.is_empty() {
                    return None;
                }
            }
            waiting.push(worker);
        }
        let all_held = living.iter_mut().all(|worker| worker.look().held == LIVE);
        all_held.then_some(Self {
            look,
            dying,
            living,
            waiting,
            wanted,
            database,
        })
    }
}

fn outage(lasts: Duration) {
    let _alone = alone();
    let mut scenes = (0..SCENES_MAX).map(|_| Scene::try_new());
    let Some(scene) = scenes.find_map(|scene| scene) else {
        panic!("this machine is too busy: leases ran out before the outage, {SCENES_MAX} times");
    };
    let Scene {
        // Dropped last, after everything that uses it.
        database: _database,
        mut look,
        mut dying,
        mut living,
        mut waiting,
        wanted,
    } = scene;

    // Some processes get no answer, some are refused.
    dying.child.kill();
    for worker in living.iter().chain(&waiting) {
        worker.proxy.pause();
    }
    for worker in [&living[1], &waiting[1]] {
        worker.proxy.refuse();
        worker.proxy.cut();
    }
    let began = Instant::now();
    for worker in &mut living {
        until(TTL, "all guards are told", || worker.look().lost == LIVE);
    }
    std::thread::sleep(lasts.saturating_sub(began.elapsed()));

    let before = transactions(&mut look);
    let (back, returned) = (now(), Instant::now());
    for worker in living.iter().chain(&waiting) {
        worker.proxy.resume();
    }
    for worker in [&living[1], &waiting[1]] {
        worker.proxy.admit();
    }
    let mut watch = Watch::new(before);
    let all = 2 * wanted.len();
    loop {
        watch.look(&mut look, &living, &waiting);
        for worker in &mut waiting {
            worker.hear_until(Instant::now() + Duration::from_millis(10));
            assert!(worker.failed.is_empty(), "{:?}", worker.failed);
        }
        let won: usize = waiting.iter().map(|worker| worker.won.len()).sum();
        let renewed = living.iter_mut().all(|worker| {
            let renewed = worker.look().renewed;
            renewed.len() == LIVE && renewed.values().all(|at| at.is_some_and(|at| at > back))
        });
        if won == all && renewed {
            break;
        }
        assert!(
            returned.elapsed() < SETTLED,
            "{won} of {all} granted, renewed: {renewed}, after {:?}",
            returned.elapsed()
        );
    }
    let took = returned.elapsed();
    watch.look(&mut look, &living, &waiting);
    watch.assert_calm(all, took);
    // A guard that was told of its loss never holds again.
    for worker in &mut living {
        assert_eq!(worker.look().lost, LIVE);
    }
    if lasts < PRESENT_FOR {
        assert_in_order(&wanted, &waiting);
    }
    tell(format!(
        "machines: after {lasts:?} without a database {all} waiters were served and {} leases renewed in \
         {took:?}: {} transactions, at most {} in a second and {} connections of a process",
        LIVE * LIVE_PROCESSES,
        watch.total(),
        watch.most_in_a_second(),
        watch.connections,
    ));
}

/// Asserts that for every lock the first process in line was served first.
fn assert_in_order(wanted: &[String], waiting: &[Worker]) {
    let won = |worker: &Worker| -> BTreeMap<String, Won> {
        let won = worker.won.iter().map(|won| (won.name.clone(), won.clone()));
        won.collect()
    };
    let (first, second) = (won(&waiting[0]), won(&waiting[1]));
    for name in wanted {
        let (first, second) = (&first[name], &second[name]);
        assert!(first.token < second.token, "{first:?}, {second:?}");
        assert!(first.at < second.at, "{first:?}, {second:?}");
    }
}

/// Counts the transactions, committed and rolled back.
fn transactions(look: &mut Psql) -> u64 {
    let sql = "SELECT xact_commit + xact_rollback FROM pg_stat_database \
               WHERE datname = current_database()";
    look.run(sql).parse().unwrap()
}

/// Measurements of the database while all processes come back.
struct Watch {
    seen: Vec<(Instant, u64)>,
    connections: usize,
}

impl Watch {
    fn new(transactions: u64) -> Self {
        Self {
            seen: vec![(Instant::now(), transactions)],
            connections: 0,
        }
    }

    fn look(&mut self, look: &mut Psql, living: &[Worker], waiting: &[Worker]) {
        for worker in living.iter().chain(waiting) {
            self.connections = self.connections.max(worker.connections());
        }
        self.seen.push((Instant::now(), transactions(look)));
    }

    fn total(&self) -> u64 {
        let (first, last) = (self.seen[0].1, self.seen[self.seen.len() - 1].1);
        // Each look of this watch is a transaction, too.
        (last - first).saturating_sub(self.seen.len() as u64)
    }

    fn most_in_a_second(&self) -> u64 {
        let from = |(at, count): &(Instant, u64)| {
            let second = *at + Duration::from_secs(1);
            let within = self.seen.iter().take_while(|(at, _)| *at <= second);
            within
                .last()
                .map_or(0, |(_, last)| last.saturating_sub(*count))
        };
        self.seen.iter().map(from).max().unwrap_or(0)
    }

    fn assert_calm(&self, granted: usize, took: Duration) {
        assert!(
            self.connections <= 3 * CONNECTIONS_MAX,
            "{} connections of a process",
            self.connections
        );
        let renewals = took.as_millis().div_ceil((TTL / 3).as_millis()) + 1;
        let renewals = usize::try_from(renewals).unwrap() * LIVE * LIVE_PROCESSES;
        let processes = (LIVE_PROCESSES + 2) * (CONNECTIONS_MAX * 3 + 10);
        let bound = granted * 12 + renewals * 2 + processes;
        let total = usize::try_from(self.total()).unwrap();
        assert!(
            total <= bound,
            "{total} transactions, where {bound} are enough"
        );
    }
}
