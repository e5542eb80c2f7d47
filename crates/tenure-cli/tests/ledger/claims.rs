//! One winner, late writers, release and reap at once.

use std::time::Instant;

use serde_json::json as value;

use crate::place::{Place, X, claim_event};
use crate::site::Process;
use crate::world::{DEADLINE, code, json, text};

const LONG_AGO: &str = "2024-01-15T10:30:00Z";
const A_LITTLE_LATER: &str = "2024-01-15T10:35:00Z";

/// Makes a ledger in which `old` had claims on these nodes, which are over.
fn with_old_claims(nodes: &[&str]) -> Place {
    let place = Place::new();
    for (sequence, node) in (1..).zip(nodes) {
        let until = Some(A_LITTLE_LATER);
        let event = claim_event("lock_acquired", node, "old", LONG_AGO, until);
        place.put(sequence, &event);
    }
    place
}

#[test]
fn a_node_is_claimed_once_renewed_with_its_token_and_released_by_its_owner_alone() {
    let place = Place::new();
    place.done(&["append", "p", X]);
    assert_eq!(
        place.done(&["claim", "p", "1.2.3", "--owner", "ana"]),
        "1.2.3#2"
    );
    let said = place.refused(75, &["claim", "p", "1.2.3", "--owner", "bo"]);
    assert!(
        said.contains("node already locked") && said.contains("ana until 2"),
        "{said}"
    );
    let said = place.refused(76, &["claim", "p", "1.2.3", "--owner", "ana"]);
    assert!(
        said.contains("node already locked") && said.contains("1.2.3#2"),
        "{said}"
    );
    place.refused(77, &["claim", "p", "1.2.3#2", "--owner", "bo"]);
    place.refused(77, &["claim", "p", "1.2.3#1", "--owner", "ana"]);
    let renewed = place.json(&["claim", "p", "1.2.3#2", "--owner", "ana", "--ttl", "1h"]);
    assert_eq!(renewed["claims"][0]["token"], 2);
    place.refused(77, &["release", "p", "1.2.3", "--owner", "bo"]);
    place.done(&["release", "p", "1.2.3", "--owner", "ana"]);
    place.refused(77, &["release", "p", "1.2.3", "--owner", "ana"]);
    assert_eq!(
        place.kinds(),
        ["x", "lock_acquired", "lock_acquired", "lock_released"]
    );
    assert_eq!(
        place.done(&["claim", "p", "1.2.3", "--owner", "bo"]),
        "1.2.3#5"
    );
}

#[test]
fn a_claim_that_is_over_is_reaped_before_it_is_claimed_anew_by_its_owner_too() {
    for owner in ["old", "new"] {
        let place = with_old_claims(&["1.2"]);
        assert_eq!(
            place.done(&["claim", "p", "1.2", "--owner", owner]),
            "1.2#3"
        );
        assert_eq!(
            place.kinds(),
            ["lock_acquired", "lock_reaped", "lock_acquired"]
        );
    }
}

#[test]
fn a_late_writer_is_refused_with_the_token_of_a_claim_that_is_over() {
    let place = with_old_claims(&["1.2"]);
    let late = ["append", "p", "--token", "1.2#1", "--owner", "old", X];
    let said = place.refused(77, &late);
    assert!(
        said.contains("1.2#1 was over at 2024-01-15T10:35:00Z"),
        "{said}"
    );
    // The claim is not renewed even though no other owner has taken the node.
    place.refused(77, &["claim", "p", "1.2#1", "--owner", "old"]);
    assert_eq!(
        place.done(&["claim", "p", "1.2", "--owner", "old"]),
        "1.2#3"
    );
    let said = place.refused(77, &late);
    assert!(said.contains("1.2#3"), "{said}");
    place.refused(77, &["append", "p", "--token", "1.2#3", "--owner", "bo", X]);
    place.refused(77, &["append", "p", "--token", "9#3", "--owner", "old", X]);
    let good = ["append", "p", "--token", "1.2#3", "--owner", "old", X];
    assert_eq!(place.done(&good), "4");
}

#[test]
fn release_and_reap_in_the_same_instant_end_a_claim_once() {
    let place = Place::new();
    let lock = place.path("ledger.lock");
    let deadline = Instant::now() + DEADLINE;
    let (mut released_first, mut reaped_first) = (0, 0);
    // The race is repeated until each of them came first several times.
    while released_first < 3 || reaped_first < 3 {
        assert!(
            Instant::now() < deadline,
            "{released_first} and {reaped_first}"
        );
        let (before, node) = (place.events(), format!("1.{released_first}.{reaped_first}"));
        let until = Some(A_LITTLE_LATER);
        let event = claim_event("lock_acquired", &node, "old", LONG_AGO, until);
        place.put(before as u64 + 1, &event);
        // Both commands are in line before either goes on.
        std::fs::create_dir(&lock).unwrap();
        let start = |arguments: &[&str]| Process::start(&mut place.command(arguments));
        let release = ["release", "p", &node, "--owner", "old", "--wait", "60s"];
        let reap = ["reap", "p", "--json", "--wait", "60s"];
        let (release, reap) = match before % 4 {
            0 => {
                let release = start(&release);
                release.until_said("another program");
                (release, start(&reap))
            }
            _ => {
                let reap = start(&reap);
                reap.until_said("another program");
                (start(&release), reap)
            }
        };
        release.until_said("waiting for");
        reap.until_said("waiting for");
        std::fs::remove_dir(&lock).unwrap();
        let reap = json(&reap.end().stdout);
        let release = release.end();
        let reaped = reap["reaped"].as_array().unwrap().len();
        match (code(&release), reaped) {
            (0, 0) => released_first += 1,
            (77, 1) => reaped_first += 1,
            other => panic!("{other:?}: {}", text(&release.stderr)),
        }
        assert_eq!(place.events(), before + 2, "it is ended once");
    }
    assert_eq!(place.json(&["claims", "p"])["claims"], value!([]));
}

#[test]
fn claims_show_what_is_held_and_what_is_over_and_reap_ends_the_latter() {
    let place = with_old_claims(&["1.1", "1.2"]);
    place.done(&["claim", "p", "1.3", "--owner", "ana"]);
    let claims = place.json(&["claims", "p"]);
    let states: Vec<_> = claims["claims"]
        .as_array()
        .unwrap()
        .iter()
        .map(|claim| &claim["state"])
        .collect();
    assert_eq!(states, ["expired", "expired", "held"]);
    let reaped = place.json(&["reap", "p"]);
    assert_eq!(reaped["reaped"][1]["node"], "1.2");
    assert_eq!(reaped["reaped"][1]["owner"], "old");
    assert_eq!(
        place.json(&["reap", "p"])["reaped"]
            .as_array()
            .unwrap()
            .len(),
        0
    );
    let table = place.done(&["claims", "p"]);
    assert!(
        table.starts_with("NODE") && table.contains("ana") && !table.contains("old"),
        "{table}"
    );
}

#[test]
fn files_of_claims_that_others_left_are_removed_once_they_are_over() {
    let place = with_old_claims(&["1.1"]);
    place.done(&["claim", "p", "1.2", "--owner", "ana"]);
    let folder = place.world.path("p/locks");
    std::fs::create_dir(&folder).unwrap();
    let file = |name: &str, node: &str, owner: &str, until: &str| {
        let text = format!(
            "{{\"node_id\":\"{node}\",\"owner\":\"{owner}\",\"acquired_at\":\"2024-01-15T10:30:00.123456789Z\",\"expires_at\":\"{until}\"}}"
        );
        std::fs::write(folder.join(name), text).unwrap();
    };
    let over = "2024-01-15T10:35:00.123456789Z";
    file("over.lock", "1.1", "old", over);
    file("unknown.lock", "7.7", "old", over);
    file("renewed.lock", "1.2", "ana", over);
    file("held.lock", "1.4", "bo", "2099-01-15T10:35:00.123456789Z");
    std::fs::write(folder.join("broken.lock"), "{").unwrap();
    let reap = place.call(&["reap", "p", "--json"]);
    assert_eq!(json(&reap.stdout)["reaped"].as_array().unwrap().len(), 1);
    assert!(text(&reap.stderr).contains("broken.lock"), "{reap:?}");
    let left = crate::site::names(&folder);
    assert_eq!(left, ["broken.lock", "held.lock", "renewed.lock"]);
    assert_eq!(place.kinds().last().unwrap(), "lock_reaped");
}

#[test]
fn a_claim_lasts_as_asked_for_or_as_the_ledger_says_from_a_second_to_an_hour() {
    let place = Place::new();
    for ttl in ["999ms", "61m"] {
        place.refused(65, &["claim", "p", "1", "--ttl", ttl]);
    }
    let seconds = |claims: serde_json::Value| {
        let at = |name: &str| -> tenure::Timestamp {
            claims["claims"][0][name].as_str().unwrap().parse().unwrap()
        };
        at("expires_at").since(at("acquired_at")).as_secs()
    };
    // The end of a claim is rounded up to a whole second.
    assert!((300..=301).contains(&seconds(place.json(&["claim", "p", "1"]))));
    assert!((1..=2).contains(&seconds(place.json(&["claim", "p", "2", "--ttl", "1s"]))));
    let meta = place.world.path("p/meta.json");
    std::fs::write(&meta, "{\"name\":\"proof\",\"lock_timeout\":\"90s\"}").unwrap();
    assert!((90..=91).contains(&seconds(place.json(&["claim", "p", "3"]))));
    for wrong in ["\"2h\"", "\"0s\"", "\"soon\"", "7", "null"] {
        std::fs::write(&meta, format!("{{\"lock_timeout\":{wrong}}}")).unwrap();
        let said = place.refused(65, &["claim", "p", "4"]);
        assert!(
            said.contains("meta.json") && said.contains("lock_timeout"),
            "{said}"
        );
    }
    std::fs::remove_file(&meta).unwrap();
    place.done(&["claim", "p", "4"]);
    for node in ["", ".x", "a b", "a/b"] {
        place.refused(65, &["claim", "p", node]);
    }
}
