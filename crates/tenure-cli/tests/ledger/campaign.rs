//! Random operations of several processes that are killed and stopped, and an independent checker.
//!
//! Each process reports what was acknowledged to it. The checker reads the files as any other
//! program would, without our code, and compares: no acknowledged event is lost, none is there
//! twice, every number belongs to one event, and at no event does a node have two holders or a
//! writer that does not hold it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tenure::Class;
use tenure_ledger::{AppendTerms, Claim, Ledger, Node};
use tenure_lockfile::FileCaller;
use tenure_testkit::{campaign_end, tell};

use crate::place::judge;
use crate::process::{Child, say};

const PROCESSES: usize = 4;
/// The ledger is checked after so many kills, and another one begun.
const KILLS: usize = 25;
const NODES: u64 = 3;

#[test]
fn random_operations_under_kills_and_stops_lose_nothing_and_give_no_node_to_two() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let seed = now.as_nanos() as u64 | 1;
    let mut random = Random(seed);
    let end = campaign_end();
    let (mut ledgers, mut events, mut acknowledged) = (0, 0, 0);
    while ledgers == 0 || Instant::now() < end {
        let (place, answers) = round(&mut random, end);
        let directory = place.path().join("p");
        match check(&directory, &answers) {
            Ok(checked) => events += checked,
            Err(wrong) => panic!("seed {seed}: {wrong}, in {}", place.keep().display()),
        }
        judge(&[&directory]);
        (ledgers, acknowledged) = (ledgers + 1, acknowledged + answers.len());
    }
    assert!(acknowledged > 50 * ledgers, "{acknowledged}");
    tell(format!(
        "ledger campaign: seed {seed}, {ledgers} ledgers, {events} events, {acknowledged} acknowledged, {} kills",
        ledgers * KILLS
    ));
}

/// Kills and stops processes that work on one ledger. Returns the ledger, and for each process what
/// was acknowledged to it.
fn round(random: &mut Random, end: Instant) -> (tempfile::TempDir, Vec<String>) {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = directory.path().join("p");
    Ledger::init(&path, None).unwrap();
    let mut started = 0;
    let mut start = |random: &mut Random| {
        started += 1;
        let (name, seed) = (format!("agent-{started}"), random.next().to_string());
        let child = Child::start("campaign", &[path.to_str().unwrap(), &name, &seed]);
        (name, child)
    };
    let mut answers = Vec::new();
    let mut children: Vec<_> = (0..PROCESSES).map(|_| start(random)).collect();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                append_as_a_stranger(&path);
            }
        });
        for _ in 0..KILLS {
            let index = random.next() as usize % PROCESSES;
            // The first answer of a process shows that it is at work.
            let (name, child) = &mut children[index];
            answers.push(format!("{name} {}", child.answer()));
            std::thread::sleep(Duration::from_micros(random.next() % 30_000));
            if random.next().is_multiple_of(4) {
                child.stop();
                std::thread::sleep(Duration::from_micros(random.next() % 10_000));
                child.signal(libc::SIGCONT);
            }
            child.kill();
            while let Some(answer) = child.answer_within(Duration::from_secs(1)) {
                answers.push(format!("{name} {answer}"));
            }
            children[index] = start(random);
            if Instant::now() > end + Duration::from_secs(60) {
                break;
            }
        }
        is_over.store(true, Ordering::Relaxed);
        for (name, child) in &mut children {
            child.kill();
            while let Some(answer) = child.answer_within(Duration::from_secs(1)) {
                answers.push(format!("{name} {answer}"));
            }
        }
    });
    // The next command finds nothing in its way, and the leftovers of the dead are gone.
    let ledger = Ledger::open(&path, crate::world::DEADLINE).unwrap();
    ledger.append("{\"type\":\"last\"}").unwrap();
    assert_eq!(ledger.verify().unwrap().findings.len(), 0);
    let names = crate::site::names(&path.join("ledger"));
    let left = names
        .iter()
        .find(|name| name.starts_with(".event-") || *name == "ledger.lock");
    assert_eq!(left, None);
    (directory, answers)
}

/// Appends by the protocol for external tools, without any sync.
fn append_as_a_stranger(directory: &Path) {
    let ledger = directory.join("ledger");
    let lock = ledger.join("ledger.lock");
    std::thread::sleep(Duration::from_millis(20));
    if fs::create_dir(&lock).is_err() {
        return;
    }
    let names = crate::site::names(&ledger);
    let events = names.iter().filter(|name| name.starts_with("event-"));
    let next = events.count() + 1;
    let temporary = ledger.join(".event-stranger.tmp");
    fs::write(&temporary, "{\"type\":\"theirs\"}\n").unwrap();
    fs::rename(temporary, ledger.join(format!("event-{next:06}.json"))).unwrap();
    fs::remove_dir(lock).unwrap();
}

/// Plays a process of the campaign: it works until it is killed, and reports what was acknowledged.
pub fn work(directory: &Path, name: &str, seed: &str) {
    let owner = tenure::Owner::parse(name).unwrap();
    let asker = tenure::SessionOptions::new(owner).asker();
    let wait = Duration::from_secs(120);
    let ledger = Ledger::open(directory, wait).unwrap();
    let ledger = ledger.for_caller(&FileCaller::new(asker, wait));
    let mut random = Random(seed.parse().unwrap());
    let mut held: Vec<Claim> = Vec::new();
    for number in 0_u64.. {
        if let Err(error) = step(&ledger, name, number, &mut random, &mut held) {
            let refused = [Class::Busy, Class::Conflict, Class::NotAllowed];
            if !refused.contains(&error.class()) {
                return say(format!("failed: {error}"));
            }
            held.clear();
        }
    }
}

fn step(
    ledger: &Ledger,
    name: &str,
    number: u64,
    random: &mut Random,
    held: &mut Vec<Claim>,
) -> tenure::Result<()> {
    let node: Node = format!("1.{}", random.next() % NODES).parse()?;
    let ttl = Some(Duration::from_secs(1));
    let token = |claim: &Claim| format!("{}#{}", claim.node, claim.token).parse();
    match (random.next() % 6, held.pop()) {
        (0, Some(claim)) => drop(ledger.release(&claim.node.parse()?)?),
        (1, Some(claim)) => {
            let renewed = ledger.renew(&token(&claim)?, ttl)?;
            held.push(renewed);
        }
        (2 | 3, Some(claim)) => {
            let event =
                json!({"type": "worked", "node": claim.node, "token": claim.token, "owner": name});
            let terms = AppendTerms {
                claim: Some(token(&claim)?),
                ..AppendTerms::default()
            };
            let sequence = ledger.append_on(&event.to_string(), terms)?;
            say(format!("worked {sequence} {} {}", claim.node, claim.token));
            held.push(claim);
        }
        (0 | 1, None) => {
            let claim = ledger.claim(&node, ttl)?;
            say(format!("claimed {} {node} {0}", claim.token));
            held.push(claim);
        }
        (4, claim) => {
            held.extend(claim);
            ledger.reap()?;
        }
        (_, claim) => {
            held.extend(claim);
            let event = json!({"type": "x", "from": name, "number": number});
            let sequence = ledger.append(&event.to_string())?;
            say(format!("appended {sequence} {number}"));
        }
    }
    Ok(())
}

/// Compares the files with what was acknowledged. Returns the number of events.
fn check(directory: &Path, answers: &[String]) -> Result<usize, String> {
    let names = crate::site::names(&directory.join("ledger"));
    let names: BTreeSet<_> = names
        .iter()
        .filter(|name| name.starts_with("event-"))
        .collect();
    let mut events = Vec::new();
    for (number, name) in (1..).zip(names) {
        if *name != format!("event-{number:06}.json") {
            return Err(format!("{name} is number {number}"));
        }
        let text = fs::read_to_string(directory.join("ledger").join(name)).unwrap();
        let event: Value =
            serde_json::from_str(&text).map_err(|error| format!("{name}: {error}"))?;
        events.push(event);
    }
    replay(&events)?;
    for answer in answers {
        let words: Vec<&str> = answer.split(' ').collect();
        let number = |word: &str| word.parse::<usize>().unwrap_or(0);
        let event = |word: &str| {
            events
                .get(number(word).wrapping_sub(1))
                .unwrap_or(&Value::Null)
        };
        let is_there = match words[..] {
            [name, "appended", sequence, count] => {
                let event = event(sequence);
                event["from"] == name && event["number"] == number(count)
            }
            [name, "claimed", sequence, node, _] => {
                let event = event(sequence);
                event["type"] == "lock_acquired"
                    && event["owner"] == name
                    && event["node_id"] == node
            }
            [name, "worked", sequence, node, token] => {
                let event = event(sequence);
                event["owner"] == name && event["node"] == node && event["token"] == number(token)
            }
            _ => false,
        };
        if !is_there {
            return Err(format!("{answer:?} was acknowledged"));
        }
    }
    Ok(events.len())
}

/// Follows the holders of all nodes, with owner, end and token. Fails if a node has two, if an
/// event ends a claim that does not exist, or if a writer does not hold its node.
fn replay(events: &[Value]) -> Result<(), String> {
    let mut holders: BTreeMap<String, (String, String, usize)> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for (number, event) in (1..).zip(events) {
        let field = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
        let (node, owner, at) = (field("node_id"), field("owner"), field("timestamp"));
        let wrong = |what: &str| Err(format!("event {number}, {event}: {what}"));
        let holder = holders.get(&node).cloned();
        match event["type"].as_str().unwrap_or_default() {
            "lock_acquired" => {
                let token = match holder {
                    Some((_, until, _)) if until <= at => return wrong("it was not reaped"),
                    Some((other, ..)) if other != owner => return wrong("two holders"),
                    Some((_, _, token)) => token,
                    None => number,
                };
                holders.insert(node, (owner, field("expires_at"), token));
            }
            "lock_released" => match holders.remove(&node) {
                Some((held, ..)) if held == owner => {}
                _ => return wrong("it is not its own"),
            },
            "lock_reaped" => match holders.remove(&node) {
                Some((held, until, _)) if held == owner && until <= at => {}
                _ => return wrong("it was not over"),
            },
            "worked" => {
                let holder = holders.get(&field("node"));
                let is_held = |(held, _, token): &(String, String, usize)| {
                    *held == owner && event["token"] == *token
                };
                if !holder.is_some_and(is_held) {
                    return wrong("its writer does not hold the node");
                }
            }
            "x" if !seen.insert((field("from"), event["number"].as_u64())) => {
                return wrong("it is there twice");
            }
            _ => {}
        }
    }
    Ok(())
}

#[test]
fn the_checker_of_the_campaign_finds_what_is_lost_twice_there_and_held_by_two() {
    let late = "9999-01-01T00:00:00Z";
    let acquired = |owner: &str| {
        json!({"type": "lock_acquired", "timestamp": "2026-01-01T00:00:00Z", "node_id": "1.0",
               "owner": owner, "expires_at": late})
    };
    let x = |number: u64| json!({"type": "x", "from": "a", "number": number});
    let worked = json!({"type": "worked", "node": "1.0", "token": 2, "owner": "a"});
    let ended = |kind: &str, owner: &str| json!({"type": kind, "timestamp": "2026-01-02T00:00:00Z", "node_id": "1.0", "owner": owner});
    let good = vec![
        x(1),
        acquired("a"),
        worked.clone(),
        ended("lock_released", "a"),
    ];
    let answers = ["a appended 1 1", "a claimed 2 1.0 2", "a worked 3 1.0 2"].map(str::to_owned);
    let checked = |events: &[Value], answers: &[String]| {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("ledger")).unwrap();
        for (number, event) in (1..).zip(events) {
            crate::place::put(directory.path(), number, &event.to_string());
        }
        check(directory.path(), answers)
    };
    assert_eq!(checked(&good, &answers), Ok(4));
    for (events, wrong) in [
        (good[..2].to_vec(), "was acknowledged"),
        (
            vec![x(2), acquired("a"), worked.clone()],
            "was acknowledged",
        ),
        ([&good[..], &[x(1)]].concat(), "twice"),
        (vec![x(1), acquired("a"), acquired("b")], "two holders"),
        (vec![x(1), acquired("b"), worked], "does not hold"),
        (
            vec![x(1), acquired("a"), ended("lock_reaped", "a")],
            "not over",
        ),
        (
            vec![x(1), acquired("a"), ended("lock_released", "b")],
            "not its own",
        ),
    ] {
        let found = checked(&events, &answers).unwrap_err();
        assert!(found.contains(wrong), "{wrong}: {found}");
    }
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}
