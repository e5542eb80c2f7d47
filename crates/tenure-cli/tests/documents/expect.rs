//! Several processes that expect the same version.

use serde_json::json;

use crate::site::{Process, RAISE, doc, put, read, refused, version, write};
use crate::world::{World, code, text};

/// Runs ten updates with these arguments. Asserts that exactly one wins, and returns the version
/// that it told.
#[track_caller]
fn winner(world: &World, arguments: &[&str]) -> String {
    let crowd: Vec<Process> = (0..10)
        .map(|_| Process::doc(world, arguments.iter().copied().chain(RAISE)))
        .collect();
    let mut told = Vec::new();
    for process in crowd {
        let output = process.end();
        match code(&output) {
            0 => told.push(text(&output.stdout).trim().to_owned()),
            76 => drop(refused(&output, 76)),
            _ => panic!("{output:?}"),
        }
    }
    assert_eq!(told.len(), 1, "exactly one wins");
    told.remove(0)
}

#[test]
fn of_ten_that_expect_the_same_version_exactly_one_wins() {
    let world = World::new();
    put(&world, "a.json", "{\"n\":0}\n");
    for round in 1..=3 {
        let expected = version(&world, "a.json");
        let told = winner(
            &world,
            &["update", "--wait", "60s", "--expect", &expected, "a.json"],
        );
        assert_eq!(read(&world, "a.json"), json!({ "n": round }));
        assert_eq!(version(&world, "a.json"), told);
    }
}

#[test]
fn of_ten_that_expect_no_document_exactly_one_makes_it() {
    let world = World::new();
    let create = ["--expect", "absent", "--create", "{\"n\":0}", "a.json"];
    let update: Vec<&str> = ["update", "--wait", "60s"]
        .into_iter()
        .chain(create)
        .collect();
    let told = winner(&world, &update);
    assert_eq!(read(&world, "a.json"), json!({ "n": 1 }));
    assert_eq!(version(&world, "a.json"), told);
}

#[test]
fn who_expects_another_version_is_told_both_and_its_command_never_runs() {
    let world = World::new();
    put(&world, "a.json", "{\"n\":0}\n");
    let (actual, other) = (version(&world, "a.json"), "0".repeat(64));
    let update = ["update", "--expect", &other, "a.json", "--", "touch", "ran"];
    let said = refused(&doc(&world, update), 76);
    assert!(said.contains(&actual) && said.contains(&other), "{said}");
    let said = refused(&write(&world, b"{}", ["--expect", "absent", "a.json"]), 76);
    assert!(said.contains(&actual) && said.contains("absent"), "{said}");
    assert!(!world.path("ran").exists());
    assert_eq!(read(&world, "a.json"), json!({ "n": 0 }));
}
