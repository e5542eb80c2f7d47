//! SIGKILL at random instants, and a reader after each.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::process::Child;
use crate::site::{Process, RAISE, assert_tidy, bytes, done, put, read};
use crate::stage::RandomNumbers;
use crate::world::{World, json as parsed};

/// The delay before a kill: random within a span that follows the speed of the disk, so that about
/// as many updates end as are killed.
struct KillDelay {
    spread: RandomNumbers,
    span_micros: u64,
}

impl KillDelay {
    /// Begins with a span of about twice the time of an update.
    fn new(update: Duration) -> Self {
        Self {
            spread: RandomNumbers::new(),
            span_micros: u64::try_from(2 * update.as_micros()).unwrap(),
        }
    }

    fn some_time(&mut self) -> Duration {
        self.spread.micros_below(self.span_micros)
    }

    fn learn(&mut self, came_to_its_end: bool) {
        let span = match came_to_its_end {
            true => self.span_micros * 4 / 5,
            false => self.span_micros * 5 / 4,
        };
        self.span_micros = span.clamp(1_000, 10_000_000);
    }
}

/// Returns the number of kills: `TENURE_TEST_KILLS`, or 100.
fn kills() -> u64 {
    let asked = std::env::var("TENURE_TEST_KILLS");
    asked.map_or(100, |kills| {
        kills.parse().expect("TENURE_TEST_KILLS is a number")
    })
}

/// The numbers that were acknowledged so far.
#[derive(Debug, Default, Clone, Copy)]
struct Acknowledged {
    one: u64,
    both: u64,
}

impl Acknowledged {
    fn hear(&mut self, line: &str) {
        let (what, n) = line.split_once(' ').unwrap();
        let n = n.parse().unwrap();
        match what {
            "one" => self.one = n,
            "both" => self.both = n,
            _ => panic!("{line}"),
        }
    }
}

/// Returns the numbers that another process reads in three documents in one command.
#[track_caller]
fn numbers(world: &World, files: [&str; 3]) -> [u64; 3] {
    let shown = done(world, ["read", "--json"].into_iter().chain(files));
    let shown: Value = parsed(shown.as_bytes());
    let number = |at: usize| shown["documents"][at]["document"]["n"].as_u64().unwrap();
    [0, 1, 2].map(number)
}

#[test]
fn after_every_kill_documents_are_whole_and_no_acknowledged_update_is_missing() {
    let world = World::new();
    let files = ["one.json", "left.json", "right.json"];
    for name in files {
        put(&world, name, "{\"n\":0}\n");
    }
    let kills = kills();
    let mut kill_delay = KillDelay::new(Duration::from_millis(5));
    let mut acknowledged = Acknowledged::default();
    let directory = world.path("").display().to_string();
    let mut half_done = 0;
    for kill in 0..kills {
        let mut child = Child::start("raise", &[&directory]);
        acknowledged.hear(&child.answer());
        std::thread::sleep(kill_delay.some_time());
        child.kill();
        let before = acknowledged.both;
        while let Some(line) = child.answer_within(Duration::from_secs(10)) {
            acknowledged.hear(&line);
        }
        kill_delay.learn(acknowledged.both > before);
        // Before any command repairs them, the documents are whole, each by itself.
        for name in files {
            serde_json::from_str::<Value>(&bytes(&world, name)).unwrap();
        }
        half_done += u64::from(bytes(&world, "left.json") != bytes(&world, "right.json"));
        let [one, left, right] = numbers(&world, files);
        let told = format!("kill {kill}: {one} {left} {right}, told {acknowledged:?}");
        assert!((0..=1).contains(&(one - acknowledged.one)), "{told}");
        assert!((0..=1).contains(&(left - acknowledged.both)), "{told}");
        assert_eq!(left, right, "{told}");
        acknowledged = Acknowledged { one, both: left };
    }
    eprintln!("killed {kills} times, {half_done} times between two documents: {acknowledged:?}");
    let Acknowledged { one, both } = acknowledged;
    assert!(
        one >= kills && both > kills / 10,
        "updates did happen: {acknowledged:?}"
    );
    for name in files {
        done(&world, ["clean", "--yes", name]);
    }
    assert_tidy(&world.path(""), &files);
}

#[test]
fn an_update_by_the_command_killed_at_any_instant_happened_or_did_not() {
    let world = World::new();
    put(&world, "a.json", "{\"n\":0}\n");
    let started = Instant::now();
    done(&world, ["update", "a.json"].into_iter().chain(RAISE));
    let mut kill_delay = KillDelay::new(started.elapsed());
    let mut last = 1;
    let kills = kills() / 4;
    for kill in 0..kills {
        let mut update = Process::doc(&world, ["update", "a.json"].into_iter().chain(RAISE));
        std::thread::sleep(kill_delay.some_time());
        let was_told = !update.printed().is_empty();
        update.kill();
        let n = read(&world, "a.json")["n"].as_u64().unwrap();
        let least = last + u64::from(was_told);
        assert!(least <= n && n <= last + 1, "kill {kill}: {n} after {last}");
        kill_delay.learn(n > last);
        last = n;
    }
    let happened = last - 1;
    eprintln!("killed {kills} times; {happened} updates had happened");
    assert!(
        0 < happened && happened < kills,
        "some happened, some did not: {happened} of {kills}"
    );
    done(&world, ["clean", "--yes", "a.json"]);
    assert_tidy(&world.path(""), &["a.json"]);
    done(&world, ["update", "a.json"].into_iter().chain(RAISE));
    assert_eq!(read(&world, "a.json"), json!({ "n": last + 1 }));
}
