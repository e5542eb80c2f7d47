//! `--compat proper-lockfile`, as a Node program sees it: its lock is a directory.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use super::commands::{doc, get, put};
use crate::world::{World, code, text};

fn world() -> World {
    let world = World::new();
    put(&world, "a.json", "{\"n\":0}");
    world
}

#[test]
fn the_lock_of_node_is_held_while_the_command_runs_and_gone_after() {
    let world = world();
    let script = "test -d a.json.lock && jq -c .n=1";
    let update = [
        "update",
        "--compat",
        "proper-lockfile",
        "a.json",
        "--",
        "sh",
        "-c",
        script,
    ];
    let output = doc(&world, update);
    assert_eq!(code(&output), 0, "{output:?}");
    assert_eq!(get(&world, "a.json"), "{\"n\":1}");
    assert!(!world.path("a.json.lock").exists());
}

#[test]
fn whoever_waits_for_it_is_told_so_and_gets_it_when_it_is_gone() {
    let world = world();
    std::fs::create_dir(world.path("a.json.lock")).unwrap();
    let mut command = world.tenure();
    command.args([
        "doc",
        "update",
        "--compat",
        "proper-lockfile",
        "a.json",
        "--",
        "echo",
        "[1]",
    ]);
    let mut waiter = command
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(waiter.stderr.take().unwrap()).lines();
    let line = lines.next().unwrap().unwrap();
    assert!(
        line.contains(" of 15s: held by a program that speaks proper-lockfile"),
        "{line}"
    );
    assert!(line.contains("a.json.lock"), "{line}");
    std::fs::remove_dir(world.path("a.json.lock")).unwrap();
    assert!(waiter.wait().unwrap().success());
    assert_eq!(get(&world, "a.json"), "[1]");
}

#[test]
fn without_waiting_it_is_75_and_without_sharing_a_conflict() {
    let world = world();
    std::fs::create_dir(world.path("a.json.lock")).unwrap();
    let shared = [
        "update",
        "--no-wait",
        "--compat",
        "proper-lockfile",
        "a.json",
        "--",
        "cat",
    ];
    let output = doc(&world, shared);
    assert_eq!(code(&output), 75, "{output:?}");
    assert!(
        text(&output.stderr).contains("a.json.lock is held"),
        "{output:?}"
    );
    let output = doc(&world, ["update", "a.json", "--", "cat"]);
    assert_eq!(code(&output), 76, "{output:?}");
    assert!(
        text(&output.stderr).contains("--compat proper-lockfile"),
        "{output:?}"
    );
}

#[test]
fn a_lock_that_another_took_is_told_at_once_and_nothing_is_written() {
    let world = world();
    // Another program takes the lock over. The command ends once ours has told of the loss.
    let script = "rmdir a.json.lock && mkdir a.json.lock && touch -d '+1 hour' a.json.lock; \
                  while [ ! -e told ]; do sleep 0.01; done; echo '[1]'";
    let mut command = world.tenure();
    command.args([
        "doc",
        "update",
        "--compat",
        "proper-lockfile",
        "a.json",
        "--",
        "sh",
        "-c",
    ]);
    let mut update = command.arg(script).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(update.stderr.take().unwrap()).lines();
    let line = lines.next().unwrap().unwrap();
    assert!(
        line.starts_with("tenure: the lock a.json.lock was lost: "),
        "{line}"
    );
    put(&world, "told", "");
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    assert_eq!(update.wait().unwrap().code(), Some(79), "{rest:?}");
    assert!(
        rest.iter().any(|line| line.contains("nothing was written")),
        "{rest:?}"
    );
    assert_eq!(get(&world, "a.json"), "{\"n\":0}");
    assert!(
        world.path("a.json.lock").exists(),
        "the lock of another stays"
    );
}

#[test]
fn a_signal_does_not_leave_the_lock_to_programs_of_node() {
    let world = world();
    let script = "kill -TERM $PPID; exec sleep 1000";
    let update = [
        "update",
        "--compat",
        "proper-lockfile",
        "a.json",
        "--",
        "sh",
        "-c",
        script,
    ];
    let output = doc(&world, update);
    assert_eq!(code(&output), 143, "{output:?}");
    assert!(!world.path("a.json.lock").exists());
    assert_eq!(get(&world, "a.json"), "{\"n\":0}");
}

#[test]
fn another_protocol_is_a_usage_error() {
    let world = world();
    let output = doc(&world, ["read", "--compat", "lockfile", "a.json"]);
    assert_eq!(code(&output), 2, "{output:?}");
    assert!(
        text(&output.stderr).contains("proper-lockfile"),
        "{output:?}"
    );
}
