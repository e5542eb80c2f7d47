//! Leases and claims that live while their agent lives.

use serde_json::{Value, json};

use crate::place::{ONE, ONE_OWNER, Place};
use crate::world::code;

/// Returns the first `expires_at` of a list.
fn ends(listing: &Value, list: &str) -> String {
    listing[list][0]["expires_at"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

#[test]
fn every_event_renews_the_leases_of_its_agent_and_the_end_of_the_session_ends_them() {
    let place = Place::new();
    place.hook(ONE, "SessionStart", json!({}));
    let lease = place
        .world
        .lock(["deploy", "--ttl", "60s", "--owner", ONE_OWNER]);
    place
        .world
        .lock(["other", "--ttl", "60s", "--owner", "ana@desk"]);
    let of = |name: &str| ends(&place.world.json(["ls", name]), "held");
    let (own, others) = (of("name:deploy"), of("name:other"));
    place.hook(ONE, "Notification", json!({}));
    assert!(of("name:deploy") > own, "it has its full time again");
    assert_eq!(of("name:other"), others);
    place.hook(ONE, "SessionEnd", json!({}));
    assert_eq!(of("name:deploy"), "");
    assert_eq!(of("name:other"), others);
    assert_eq!(code(&place.world.call(["renew", &lease])), 77);
}

#[test]
fn the_watcher_reaps_the_ledgers_that_agents_have_claimed_in() {
    let place = Place::new();
    place.hook(ONE, "SessionStart", json!({}));
    let ledger = place.path("ledger").display().to_string();
    assert_eq!(code(&place.world.call(["ledger", "init", &ledger])), 0);
    let claim = |node: &str, ttl: &str| {
        let claim = ["ledger", "claim", &ledger, node, "--ttl", ttl];
        place
            .world
            .json([&claim[..], &["--owner", ONE_OWNER]].concat());
    };
    claim("1.2", "1s");
    claim("1.3", "20m");
    let states = || {
        let listed = place.world.json(["ledger", "claims", &ledger]);
        let claims = listed["claims"].as_array().unwrap().clone();
        let state = |claim: &Value| format!("{} {}", claim["node"], claim["state"]);
        claims.iter().map(state).collect::<Vec<_>>()
    };
    crate::world::until("the first is over", || {
        states() == ["\"1.2\" \"expired\"", "\"1.3\" \"held\""]
    });
    let watched = place.world.json(["agent", "watch", "--once"]);
    assert_eq!(watched["reaped"], 1, "{watched}");
    assert_eq!(states(), ["\"1.3\" \"held\""]);
    assert_eq!(place.world.json(["agent", "watch", "--once"])["reaped"], 0);
}

#[test]
fn claims_on_the_board_and_in_ledgers_live_while_their_agent_lives() {
    let place = Place::new();
    place.hook(ONE, "SessionStart", json!({}));
    place.world.json(["board", "add", "x", "--id", "i1"]);
    place
        .world
        .json(["board", "claim", "i1", "--ttl", "20s", "--owner", ONE_OWNER]);
    let ledger = place.path("ledger").display().to_string();
    assert_eq!(code(&place.world.call(["ledger", "init", &ledger])), 0);
    place.world.json([
        "ledger", "claim", &ledger, "1.2", "--ttl", "20s", "--owner", ONE_OWNER,
    ]);
    assert_eq!(place.agent(ONE)["claims"], json!(["issue i1", "node 1.2"]));
    let issue = || place.world.json(["board", "show", "i1"])["issues"][0]["claim"].clone();
    let node = || place.world.json(["ledger", "claims", &ledger]);
    let (first_issue, first_node) = (issue()["expires_at"].clone(), ends(&node(), "claims"));
    // Once a tenth of their time is over, an event renews them for their full time.
    crate::world::until("both have more time", || {
        place.hook(ONE, "Notification", json!({}));
        issue()["expires_at"].as_str() > first_issue.as_str()
            && ends(&node(), "claims") > first_node
    });
    assert_eq!(issue()["owner"], ONE_OWNER);
    assert_eq!(node()["claims"][0]["state"], "held");
    place.hook(ONE, "SessionEnd", json!({}));
    assert_eq!(issue(), Value::Null);
    assert_eq!(node()["claims"], json!([]));
    assert_eq!(place.agent(ONE)["claims"], json!([]));
}

#[test]
fn a_claim_that_is_over_is_forgotten_and_another_agents_is_left_alone() {
    let place = Place::new();
    place.hook(ONE, "SessionStart", json!({}));
    place.world.json(["board", "add", "x", "--id", "i1"]);
    place
        .world
        .json(["board", "claim", "i1", "--ttl", "1s", "--owner", ONE_OWNER]);
    crate::world::until("it is over", || {
        let output = place
            .world
            .call(["board", "claim", "i1", "--owner", "agent:new"]);
        code(&output) == 0
    });
    place.hook(ONE, "SessionEnd", json!({}));
    let issue = place.world.json(["board", "show", "i1"])["issues"][0].clone();
    assert_eq!(issue["claim"]["owner"], "agent:new");
    assert_eq!(place.agent(ONE)["claims"], json!([]));
}

#[test]
fn a_claim_that_its_agent_has_ended_is_shown_no_more() {
    let place = Place::new();
    place.hook(ONE, "SessionStart", json!({}));
    let ledger = place.path("ledger").display().to_string();
    assert_eq!(code(&place.world.call(["ledger", "init", &ledger])), 0);
    for id in ["i1", "i2"] {
        place.world.json(["board", "add", "x", "--id", id]);
        place
            .world
            .json(["board", "claim", id, "--owner", ONE_OWNER]);
    }
    place
        .world
        .json(["ledger", "claim", &ledger, "1.2", "--owner", ONE_OWNER]);
    let claims = || place.agent(ONE)["claims"].clone();
    assert_eq!(claims(), json!(["issue i1", "issue i2", "node 1.2"]));
    place
        .world
        .json(["board", "done", "i1", "--owner", ONE_OWNER]);
    assert_eq!(claims(), json!(["issue i2", "node 1.2"]));
    place
        .world
        .json(["board", "release", "i2", "--owner", ONE_OWNER]);
    assert_eq!(claims(), json!(["node 1.2"]));
    place
        .world
        .json(["ledger", "release", &ledger, "1.2", "--owner", ONE_OWNER]);
    assert_eq!(claims(), json!([]));
}
