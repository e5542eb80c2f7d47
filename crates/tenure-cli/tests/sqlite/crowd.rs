//! Two hundred processes at once.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use crate::other_sqlite::Database;
use crate::process::{Process, assert_nothing_is_left};
use crate::world::{World, code};

const PROCESSES: usize = 200;

/// As long as each of them is ready to wait.
const PATIENCE: Duration = Duration::from_secs(300);

/// Reads a number, writes the next one, and notes the token it did that under.
const COUNT: &str = r#"read n < "$0"; echo $((n + 1)) > "$0"; echo $TENURE_TOKEN >> "$0.tokens""#;

/// Every process counts up the file of its resource, under the lock.
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
        let output = process.end_within(PATIENCE);
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
