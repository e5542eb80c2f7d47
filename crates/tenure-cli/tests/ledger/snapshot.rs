//! Reading the claims without replaying every event.

use std::fs;

use crate::place::{Place, claim_event};

fn numbered(kind: &str, sequence: u64) -> String {
    format!("{{\"type\":\"{kind}\",\"n\":{sequence}}}")
}

/// Makes a ledger with 300 events, some of them claims.
fn large() -> Place {
    let place = Place::new();
    for sequence in 1..=300 {
        let node = format!("1.{}", sequence / 10);
        let (at, until) = ("2024-01-15T10:30:00Z", Some("2099-01-15T10:35:00Z"));
        match sequence % 10 {
            1 => place.put(
                sequence,
                &claim_event("lock_acquired", &node, "ana", at, until),
            ),
            5 if sequence < 200 => {
                place.put(
                    sequence,
                    &claim_event("lock_released", &node, "ana", at, None),
                );
            }
            _ => place.put(sequence, &numbered("x", sequence)),
        }
    }
    place
}

#[test]
fn a_snapshot_that_is_deleted_corrupt_or_of_another_ledger_changes_no_answer() {
    let place = large();
    let snapshot = place.path(".snapshot.json");
    let answer = place.json(&["claims", "p"]);
    assert_eq!(answer["claims"].as_array().unwrap().len(), 10);
    let good = fs::read_to_string(&snapshot).unwrap();
    let other = Place::new();
    for sequence in 1..=300 {
        other.put(sequence, &numbered("y", sequence));
    }
    other.done(&["claims", "p"]);
    let others = fs::read_to_string(other.path(".snapshot.json")).unwrap();
    for (what, text) in [
        ("as it is", good.clone()),
        ("empty", String::new()),
        ("torn", good[..good.len() / 2].to_owned()),
        ("zeros", "\0".repeat(good.len())),
        ("another owner", good.replacen("ana", "eve", 1)),
        (
            "another sequence",
            good.replacen("\"sequence\":300", "\"sequence\":299", 1),
        ),
        ("another ledger", others),
    ] {
        fs::write(&snapshot, text).unwrap();
        assert_eq!(place.json(&["claims", "p"]), answer, "{what}");
        assert_eq!(
            fs::read_to_string(&snapshot).unwrap(),
            good,
            "{what}: it is made anew"
        );
    }
    fs::remove_file(&snapshot).unwrap();
    assert_eq!(place.json(&["claims", "p"]), answer);
    fs::remove_file(&snapshot).unwrap();
    fs::create_dir(&snapshot).unwrap();
    assert_eq!(place.json(&["claims", "p"]), answer, "it cannot be written");
    assert_eq!(
        place.done(&["claim", "p", "1.1", "--owner", "bo"]),
        "1.1#301"
    );
}

#[test]
fn a_ledger_that_was_put_in_the_place_of_another_is_not_answered_from_memory() {
    let place = large();
    let ledger =
        tenure_ledger::Ledger::open(&place.world.path("p"), crate::world::DEADLINE).unwrap();
    assert_eq!(ledger.claims().unwrap().len(), 10);
    for sequence in 1..=300 {
        place.put(sequence, &numbered("y", sequence));
    }
    assert_eq!(ledger.claims().unwrap(), []);
}
