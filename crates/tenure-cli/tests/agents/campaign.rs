//! Shared parts of the campaigns with agents: random choices that a seed repeats, and the records
//! as they are in the store.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::process::{Child, Command, Output};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tenure_testkit::postgres::{Cluster, Database};

use crate::place::Place;
use crate::world::{World, json, text};

/// Random numbers that a seed repeats.
#[derive(Clone)]
pub struct Chance(u64);

impl Chance {
    /// Returns a number below another.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }

    /// Makes random numbers of its own for a thread.
    pub fn fork(&mut self) -> Self {
        Self(self.below(u64::MAX))
    }
}

/// Begins a campaign, and reports its seed. Returns its random numbers and its end.
pub fn begin(name: &str) -> (Chance, Instant) {
    let seed = std::env::var("TENURE_TEST_CAMPAIGN_SEED").ok();
    let seed = seed.map_or_else(
        || RandomState::new().hash_one(name),
        |seed| seed.parse().expect("a seed"),
    );
    tenure_testkit::tell(format!(
        "{name}: TENURE_TEST_CAMPAIGN_SEED={seed} repeats its choices"
    ));
    (Chance(seed), tenure_testkit::campaign_end())
}

/// The time that hooks take. It lets a kill come while a hook is at work, on a busy machine too.
#[derive(Default)]
pub struct Pace {
    average_ms: AtomicU64,
}

impl Pace {
    /// Ends a hook. If it is to be killed, that happens after a random part of the average time; a
    /// hook that was faster has ended by itself.
    pub fn end(&self, mut hook: Child, kills: Option<&mut Chance>) -> Output {
        let begun = Instant::now();
        let average_ms = self.average_ms.load(Ordering::Relaxed).max(20);
        let is_killed = kills.is_some();
        if let Some(chance) = kills {
            // Most kills come near the end of a hook, where most is under way.
            let early = average_ms * chance.below(3) / 4;
            let time = early + chance.below(average_ms * 3 / 4);
            thread::sleep(Duration::from_millis(time));
            hook.kill().unwrap();
        }
        let output = hook.wait_with_output().unwrap();
        if !is_killed {
            let took_ms = begun.elapsed().as_millis() as u64;
            self.average_ms
                .store((average_ms * 3 + took_ms) / 4, Ordering::Relaxed);
        }
        output
    }
}

/// A repository with a store.
pub struct Scene {
    pub place: Place,
    pub database: Option<Database>,
}

impl Scene {
    pub fn sqlite() -> Self {
        Self {
            place: Place::new(),
            database: None,
        }
    }

    pub fn postgres() -> Self {
        let database = Cluster::shared().database();
        Self {
            place: Place::of(World::at(&database.url())),
            database: Some(database),
        }
    }

    /// Returns the bodies of a kind's records by their ids, read without our own code.
    pub fn records(&self, kind: &str) -> HashMap<String, Value> {
        let rows = match &self.database {
            Some(database) => database.psql(&format!(
                "SELECT id || ' ' || body FROM tenure.records WHERE kind = '{kind}' AND version > 0"
            )),
            None => {
                let script = "import sqlite3, sys\n\
                    c = sqlite3.connect(sys.argv[1])\n\
                    for r in c.execute('SELECT id, body FROM records WHERE kind = ?', [sys.argv[2]]):\n\
                    \x20   print(r[0], r[1])";
                let mut python = Command::new("python3");
                python
                    .args(["-c", script])
                    .arg(self.place.path("store/tenure.db"));
                let output = python.arg(kind).output().unwrap();
                assert!(output.status.success(), "{output:?}");
                text(&output.stdout)
            }
        };
        let row = |line: &str| {
            let (id, body) = line.split_once(' ').unwrap();
            (id.to_owned(), json(body.as_bytes()))
        };
        rows.lines()
            .filter(|line| !line.is_empty())
            .map(row)
            .collect()
    }
}

/// A process that is killed when it is dropped.
pub struct Killed(pub Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a watcher whose output goes to a file.
pub fn watcher(place: &Place) -> Killed {
    let log = || {
        let mut file = std::fs::OpenOptions::new();
        file.create(true)
            .append(true)
            .open(place.path("watched"))
            .unwrap()
    };
    let mut watcher = place.world.tenure();
    watcher.args(["agent", "watch", "--every", "200ms"]);
    Killed(watcher.stdout(log()).stderr(log()).spawn().unwrap())
}

/// Returns the id of an agent's session.
pub fn session(number: u64) -> String {
    format!("00000000-0000-4000-8000-{number:012}")
}
