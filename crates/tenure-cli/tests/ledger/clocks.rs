//! Clocks that are wrong, and events that are.

use std::process::{Command, Output};

use crate::place::{Place, X, claim_event};
use crate::world::{code, text};

/// `tenure ledger ARGUMENTS` with the clock on the wall set wrong. A `faketime` that was killed leaves a
/// semaphore, at which another one may fail: it is started again then.
fn at(place: &Place, offset: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new("faketime");
    place.world.prepare(&mut command);
    command.args(["-f", offset, env!("CARGO_BIN_EXE_tenure"), "ledger"]);
    command.args(arguments);
    loop {
        let output = command.output().unwrap();
        if !output.stderr.starts_with(b"faketime: sem_open") {
            return output;
        }
    }
}

#[test]
fn a_clock_set_back_an_hour_neither_ends_a_claim_nor_gives_it_more_time() {
    let place = Place::new();
    place.done(&["claim", "p", "1.1", "--owner", "ana", "--ttl", "1s"]);
    // An hour later, somebody claims another node: 1.1 is over by then.
    let later = at(
        &place,
        "+1h",
        &["claim", "p", "1.2", "--owner", "bo", "--ttl", "10m"],
    );
    assert_eq!(code(&later), 0, "{later:?}");
    // The clock is set back. Nothing that was over is held again, and nothing that is held is over.
    let late = ["append", "p", "--token", "1.1#1", "--owner", "ana", X];
    place.refused(77, &late);
    place.refused(75, &["claim", "p", "1.2", "--owner", "ana"]);
    assert_eq!(place.done(&["claim", "p", "1.1", "--owner", "bo"]), "1.1#4");
    let log = place.json(&["log", "p"]);
    let times: Vec<&str> = log["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| event["event"]["timestamp"].as_str().unwrap())
        .collect();
    assert!(times.is_sorted(), "{times:?}");
}

#[test]
fn an_event_from_2035_stops_claim_and_reap_until_its_owner_releases() {
    let place = Place::new();
    let (at, until) = ("2035-01-01T00:00:00Z", Some("2035-01-01T00:05:00Z"));
    place.put(1, &claim_event("lock_acquired", "1.1", "ana", at, until));
    for arguments in [
        &["claim", "p", "1.2"][..],
        &["claim", "p", "1.1#1", "--owner", "ana"],
        &["reap", "p"],
    ] {
        let said = place.refused(65, arguments);
        assert!(
            said.contains("event-000001.json") && said.contains("2035-01-01"),
            "{said}"
        );
    }
    assert_eq!(place.done(&["append", "p", X]), "2");
    place.done(&["release", "p", "1.1", "--owner", "ana"]);
    assert_eq!(place.done(&["claim", "p", "1.2"]), "1.2#4");
    let released = text(&place.call(&["show", "p", "3"]).stdout);
    assert!(!released.contains("2035"), "{released}");
}
