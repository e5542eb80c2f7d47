//! The output of each command.

use std::fs;
use std::time::Duration;

use serde_json::json;
use tenure_lockfile::FileLocker;

use crate::place::{Place, X};
use crate::site::Process;
use crate::world::{code, json, text, until};

#[test]
fn an_event_is_printed_as_it_was_written_and_numbers_keep_their_digits() {
    let place = Place::new();
    let event = "{\"type\":\"x\",\"n\":1.50,\"big\":12345678901234567890123}";
    assert_eq!(place.json(&["append", "p", event]), json!({"sequence": 1}));
    assert_eq!(place.done(&["show", "p", "1"]), event);
    let shown = place.call(&["log", "p", "--json"]);
    assert!(text(&shown.stdout).contains(event), "{shown:?}");
    assert_eq!(
        fs::read_to_string(place.path("event-000001.json")).unwrap(),
        format!("{event}\n")
    );
}

#[test]
fn a_page_of_the_log_says_where_the_next_one_begins() {
    let place = Place::new();
    for kind in ["a", "b", "a", "b", "a"] {
        place.done(&["append", "p", &format!("{{\"type\":\"{kind}\"}}")]);
    }
    let numbers = |arguments: &[&str]| {
        let page = place.json(&[&["log", "p"], arguments].concat());
        let events = page["events"].as_array().unwrap().iter();
        let numbers: Vec<u64> = events
            .map(|event| event["sequence"].as_u64().unwrap())
            .collect();
        (numbers, page["next"].as_u64())
    };
    assert_eq!(numbers(&[]), (vec![1, 2, 3, 4, 5], None));
    assert_eq!(numbers(&["--limit", "2"]), (vec![1, 2], Some(2)));
    assert_eq!(
        numbers(&["--after", "2", "--limit", "3"]),
        (vec![3, 4, 5], None)
    );
    assert_eq!(numbers(&["--type", "b"]), (vec![2, 4], None));
    assert_eq!(numbers(&["--after", "9"]), (vec![], None));
    let table = place.done(&["log", "p", "--after", "4"]);
    assert_eq!(
        table,
        "SEQUENCE  TYPE  EVENT\n5         a     {\"type\":\"a\"}"
    );
}

#[test]
fn a_follower_sees_every_event_in_order_as_it_comes() {
    let place = Place::new();
    place.done(&["append", "p", X]);
    let follower = Process::start(&mut place.command(&["log", "p", "--follow", "--json"]));
    until("the first is there", || {
        follower.printed().lines().count() == 1
    });
    for number in 2..=6 {
        place.done(&["append", "p", X]);
        until("the next one is there", || {
            follower.printed().lines().count() == number
        });
    }
    for (line, number) in follower.printed().lines().zip(1..) {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(line, json!({"sequence": number, "event": {"type": "x"}}));
    }
}

#[test]
fn a_sequence_that_is_expected_is_compared_under_the_lock() {
    let place = Place::new();
    assert_eq!(place.done(&["append", "p", "--expect", "0", X]), "1");
    let refused = place.call(&["append", "p", "--expect", "0", X, "--json"]);
    assert_eq!(code(&refused), 76);
    let error = &json(&refused.stdout)["error"];
    assert_eq!(
        (&error["kind"], &error["expected"], &error["actual"]),
        (&json!("conflict"), &json!(0), &json!(1))
    );
    let racers =
        [(); 6].map(|()| Process::start(&mut place.command(&["append", "p", "--expect", "1", X])));
    let codes = racers.map(|racer| code(&racer.end()));
    assert_eq!(
        codes.iter().filter(|code| **code == 0).count(),
        1,
        "{codes:?}"
    );
    assert_eq!(
        codes.iter().filter(|code| **code == 76).count(),
        5,
        "{codes:?}"
    );
}

#[test]
fn what_is_no_event_and_where_there_is_no_ledger_is_refused() {
    let place = Place::new();
    for event in [
        "",
        "{}",
        "[1]",
        "{\"type\":\"lock_acquired\"}",
        "{\"type\":\"lock_released\"}",
        "{\"type\":\"lock_reaped\"}",
        "{",
    ] {
        place.refused(65, &["append", "p", event]);
    }
    for arguments in [
        &["append", "q", X][..],
        &["log", "q"],
        &["show", "p", "1"],
        &["claims", "q"],
        &["verify", "q"],
    ] {
        place.refused(66, arguments);
    }
    assert_eq!(place.events(), 0);
    place.refused(76, &["init", "p", "--claim-ttl", "10m"]);
    place.done(&["init", "p"]);
    place.done(&["init", "p", "--claim-ttl", "5m"]);
    place.refused(65, &["init", "r", "--claim-ttl", "2h"]);
    place.done(&["init", "r", "--claim-ttl", "90s"]);
    let meta = fs::read_to_string(place.world.path("r/meta.json")).unwrap();
    assert_eq!(meta, "{\n  \"lock_timeout\": \"90s\"\n}\n");
}

#[test]
fn a_ledger_of_the_other_form_is_read_and_not_written() {
    let mut place = Place::new();
    place.stays_broken();
    for sequence in 1..=2 {
        let event = format!("{{\"type\":\"nodes_claimed\",\"n\":{sequence}}}");
        fs::write(place.path(&format!("00000{sequence}.json")), event).unwrap();
    }
    fs::write(place.path("notes.txt"), "").unwrap();
    assert_eq!(place.kinds(), ["nodes_claimed", "nodes_claimed"]);
    assert_eq!(place.json(&["verify", "p"])["events"], 2);
    for arguments in [
        &["append", "p", X][..],
        &["claim", "p", "1"],
        &["reap", "p"],
        &["verify", "p", "--repair", "--yes"],
    ] {
        let said = place.refused(65, arguments);
        assert!(said.contains("only read"), "{said}");
    }
    // A ledger of this form has claims of another kind, which we do not read.
    let said = place.refused(65, &["claims", "p"]);
    assert!(said.contains("claims in it are not read"), "{said}");
    assert_eq!(place.names(), ["000001.json", "000002.json", "notes.txt"]);
    fs::write(place.path("000004.json"), "").unwrap();
    let verified = place.call(&["verify", "p", "--json"]);
    let found = &json(&verified.stdout)["findings"];
    assert_eq!((code(&verified), found.as_array().unwrap().len()), (65, 2));
    assert!(!found.to_string().contains("--repair"), "{found}");
}

#[test]
fn a_signal_while_waiting_ends_with_130_and_leaves_nothing_behind() {
    let place = Place::new();
    place.done(&["append", "p", X]);
    let before = place.names();
    let interrupt_while = |said: &str| {
        for number in [libc::SIGINT, libc::SIGTERM] {
            let waiting = Process::start(&mut place.command(&["append", "p", "--wait", "60s", X]));
            waiting.until_said(said);
            crate::world::signal(waiting.id(), number);
            let output = waiting.end();
            assert_eq!(code(&output), 130);
            let said = text(&output.stderr);
            assert!(
                said.contains("interrupted while waiting for file:"),
                "{said}"
            );
        }
    };
    // The command waits first for the lock of a stranger, then for the kernel lock before it.
    fs::create_dir(place.path("ledger.lock")).unwrap();
    interrupt_while("another program");
    fs::remove_dir(place.path("ledger.lock")).unwrap();
    let queue = FileLocker::new(Duration::ZERO).lock_exclusive(&place.path(".queue.lock"));
    let queue = queue.unwrap();
    interrupt_while("waiting for");
    drop(queue);
    assert_eq!(place.names(), before);
    place.done(&["append", "p", X]);
}
