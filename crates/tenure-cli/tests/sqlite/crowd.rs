//! Two hundred processes at once, and the cost of waiting when many wait.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::time::Duration;

use crate::holder::Holder;
use crate::other_sqlite::Database;
use crate::process::{Process, assert_nothing_is_left};
use crate::world::{World, code, text, until};

const PROCESSES: usize = 200;

/// The longest time that each process waits.
const DEADLINE: Duration = Duration::from_secs(300);

/// Reads a number, writes the next one, and notes the token of its lock.
const COUNT: &str = r#"read n < "$0"; echo $((n + 1)) > "$0"; echo $TENURE_TOKEN >> "$0.tokens""#;

/// Lets every process count up the file of its resource, under the lock.
fn count_up(resources: usize) {
    let world = World::new();
    let name = |number: usize| format!("r{}", number % resources);
    for number in 0..resources {
        fs::write(world.path(&name(number)), "0\n").unwrap();
    }
    let start = |number: usize| {
        let (name, script) = (name(number), COUNT);
        let file = world.path(&name).display().to_string();
        let run = [
            "run", "--wait", "5m", &name, "--", "sh", "-c", script, &file,
        ];
        Process::tenure(&world, run)
    };
    let processes: Vec<_> = (0..PROCESSES).map(start).collect();
    for process in processes {
        let output = process.end_within(DEADLINE);
        assert_eq!(code(&output), 0, "{output:?}");
    }
    let mut counts = BTreeMap::new();
    for number in 0..PROCESSES {
        *counts.entry(name(number)).or_insert(0) += 1;
    }
    for (name, count) in counts {
        let counted = fs::read_to_string(world.path(&name)).unwrap();
        assert_eq!(counted.trim(), count.to_string(), "{name}");
        let tokens = fs::read_to_string(world.path(&format!("{name}.tokens"))).unwrap();
        let tokens: Vec<u64> = tokens.lines().map(|line| line.parse().unwrap()).collect();
        assert_eq!(tokens.len(), count);
        assert!(tokens.is_sorted_by(|a, b| a < b), "{name}: {tokens:?}");
    }
    Database::of(&world).assert_whole();
    assert_nothing_is_left(&world);
}

#[test]
fn two_hundred_processes_on_one_resource_lose_nothing() {
    count_up(1);
}

#[test]
fn two_hundred_processes_on_fifty_resources_lose_nothing() {
    count_up(50);
}

/// Counts some system calls of a waiter behind `ahead` others, from its start until its time is
/// over. The time is long enough for a report of the wait.
fn calls_of_a_waiter_behind(ahead: usize) -> BTreeMap<String, usize> {
    let world = World::new();
    let _holder = Holder::start(&world, ["x"]);
    let wait = ["run", "--wait", "5m", "x", "--", "true"];
    let _line: Vec<_> = (0..ahead).map(|_| Process::tenure(&world, wait)).collect();
    let listed = ["ls", "--limit", "1000"];
    until("all are in line", || {
        world.json(listed)["waiting"].as_array().unwrap().len() == ahead
    });
    let trace = world.path("trace").display().to_string();
    let mut strace = Command::new("strace");
    world.prepare(&mut strace);
    strace.args([
        "-f",
        "-qq",
        "-o",
        &trace,
        "-e",
        "trace=kill,flock,fcntl,pidfd_open",
    ]);
    strace.arg(env!("CARGO_BIN_EXE_tenure"));
    strace.args(["run", "--wait", "3s", "x", "--", "true"]);
    let output = Process::start(&mut strace).end();
    assert_eq!(code(&output), 75, "{output:?}");
    assert!(text(&output.stderr).contains("in the queue"), "{output:?}");
    let mut calls = BTreeMap::new();
    for line in text(&fs::read(&trace).unwrap()).lines() {
        let call = line.trim_start_matches(|c: char| c.is_ascii_digit()).trim();
        let (name, _) = call.split_once('(').unwrap_or((call, ""));
        *calls.entry(name.to_owned()).or_default() += 1;
    }
    calls
}

#[test]
fn what_a_waiter_does_does_not_depend_on_how_many_wait_before_it() {
    let (few, many) = (calls_of_a_waiter_behind(20), calls_of_a_waiter_behind(60));
    for (call, count) in &many {
        let among_few = few.get(call).copied().unwrap_or_default();
        assert!(
            *count <= among_few + among_few / 4 + 4,
            "{call} {count} times behind 60, {among_few} times behind 20: {few:?} {many:?}"
        );
    }
    assert!(many.get("kill").is_none_or(|kills| *kills <= 8), "{many:?}");
}
