//! Many processes that append, and that claim the same nodes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tenure_ledger::Ledger;

use crate::place::{Place, X, count, judge};
use crate::process::Child;
use crate::site::Process;
use crate::world::code;

/// Makes a ledger where syncing costs nothing: these tests are about concurrency, not durability.
fn in_memory() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = directory.path().join("p");
    Ledger::init(&path, None).unwrap();
    (directory, path)
}

fn start(role: &str, directory: &Path, processes: usize, times: usize) -> Vec<Child> {
    let directory = directory.to_str().unwrap();
    let child = |number: usize| {
        let name = format!("agent-{number}");
        Child::start(role, &[directory, &name, &times.to_string()])
    };
    (0..processes).map(child).collect()
}

#[test]
fn of_sixteen_processes_that_append_500_events_each_none_is_lost_and_none_is_there_twice() {
    const PROCESSES: usize = 16;
    const EVENTS: usize = 500;
    let (_directory, path) = in_memory();
    let children = start("append", &path, PROCESSES, EVENTS);
    let mut sequences = BTreeSet::new();
    for (number, mut child) in children.into_iter().enumerate() {
        for event in 0..EVENTS {
            let answer = child.answer();
            let (said, sequence) = answer.split_once(' ').unwrap();
            assert_eq!(said, event.to_string());
            let sequence: u64 = sequence.parse().unwrap();
            assert!(sequences.insert(sequence), "{sequence} was given twice");
            let ledger = path.join(format!("ledger/event-{sequence:06}.json"));
            let text = std::fs::read_to_string(ledger).unwrap();
            let expected = format!("\"from\":\"agent-{number}\",\"number\":{event}}}");
            assert!(text.contains(&expected), "{sequence}: {text}");
        }
        child.finish();
    }
    let all = (PROCESSES * EVENTS) as u64;
    assert!(sequences.into_iter().eq(1..=all), "there is a gap");
    assert_eq!(count(&path) as u64, all);
    judge(&[&path]);
}

#[test]
fn commands_that_append_at_once_lose_nothing() {
    let place = Place::new();
    let append = "for i in 1 2 3 4 5; do \"$TENURE\" ledger append p --wait 60s '{\"type\":\"x\"}' || exit 1; done";
    let shells = [(); 8].map(|()| Process::shell(&place.world, append));
    for shell in shells {
        assert_eq!(code(&shell.end()), 0);
    }
    assert_eq!(place.events(), 40);
    assert_eq!(place.done(&["append", "p", X]), "41");
}

/// Returns the number of rounds in all: 10,000 where the long campaigns run.
fn rounds() -> usize {
    match std::env::var_os("TENURE_TEST_EVERY_CALL") {
        Some(_) => 10_000,
        None => 1200,
    }
}

#[test]
fn of_many_agents_that_claim_a_few_nodes_again_and_again_never_two_have_one() {
    const AGENTS: usize = 6;
    let (_directory, path) = in_memory();
    let mut won = 0;
    for mut child in start("claim", &path, AGENTS, rounds() / AGENTS) {
        won += child.answer().parse::<usize>().unwrap();
        child.finish();
    }
    // Each winner acquired, worked and released, and no other process wrote anything.
    assert_eq!(count(&path), 3 * won);
    let ledger = Ledger::open(&path, crate::world::DEADLINE).unwrap();
    assert_eq!(ledger.claims().unwrap(), []);
    assert!(ledger.verify().unwrap().findings.is_empty());
    eprintln!("{} rounds, {won} won", rounds());
    assert!(won > rounds() / 10, "{won}");
    judge(&[&path]);
}
