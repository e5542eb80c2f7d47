//! `doc write`.

use std::io::Write;
use std::process::Stdio;

use super::commands::{doc, doc_with, get, put};
use crate::terminal::Terminal;
use crate::world::{World, code, json, text};

#[test]
fn standard_input_is_put_in_place_byte_for_byte_and_the_version_is_printed() {
    let world = World::new();
    let new = "\u{feff}{\"n\":   1.50}";
    let output = doc_with(&world, ["write", "a.json"], new.as_bytes());
    assert_eq!(code(&output), 0, "{output:?}");
    assert_eq!(get(&world, "a.json"), new);
    let version = text(&output.stdout);
    assert_eq!(version.len(), 65, "{version}");
    assert_eq!(
        world.json(["doc", "read", "a.json"])["version"],
        version.trim()
    );
    let output = doc_with(&world, ["write", "a.json", "--json"], new.as_bytes());
    assert_eq!(
        json(&output.stdout),
        serde_json::json!({ "version": version.trim() })
    );
}

#[test]
fn a_broken_document_is_repaired() {
    let world = World::new();
    for broken in [&b"{broken"[..], b"", b"\xff\xfe"] {
        std::fs::write(world.path("a.json"), broken).unwrap();
        let output = doc_with(&world, ["write", "a.json"], b"[1]");
        assert_eq!(code(&output), 0, "{output:?}");
        assert_eq!(get(&world, "a.json"), "[1]");
    }
}

#[test]
fn what_is_not_json_is_65_and_leaves_the_document() {
    let world = World::new();
    put(&world, "a.json", "[1]");
    for (bad, said) in [
        (&b"[1, x]"[..], "byte 4"),
        (b"", "empty"),
        (b"{\"a\":1,\"a\":2}", "twice"),
        (b"[\"\xff\"]", "no UTF-8 at byte 2"),
    ] {
        let output = doc_with(&world, ["write", "a.json"], bad);
        assert_eq!(code(&output), 65, "{output:?}");
        assert!(text(&output.stderr).contains(said), "{output:?}");
        assert_eq!(get(&world, "a.json"), "[1]");
    }
}

#[test]
fn more_than_a_document_may_have_is_65() {
    let world = World::new();
    let script = "head -c 268435457 /dev/zero | \"$TENURE\" doc write a.json";
    let mut shell = std::process::Command::new("sh");
    world.prepare(&mut shell);
    let output = shell.args(["-c", script]).output().unwrap();
    assert_eq!(code(&output), 65, "{output:?}");
    assert!(
        text(&output.stderr).contains("more than 256 MiB"),
        "{output:?}"
    );
    assert!(!world.path("a.json").exists());
}

#[test]
fn another_version_than_the_one_expected_is_a_conflict() {
    let world = World::new();
    let absent = || doc_with(&world, ["write", "--expect", "absent", "a.json"], b"[1]");
    let first = text(&absent().stdout);
    assert_eq!(get(&world, "a.json"), "[1]");
    let output = absent();
    assert_eq!(code(&output), 76, "{output:?}");
    assert!(text(&output.stderr).contains(first.trim()), "{output:?}");
    let expecting = || {
        doc_with(
            &world,
            ["write", "--expect", first.trim(), "a.json"],
            b"[2]",
        )
    };
    assert_eq!(code(&expecting()), 0);
    let output = expecting();
    assert_eq!(code(&output), 76, "{output:?}");
    assert_eq!(get(&world, "a.json"), "[2]");
    let output = doc(&world, ["write", "--expect", "latest", "a.json"]);
    assert_eq!(code(&output), 2, "{output:?}");
}

#[test]
fn nobody_waits_for_standard_input() {
    let world = World::new();
    put(&world, "a.json", "[1]");
    let mut command = world.tenure();
    command.args(["doc", "write", "a.json"]);
    let mut slow = command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = slow.stdin.take().unwrap();
    input.write_all(b"[3").unwrap();
    let output = doc(
        &world,
        ["update", "--no-wait", "a.json", "--", "echo", "[2]"],
    );
    assert_eq!(code(&output), 0, "{output:?}");
    input.write_all(b"]").unwrap();
    drop(input);
    assert!(slow.wait().unwrap().success());
    assert_eq!(get(&world, "a.json"), "[3]");
}

#[test]
fn a_person_at_a_terminal_is_told_that_it_reads() {
    let world = World::new();
    let mut terminal = Terminal::open(&world);
    terminal.press("\"$TENURE\" doc write a.json\n");
    terminal.expect("end it with Ctrl-D");
    terminal.press("[1]\n\u{4}");
    terminal.expect("\r\n\u{1b}[?2004h$ ");
    assert_eq!(get(&world, "a.json"), "[1]\n");
}

#[test]
fn without_a_directory_it_is_66_and_says_how_to_make_one() {
    let world = World::new();
    let output = doc_with(&world, ["write", "no/a.json"], b"[1]");
    assert_eq!(code(&output), 66, "{output:?}");
    assert!(text(&output.stderr).contains("mkdir -p "), "{output:?}");
}
