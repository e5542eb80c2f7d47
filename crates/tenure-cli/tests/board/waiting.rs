//! The files that `next` opens, and the issues that it passes over.

use std::fs;

use tenure_board::GateBy;

use crate::place::{Place, id, titled};
use crate::strace::strace;
use crate::world::{code, text};

/// Counts the openings of issues' files by a command.
fn opens(place: &Place, arguments: &[&str]) -> usize {
    let arguments = place.on(arguments);
    let arguments: Vec<&str> = ["board"]
        .into_iter()
        .chain(arguments.iter().map(String::as_str))
        .collect();
    let output = strace(
        &place.world,
        &["-f", "-e", "trace=open,openat,openat2"],
        &arguments,
    )
    .output();
    let output = output.unwrap();
    assert_eq!(code(&output), 0, "{output:?}");
    let trace = text(&fs::read(place.world.path("trace")).unwrap());
    let is_issue = |line: &&str| line.contains("/issues/") && line.contains(".json\"");
    let opened = trace.lines().filter(is_issue).count();
    assert!(opened > 0, "the trace shows no issue: {trace}");
    opened
}

#[test]
fn next_opens_few_files_though_hundreds_before_it_wait_for_a_gate_or_are_claimed() {
    let place = Place::new();
    let board = place.board();
    board.define_gate("review", GateBy::Anyone).unwrap();
    for number in 0..260 {
        let mut new = titled(&format!("g{number}"));
        (new.priority, new.gates) = (0, vec!["review".into()]);
        board.create(new).unwrap();
        let mut new = titled(&format!("c{number}"));
        new.priority = 1;
        board.create(new).unwrap();
        board.claim(&id(&format!("c{number}")), None).unwrap();
    }
    place.add(&["last"]);
    // The first `next` reads everything, for the cache.
    assert_eq!(place.done(&["next"]), "last");
    let opened = opens(&place, &["next"]);
    assert!(opened < 20, "{opened} files were opened");
    let opened = opens(&place, &["next", "--claim"]);
    assert!(opened < 20, "{opened} files were opened");
    // An issue that has become ready since is found.
    place.done(&["gate", "pass", "g7", "review"]);
    assert_eq!(place.done(&["next"]), "g7");
}

#[test]
fn an_issue_that_can_be_read_but_not_written_keeps_nobody_from_the_others() {
    let mut place = Place::new();
    place.stays_broken();
    place.add(&["bad", "good"]);
    let path = place.path("issues/bad.json");
    let text = fs::read_to_string(&path).unwrap();
    let body = |length: usize| {
        text.replace(
            "\"body\": \"\"",
            &format!("\"body\": \"{}\"", "x".repeat(length)),
        )
    };
    for (edited, is_usable) in [
        (
            text.replace("\"labels\": []", "\"labels\": [\"needs review\"]"),
            true,
        ),
        (
            text.replace("\"title\": \"bad\"", "\"title\": \"a\\tb\""),
            true,
        ),
        (body((1 << 20) - text.len()), true),
        (body((1 << 20) + (64 << 10) - text.len()), false),
        (
            text.replace("\"last_token\": 0", "\"last_token\": 18446744073709551615"),
            false,
        ),
        (
            text.replace("\"last_token\": 0", "\"last_token\": 9007199254740991"),
            false,
        ),
        (
            text.replace("\"version\": 1", "\"version\": 18446744073709551615"),
            false,
        ),
    ] {
        let edited = edited.replace("\"priority\": 2", "\"priority\": 0");
        fs::write(&path, &edited).unwrap();
        // An edit by hand, unlike a command, does not update the cache, so the cache is removed.
        let _ = fs::remove_file(place.path(".ready"));
        let next = place.json(&["next", "--claim", "--owner", "agent:1"]);
        let next = next["issues"][0]["id"].as_str().unwrap().to_owned();
        assert_eq!(next, if is_usable { "bad" } else { "good" });
        place.done(&["release", &next, "--owner", "agent:1"]);
        if !is_usable {
            // If it is the only issue, its file is named.
            place.done(&["claim", "good", "--owner", "agent:2"]);
            let said = place.refused(65, &["next", "--claim", "--owner", "agent:1"]);
            assert!(said.contains("issues/bad.json"), "{said}");
            place.done(&["release", "good", "--owner", "agent:2"]);
        }
    }
}

#[test]
fn a_full_issue_can_be_claimed_and_released_but_takes_no_more_notes() {
    let place = Place::new();
    place.add(&["a"]);
    let length = fs::read(place.path("issues/a.json")).unwrap().len();
    let body = "x".repeat((1 << 20) - length - 20);
    let board = place.board();
    let fill = |issue: &mut tenure_board::issue::Issue| {
        issue.body.clone_from(&body);
        Ok(())
    };
    board.update(&id("a"), fill).unwrap();
    let said = place.refused(65, &["note", "a", &"x".repeat(100)]);
    assert!(said.contains("at most 1 MiB"), "{said}");
    for _ in 0..3 {
        assert_eq!(code(&place.call(&["run", "--", "sh", "-c", "exit 3"])), 3);
    }
    assert_eq!(place.issue("a")["claim"], serde_json::Value::Null);
    place.done(&["run", "--", "true"]);
    assert_eq!(place.issue("a")["state"], "done");
}

#[test]
fn nothing_is_said_to_be_left_only_if_everything_can_be_read() {
    let mut place = Place::new();
    place.stays_broken();
    place.add(&["a", "b"]);
    fs::write(place.path("issues/b.json"), "{").unwrap();
    place.done(&["done", "a"]);
    for arguments in [
        &["next"][..],
        &["next", "--wait", "10s"],
        &["run", "--", "true"],
    ] {
        let said = place.refused(65, arguments);
        assert!(said.contains("issues/b.json"), "{said}");
    }
    place.add(&["c"]);
    assert_eq!(place.done(&["next"]), "c");
}

#[test]
fn a_label_that_nobody_has_is_named() {
    let place = Place::new();
    place.add(&["a"]);
    let said = place.refused(66, &["next", "--label", "zz"]);
    assert!(
        said.contains("nothing is left to do with the label zz"),
        "{said}"
    );
}
