//! Claims that are over, late writers, clocks that are wrong.

use std::process::Command;

use crate::place::Place;
use crate::site::Process;
use crate::world::{code, text, until};

#[test]
fn the_late_writer_of_an_expired_claim_is_refused_and_the_new_owner_is_not_disturbed() {
    let place = Place::new();
    place.add(&["a"]);
    let old = place.done(&["claim", "a", "--owner", "ana", "--ttl", "1s"]);
    place.refused(75, &["claim", "a", "--owner", "bo"]);
    place.refused(75, &["next", "--claim", "--owner", "bo"]);
    until("the claim is over", || {
        code(&place.call(&["next", "--claim", "--owner", "bo"])) == 0
    });
    let claim = place.issue("a")["claim"].clone();
    assert_eq!(claim["owner"], "bo");
    assert!(claim["token"].as_u64().unwrap() > old.parse().unwrap());
    for late in ["renew", "release", "done"] {
        let said = place.refused(77, &[late, "a", "--owner", "ana", "--token", &old]);
        assert!(said.contains("claimed by bo"), "{said}");
        place.refused(77, &[late, "a", "--owner", "ana"]);
    }
    assert_eq!(place.issue("a")["claim"], claim);
    // The present owner is refused with an old token, too.
    let said = place.refused(77, &["done", "a", "--owner", "bo", "--token", &old]);
    assert!(said.contains("older"), "{said}");
    let token = claim["token"].to_string();
    place.done(&["done", "a", "--owner", "bo", "--token", &token]);
    assert_eq!(place.issue("a")["state"], "done");
}

#[test]
fn a_claim_that_is_over_and_nobody_took_is_still_its_owners() {
    let place = Place::new();
    place.add(&["a", "b"]);
    let token = place.done(&["claim", "a", "--owner", "ana", "--ttl", "1s"]);
    until("the claim is over", || {
        place.json(&["ls", "--ready"])["issues"]
            .as_array()
            .unwrap()
            .len()
            == 2
    });
    assert_eq!(
        place.done(&["renew", "a", "--owner", "ana", "--token", &token]),
        token
    );
    place.refused(75, &["claim", "a", "--owner", "bo"]);
}

#[test]
fn claiming_what_is_claimed_is_busy_and_for_its_own_owner_a_conflict() {
    let place = Place::new();
    place.add(&["a"]);
    let token = place.done(&["claim", "a", "--owner", "ana"]);
    let said = place.refused(75, &["claim", "a", "--owner", "bo"]);
    assert!(said.contains("claimed by ana until"), "{said}");
    let error = place.call(&["claim", "a", "--owner", "bo", "--json"]);
    let error = crate::world::json(&error.stdout)["error"].clone();
    assert_eq!(error["holders"][0]["owner"], "ana", "{error}");
    assert!(error["holders"][0]["expires_at"].is_string(), "{error}");
    let said = place.refused(76, &["claim", "a", "--owner", "ana"]);
    assert!(said.contains("renew"), "{said}");
    assert_eq!(
        place.done(&[
            "claim", "a", "--owner", "ana", "--token", &token, "--ttl", "2h"
        ]),
        token
    );
    let said = place.refused(2, &["claim", "a", "--ttl", "25h"]);
    assert!(said.contains("claim lasts from 1s to 24h"), "{said}");
    place.done(&["release", "a", "--owner", "ana"]);
    place.refused(77, &["release", "a", "--owner", "ana"]);
    let again = place.done(&["claim", "a", "--owner", "bo"]);
    assert!(again.parse::<u64>().unwrap() > token.parse().unwrap());
}

#[test]
fn a_clock_on_the_wall_set_forward_neither_ends_a_claim_nor_lets_tokens_go_back() {
    let place = Place::new();
    place.add(&["a"]);
    let token = place.done(&["claim", "a", "--owner", "ana"]);
    // A `faketime` that was killed leaves a semaphore, which may make the next one fail: the
    // command is then started again.
    let at = |offset: &str, arguments: &[&str]| loop {
        let mut command = Command::new("faketime");
        place.world.prepare(&mut command);
        command.args(["-f", offset, env!("CARGO_BIN_EXE_tenure"), "board"]);
        let output = command.args(place.on(arguments)).output().unwrap();
        if !output.stderr.starts_with(b"faketime: sem_open") {
            return output;
        }
    };
    assert_eq!(code(&at("+2h", &["claim", "a", "--owner", "bo"])), 75);
    let time_left = |offset: &str| {
        let listed = text(&at(offset, &["ls"]).stdout);
        listed
            .split("by ana, ")
            .nth(1)
            .expect(&listed)
            .trim()
            .to_owned()
    };
    for offset in ["+2h", "-1h", "+0s"] {
        let left = time_left(offset);
        assert!(
            left.starts_with("14m ") && left.ends_with(" left"),
            "{offset}: {left}"
        );
    }
    place.done(&["release", "a", "--owner", "ana"]);
    let back = at("-1h", &["claim", "a", "--owner", "bo"]);
    let back = text(&back.stdout).trim().parse::<u64>().unwrap();
    assert_eq!(back, token.parse::<u64>().unwrap() + 1);
}

#[test]
fn issues_that_others_claim_at_this_moment_count_as_claimed_and_not_as_blocked() {
    const ISSUES: usize = 12;
    for _ in 0..3 {
        let place = Place::new();
        let ids: Vec<String> = (0..ISSUES).map(|number| format!("i{number}")).collect();
        place.add(&ids.iter().map(String::as_str).collect::<Vec<_>>());
        let claimers: Vec<_> = (0..ISSUES * 2)
            .map(|number| {
                let owner = format!("agent:{number}");
                let next = ["next", "--claim", "--owner", &owner];
                Process::start(&mut place.command(&next))
            })
            .collect();
        let outputs: Vec<_> = claimers.into_iter().map(Process::end).collect();
        let (won, lost): (Vec<_>, Vec<_>) = outputs.iter().partition(|output| code(output) == 0);
        assert_eq!(won.len(), ISSUES);
        for output in lost {
            assert_eq!(code(output), 75, "{output:?}");
            let said = text(&output.stderr);
            assert!(said.contains("12 open, 12 claimed, 0 blocked"), "{said}");
        }
    }
}

#[test]
fn only_people_pass_a_gate_that_is_for_people() {
    let place = Place::new();
    place.done(&["gate", "define", "review", "--by", "people"]);
    place.done(&["gate", "define", "tests"]);
    place.done(&[
        "add", "x", "--id", "a", "--gate", "review", "--gate", "tests",
    ]);
    place.done(&["gate", "pass", "a", "tests", "--owner", "agent:1"]);
    let said = place.refused(77, &["gate", "pass", "a", "review", "--owner", "agent:1"]);
    assert!(said.contains("is for people"), "{said}");
    let said = place.refused(77, &["gate", "fail", "a", "review", "--owner", "agent:1"]);
    assert!(said.contains("gate fail a review"), "{said}");
    for refused in ["claim", "done"] {
        let said = place.refused(76, &[refused, "a", "--owner", "agent:1"]);
        assert!(said.contains("review (pending)"), "{said}");
    }
    place.done(&["gate", "pass", "a", "review", "--owner", "ana"]);
    place.done(&["claim", "a", "--owner", "agent:1"]);
    place.done(&["gate", "fail", "a", "tests"]);
    place.refused(76, &["done", "a", "--owner", "agent:1"]);
    place.refused(66, &["gate", "pass", "a", "other"]);
    let said = place.refused(76, &["gate", "define", "review"]);
    assert!(
        said.contains("it is for people, and you asked for anyone"),
        "{said}"
    );
}
