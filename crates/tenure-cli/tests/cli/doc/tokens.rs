//! Tokens at the write: those that are named, and those of the `run` around it.

use std::process::Output;

use super::desk::{doc_with, get, put};
use crate::world::{World, code, text};

/// `TENURE_LEASES` as a command under `run` gets it.
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

/// Replaces a document, in the surroundings of a command under such a `run`.
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

#[test]
fn a_document_remembers_the_token_of_its_last_write() {
    let world = World::new();
    assert_eq!(code(&write(&world, "x#5", &[])), 0);
    assert_eq!(
        code(&write(&world, "x#5", &[])),
        0,
        "the same holder writes again"
    );
    let output = write(&world, "x#4", &[]);
    assert_eq!(code(&output), 77, "{output:?}");
    assert!(
        text(&output.stderr).contains("token 5 of name:x"),
        "{output:?}"
    );
    assert_eq!(get(&world, "a.json"), token_document("x#5"));
    let output = write(&world, "y#9", &[]);
    assert_eq!(code(&output), 76, "{output:?}");
    assert!(text(&output.stderr).contains("--rebind"), "{output:?}");
    assert_eq!(code(&write(&world, "y#9", &["--rebind"])), 0);
    assert_eq!(get(&world, "a.json"), token_document("y#9"));
    assert_eq!(code(&write(&world, "x#99", &[])), 76);
    assert_eq!(
        code(&write(&world, "y#8", &["--rebind"])),
        77,
        "an older one stays fenced"
    );
}

#[test]
fn a_token_of_another_store_is_of_another_lock() {
    let world = World::new();
    assert_eq!(code(&write(&world, "x#5", &[])), 0);
    let other = format!("sqlite:{}", world.path("other/tenure.db").display());
    assert_eq!(code(&write(&world, "x#6", &["--store", &other])), 76);
    let same = format!(
        "sqlite:{}",
        world.path("store/../store/tenure.db").display()
    );
    std::fs::create_dir(world.path("store")).unwrap();
    assert_eq!(
        code(&write(&world, "x#6", &["--store", &same])),
        0,
        "spelled differently"
    );
}

#[test]
fn a_token_that_cannot_be_checked_is_told_of_and_makes_no_store() {
    for world in World::each() {
        let output = write(&world, "x#5", &[]);
        assert_eq!(code(&output), 0, "{output:?}");
        let said = text(&output.stderr);
        assert!(said.contains("token 5 of name:x is not checked"), "{said}");
        assert_eq!(said.lines().count(), 1, "once: {said}");
        assert!(!world.path("store").exists());
    }
}

#[test]
fn a_token_that_is_named_is_checked_in_its_store() {
    for world in World::each() {
        let token = |world: &World| {
            let output = world.run(["x", "--", "sh", "-c", "echo $TENURE_TOKEN"]);
            format!("x#{}", text(&output.stdout).trim())
        };
        let (first, second) = (token(&world), token(&world));
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
