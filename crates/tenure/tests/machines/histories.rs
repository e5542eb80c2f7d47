//! Three machines, one database, and 500 random histories.
//!
//! A history is everything that happens to one resource. A round plays fifty at once: each machine
//! works on all of them while faults happen to the machines. After each round `check` examines what
//! the machines wrote down. In the end every resource can be had again.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use tenure::{Keeper, Mode, Options, Owner, SessionOptions};
use tenure_testkit::postgres::{Cluster, Database, Proxy};
use tenure_testkit::tell;

use crate::check::{self, Told, Verdict};
use crate::dice::Dice;
use crate::event_log::{Account, Who};
use crate::faults::{Fault, Victim};
use crate::machine::{Orders, resource};
use crate::process::{alone, runtime};
use crate::register::{Registers, all_written, values};

const HISTORIES: u32 = 500;
const MACHINES: u32 = 3;
/// So many histories are played at once.
const ROUND: u32 = 50;
/// Faults begin during this time.
const ROUND_LASTS: Duration = Duration::from_secs(5);
const TTL: Duration = Duration::from_secs(2);
/// Longer than any lease, offer or dead waiter can be in the way.
const AT_LAST: Duration = Duration::from_secs(30);

#[test]
fn in_500_random_histories_of_three_machines_no_two_hold_at_once_and_no_update_is_lost() {
    let histories = number("TENURE_MACHINES_HISTORIES").map_or(HISTORIES, |more| {
        let more = u32::try_from(more).expect("TENURE_MACHINES_HISTORIES is a number of histories");
        more.max(HISTORIES)
    });
    let seed = number("TENURE_MACHINES_SEED");
    let seed = seed.unwrap_or_else(|| RandomState::new().hash_one("seed"));
    tell(format!("machines: {histories} histories with seed {seed}"));
    let _alone = alone();
    let cluster = Cluster::shared();
    let (locks, registers) = (cluster.database(), cluster.database());
    Registers::make(&registers, histories);
    let mut tally = Tally::default();
    for (number, first) in (0..).zip((0..histories).step_by(ROUND as usize)) {
        let resources = first..histories.min(first + ROUND);
        let round = Round {
            number,
            resources,
            locks: &locks,
            registers: &registers,
            seed,
        };
        let verdict = round.play(&mut tally);
        assert!(
            verdict.problems.is_empty(),
            "TENURE_MACHINES_SEED={seed} draws it again; round {number}: {} problems\n{}",
            verdict.problems.len(),
            verdict.problems[..verdict.problems.len().min(10)].join("\n")
        );
    }
    take_all(&locks, histories);
    tally.histories = histories;
    tally.audit = audit(&locks);
    tell(&tally);
    tally.assert_complete();
}

struct Round<'a> {
    number: u32,
    resources: std::ops::Range<u32>,
    locks: &'a Database,
    registers: &'a Database,
    seed: u64,
}

impl Round<'_> {
    fn play(&self, tally: &mut Tally) -> Verdict {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let mut victims: Vec<Victim> = thread::scope(|scope| {
            let starts: Vec<_> = (0..MACHINES)
                .map(|machine| scope.spawn(move || self.start(machine, path)))
                .collect();
            let started = starts.into_iter().map(|start| start.join().unwrap());
            started.collect()
        });
        let end = Instant::now() + ROUND_LASTS;
        let suffered: Vec<Fault> = thread::scope(|scope| {
            let sufferings: Vec<_> = (0..)
                .zip(&mut victims)
                .map(|(machine, victim)| {
                    // Each kind comes first in some round, so that none is missing.
                    let kinds = u64::try_from(Fault::ALL.len()).unwrap();
                    let first = (u64::from(self.number * MACHINES) + machine) % kinds;
                    let first = Fault::ALL[usize::try_from(first).unwrap()];
                    let mut dice = Dice::new(self.seed, &[u64::from(self.number), machine]);
                    scope.spawn(move || victim.suffer(first, TTL, &mut dice, end))
                })
                .collect();
            let suffered = sufferings.into_iter().map(|one| one.join().unwrap());
            suffered.flatten().collect()
        });
        let diaries: Vec<_> = victims.iter().flat_map(Victim::diaries).collect();
        thread::scope(|scope| {
            for victim in victims {
                scope.spawn(move || victim.finish());
            }
        });
        let mut account = Account::default();
        for (who, path) in diaries {
            account.read(who, &path);
        }
        let written = all_written(self.registers, &self.resources);
        let values = values(self.registers, &self.resources);
        let values: BTreeMap<u32, i64> = self.resources.clone().zip(values).collect();
        let verdict = check::round(&account, &written, &values);
        tally.add(&account, &suffered, &verdict);
        tally.accepted += written.iter().filter(|write| write.accepted).count();
        tally.fenced += written.iter().filter(|write| !write.accepted).count();
        verdict
    }

    fn start(&self, machine: u32, directory: &Path) -> Victim {
        let proxy = Proxy::before(self.locks);
        let orders = Orders {
            who: Who { machine, life: 0 },
            store: with_ttl(&proxy.url_through(self.locks), TTL),
            registers: self.registers.url(),
            event_log: PathBuf::new(),
            seed: self.seed,
            resources: (self.resources.start, self.resources.end),
        };
        Victim::start(proxy, orders, directory)
    }
}

/// The address of a store whose guards have leases of that length.
pub fn with_ttl(url: &str, ttl: Duration) -> String {
    format!("{url}?lease_ttl={}ms", ttl.as_millis())
}

/// Takes every lock: after all faults, nothing of the machines is left in the way.
fn take_all(locks: &Database, histories: u32) {
    runtime().block_on(async {
        let keeper = Keeper::open(&with_ttl(&locks.url(), TTL)).await.unwrap();
        let options = Options::default().with_wait(AT_LAST);
        for number in 0..histories {
            let owner = SessionOptions::new(Owner::parse("the-last").unwrap());
            let session = keeper.session(owner);
            let name = resource(number);
            let taken = session.acquire(&name, Mode::Write, &options);
            taken.await.unwrap().release().await.unwrap();
        }
    });
}

/// Counts the entries of the audit for each action.
fn audit(locks: &Database) -> BTreeMap<String, usize> {
    let text = locks.psql("SELECT action, count(*) FROM tenure.audit GROUP BY action");
    let lines = text.lines().map(|line| line.split_once('|').unwrap());
    lines
        .map(|(action, count)| (action.to_owned(), count.parse().unwrap()))
        .collect()
}

/// Counts of what the histories met: a history without faults proves nothing.
#[derive(Debug, Default)]
struct Tally {
    histories: u32,
    grants: usize,
    shared: usize,
    lost: usize,
    accepted: usize,
    fenced: usize,
    told: Told,
    faults: BTreeMap<Fault, usize>,
    missed: BTreeMap<String, u64>,
    audit: BTreeMap<String, usize>,
}

impl Tally {
    fn add(&mut self, account: &Account, suffered: &[Fault], verdict: &Verdict) {
        self.grants += account.holds.len();
        self.shared += account
            .holds
            .iter()
            .filter(|hold| !hold.is_exclusive())
            .count();
        self.lost += account
            .holds
            .iter()
            .filter(|hold| hold.told.is_some())
            .count();
        self.told.in_time += verdict.told.in_time;
        self.told.excused += verdict.told.excused;
        self.told.refused += verdict.told.refused;
        for fault in suffered {
            *self.faults.entry(*fault).or_default() += 1;
        }
        for (class, count) in &account.missed {
            *self.missed.entry(class.clone()).or_default() += count;
        }
    }

    fn takeovers(&self) -> usize {
        self.audit.get("recover").copied().unwrap_or(0)
    }

    /// Fails if any kind of event was never met.
    fn assert_complete(&self) {
        let faults = Fault::ALL.map(|fault| self.faults.get(&fault).copied().unwrap_or(0));
        assert!(faults.iter().all(|count| *count > 0), "{self}");
        let told = [self.told.in_time, self.told.refused];
        assert!(told.iter().all(|count| *count > 0), "{self}");
        let met = [self.takeovers(), self.fenced, self.lost, self.shared];
        assert!(met.iter().all(|count| *count > 0), "{self}");
        // A history in which hardly anything was granted proves nothing either.
        assert!(self.grants >= 2 * self.histories as usize, "{self}");
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (histories, grants, shared) = (self.histories, self.grants, self.shared);
        let faults = self
            .faults
            .iter()
            .fold(String::new(), |mut line, (fault, count)| {
                write!(line, ", {count} {}", fault.name()).unwrap();
                line
            });
        write!(
            f,
            "machines: {histories} histories, {grants} grants ({shared} shared), "
        )?;
        write!(f, "{} takeovers{faults}, ", self.takeovers())?;
        write!(f, "{} writes, {} fenced, ", self.accepted, self.fenced)?;
        write!(f, "{} told that they lost it, ", self.lost)?;
        write!(
            f,
            "{} stopped before the next was granted, ",
            self.told.in_time
        )?;
        write!(f, "{} stood still then, ", self.told.excused)?;
        write!(f, "{} late attempts refused; ", self.told.refused)?;
        write!(f, "not granted: {:?}; audit: {:?}", self.missed, self.audit)
    }
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{variable} is no number: {text:?}")),
    )
}
