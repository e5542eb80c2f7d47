//! Clocks and events that are wrong.

use std::process::{Command, Output};

use crate::place::{Place, X, claim_event};
use crate::world::{code, text};

/// Runs `tenure ledger ARGUMENTS` with a wrong wall clock. A `faketime` that was killed leaves a
/// semaphore, which may make the next one fail: the command is then started again.
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
    // An hour later by the clock, bo claims another node: 1.1 is over by then.
    let later = at(
        &place,
        "+1h",
        &["claim", "p", "1.2", "--owner", "bo", "--ttl", "10m"],
    );
    assert_eq!(code(&later), 0, "{later:?}");
    // The clock is set back. No claim that was over is held again, and none that is held is over.
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
fn an_event_from_2035_holds_up_its_own_node_alone_until_its_owner_releases() {
    let place = Place::new();
    let (at, until) = ("2035-01-01T00:00:00Z", Some("2035-01-01T00:05:00Z"));
    place.put(1, &claim_event("lock_acquired", "1.1", "ana", at, until));
    let said = place.refused(65, &["claim", "p", "1.1", "--owner", "bo"]);
    assert!(
        said.contains("event-000001.json") && said.contains("2035-01-01"),
        "{said}"
    );
    let claim = ["claim", "p", "1.2", "--owner", "bo", "--json"];
    let claimed = text(&place.call(&claim).stdout);
    assert!(!claimed.contains("2035"), "{claimed}");
    place.done(&["reap", "p"]);
    assert_eq!(place.done(&["append", "p", X]), "3");
    place.done(&["release", "p", "1.1", "--owner", "ana"]);
    assert_eq!(place.done(&["claim", "p", "1.1", "--owner", "bo"]), "1.1#5");
    let released = text(&place.call(&["show", "p", "4"]).stdout);
    assert!(!released.contains("2035"), "{released}");
    // A renewal by the owner helps as well as a release.
    place.put(6, &claim_event("lock_acquired", "1.3", "ana", at, until));
    place.done(&["claim", "p", "1.3#6", "--owner", "ana", "--ttl", "1s"]);
}

#[test]
fn a_claim_that_never_ends_or_is_not_whole_holds_up_its_own_node_alone_and_is_mended_when_asked() {
    const EVER: &str = "9999-12-31T23:59:59Z";
    let acquired = |at, until| claim_event("lock_acquired", "1.1", "ana", at, Some(until));
    for event in [
        acquired("2035-01-01T00:00:00Z", "2035-01-01T00:05:00Z"),
        acquired("2026-01-01T00:00:00Z", "2935-01-01T00:05:00Z"),
        acquired(EVER, EVER),
        acquired("2026-01-01T00:00:00Z", EVER),
        acquired("soon", "later"),
        "{\"type\":\"lock_acquired\",\"node_id\":\"1.1\"}".into(),
        "{\"type\":\"lock_released\",\"node_id\":\"1.1\",\"owner\":7}".into(),
        "{\"type\":\"lock_reaped\"}".into(),
    ] {
        let place = Place::new();
        let claim = |node: &str| place.call(&["claim", "p", node, "--owner", "bo"]);
        assert_eq!(code(&claim("1.2")), 0, "{event}");
        place.put(2, &event);
        // The holder of another node goes on, and a claim on a third node succeeds.
        assert_eq!(code(&claim("1.3")), 0, "{event}");
        place.done(&["claim", "p", "1.2#1", "--owner", "bo"]);
        place.done(&["append", "p", "--token", "1.2#1", "--owner", "bo", X]);
        for arguments in [&["reap", "p"][..], &["log", "p"], &["claims", "p"]] {
            place.done(arguments);
        }
        let refused = claim("1.1");
        let is_nobodys = !event.contains("1.1");
        assert_eq!(code(&refused) == 0, is_nobodys, "{event}: {refused:?}");
        let verified = place.call(&["verify", "p", "--repair"]);
        assert_eq!(code(&verified), 65, "{event}");
        let said = text(&verified.stdout);
        assert!(
            said.contains("event-000002.json") && said.contains("--yes"),
            "{said}"
        );
        place.done(&["verify", "p", "--repair", "--yes"]);
        if !is_nobodys {
            assert_eq!(code(&claim("1.1")), 0, "{event}");
            place.done(&["append", "p", "--token", "1.2#1", "--owner", "bo", X]);
        }
        place.done(&["verify", "p"]);
    }
}
