//! Tokens at the write: named ones, and those of the `run` around it.

use std::process::Output;

use super::commands::{doc_with, get, put};
use crate::world::{World, code, text};

/// Returns `TENURE_LEASES` as a command under `run` gets it.
fn leases(world: &World, arguments: &[&str]) -> String {
    let mut command = world.tenure();
    command
        .arg("run")
        .args(arguments)
        .args(["--", "sh", "-c", "echo \"$TENURE_LEASES\""]);
    let output = command.output().unwrap();
    assert_eq!(code(&output), 0, "{output:?}");
    text(&output.stdout)
}

/// Replaces a document, in the environment of a command with these leases.
fn update_under(world: &World, leases: &str) -> Output {
    let mut command = world.tenure();
    command.env("TENURE_LEASES", leases);
    command.args(["doc", "update", "a.json", "--", "echo", "[2]"]);
    command.output().unwrap()
}

fn write(world: &World, token: &str, more: &[&str]) -> Output {
    let arguments = ["write", "--token", token, "a.json"];
    doc_with(
        world,
        arguments.into_iter().chain(more.iter().copied()),
        token_document(token).as_bytes(),
    )
}

fn token_document(token: &str) -> String {
    format!("\"{token}\"")
}

#[test]
fn under_a_run_a_document_is_written() {
    for world in World::each() {
        let script = "echo '[1]' | \"$TENURE\" doc write a.json";
        let output = world.run(["x", "--", "sh", "-c", script]);
        assert_eq!(code(&output), 0, "{output:?}");
        assert_eq!(get(&world, "a.json"), "[1]\n");
    }
}

#[test]
fn the_late_write_of_a_run_that_lost_its_lock_is_refused() {
    for world in World::each() {
        put(&world, "a.json", "[1]");
        let old = leases(&world, &["x"]);
        assert_eq!(code(&update_under(&world, &old)), 0, "nobody took over yet");
        put(&world, "a.json", "[1]");
        leases(&world, &["x"]);
        let output = update_under(&world, &old);
        assert_eq!(code(&output), 77, "{output:?}");
        assert!(
            text(&output.stderr).contains("of name:x is fenced"),
            "{output:?}"
        );
        assert_eq!(get(&world, "a.json"), "[1]");
    }
}

#[test]
fn a_lock_that_is_lost_while_the_command_runs_is_noticed_before_the_write() {
    let world = World::new();
    put(&world, "a.json", "[1]");
    let old = leases(&world, &["x"]);
    let mut command = world.tenure();
    command.env("TENURE_LEASES", old);
    let script = "env -u TENURE_LEASES \"$TENURE\" run x -- true; echo '[2]'";
    let output = command
        .args(["doc", "update", "a.json", "--", "sh", "-c", script])
        .output();
    let output = output.unwrap();
    assert_eq!(code(&output), 77, "{output:?}");
    assert_eq!(get(&world, "a.json"), "[1]");
}

#[test]
fn without_the_store_of_the_run_nothing_is_written() {
    for world in World::each() {
        put(&world, "a.json", "[1]");
        let old = leases(&world, &["x"]);
        std::fs::remove_dir_all(world.path("store")).unwrap();
        let output = update_under(&world, &old);
        assert_eq!(code(&output), 69, "{output:?}");
        assert!(
            text(&output.stderr).contains("there is no store"),
            "{output:?}"
        );
        assert_eq!(get(&world, "a.json"), "[1]");
        assert!(!world.path("store").exists(), "a question made a store");
    }
}

#[test]
fn slots_are_no_locks() {
    let world = World::new();
    put(&world, "a.json", "[1]");
    let old = leases(&world, &["--slot", "build:1"]);
    leases(&world, &["--slot", "build:1"]);
    assert_eq!(code(&update_under(&world, &old)), 0);
}

/// Takes a lock, gives it back, and returns its token.
fn token(world: &World, resource: &str) -> String {
    let output = world.run([resource, "--", "sh", "-c", "echo $TENURE_TOKEN"]);
    assert_eq!(code(&output), 0, "{output:?}");
    format!("{resource}#{}", text(&output.stdout).trim())
}

#[test]
fn a_document_remembers_the_token_of_its_last_write() {
    for world in World::each() {
        let first = token(&world, "x");
        assert_eq!(code(&write(&world, &first, &[])), 0);
        assert_eq!(
            code(&write(&world, &first, &[])),
            0,
            "the same holder writes again"
        );
        let other = token(&world, "y");
        let output = write(&world, &other, &[]);
        assert_eq!(code(&output), 76, "{output:?}");
        assert!(text(&output.stderr).contains("--rebind"), "{output:?}");
        assert_eq!(get(&world, "a.json"), token_document(&first));
        assert_eq!(code(&write(&world, &other, &["--rebind"])), 0);
        assert_eq!(get(&world, "a.json"), token_document(&other));
        assert_eq!(code(&write(&world, &first, &[])), 76);
    }
}

#[test]
fn a_store_is_the_same_however_it_is_spelled() {
    let world = World::new();
    let first = token(&world, "x");
    assert_eq!(code(&write(&world, &first, &[])), 0);
    let same = format!(
        "sqlite:{}",
        world.path("store/../store/tenure.db").display()
    );
    assert_eq!(code(&write(&world, &first, &["--store", &same])), 0);
}

#[test]
fn a_token_that_cannot_be_checked_writes_nothing_and_makes_no_store() {
    for world in World::each() {
        let output = write(&world, "x#5", &[]);
        assert_eq!(code(&output), 69, "{output:?}");
        let said = text(&output.stderr);
        assert!(said.contains("there is no store"), "{said}");
        assert!(!world.path("a.json").exists() && !world.path("store").exists());
    }
}

#[test]
fn under_a_lock_that_was_only_ever_read_a_document_is_written() {
    for world in World::each() {
        let script = "echo '[1]' | \"$TENURE\" doc write a.json";
        let output = world.run(["x=read", "--", "sh", "-c", script]);
        assert_eq!(code(&output), 0, "{output:?}");
        assert_eq!(get(&world, "a.json"), "[1]\n");
    }
}

#[test]
fn a_token_that_is_named_is_checked_in_its_store() {
    for world in World::each() {
        let (first, second) = (token(&world, "x"), token(&world, "x"));
        let output = write(&world, &first, &[]);
        assert_eq!(code(&output), 77, "{output:?}");
        assert!(text(&output.stderr).contains("is fenced"), "{output:?}");
        assert!(!world.path("a.json").exists());
        let output = write(&world, &second, &[]);
        assert_eq!((code(&output), text(&output.stderr).as_str()), (0, ""));
    }
}

#[test]
fn a_token_that_makes_no_sense_is_a_usage_error() {
    let world = World::new();
    for arguments in [
        &["write", "a.json", "--token", "x"][..],
        &["write", "a.json", "--token", "x#y"],
        &["write", "a.json", "--rebind"],
        &["read", "a.json", "--token", "x#1"],
    ] {
        let output = doc_with(&world, arguments.iter().copied(), b"[1]");
        assert_eq!(code(&output), 2, "{arguments:?}: {output:?}");
    }
}
