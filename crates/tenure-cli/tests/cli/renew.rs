//! `tenure renew`.

use crate::holder::Holder;
use crate::world::{World, code, json, text, until};

fn state(world: &World) -> String {
    let listing = world.json(["ls"]);
    listing["held"][0]["state"]
        .as_str()
        .unwrap_or("gone")
        .to_owned()
}

#[test]
fn a_renewed_lease_has_new_time_and_the_same_token() {
    let world = World::new();
    let before = world.json(["lock", "x", "--ttl", "1m"]);
    let before = &before["leases"][0];
    let lease = before["lease"].as_str().unwrap();
    let after = world.json(["renew", lease, "--ttl", "1h"]);
    let after = &after["leases"][0];
    assert_eq!(after["token"], before["token"]);
    assert!(after["expires_at"].as_str() > before["expires_at"].as_str());
    let output = world.call(["renew", lease]);
    assert_eq!(code(&output), 0, "{output:?}");
    let said = text(&output.stdout);
    let start = format!("renewed {lease}: name:x is held until 2");
    assert!(said.starts_with(&start), "{said}");
    assert!(
        said.contains("(in 59m ") || said.contains("(in 1h "),
        "as long as before: {said}"
    );
}

#[test]
fn an_expired_lease_is_renewed_as_long_as_nobody_took_over() {
    let world = World::new();
    let lease = world.lock(["x", "--ttl", "1s"]);
    until("it is expired", || state(&world) == "expired");
    assert_eq!(code(&world.call(["renew", &lease, "--ttl", "1h"])), 0);
    assert_eq!(state(&world), "held");
}

#[test]
fn a_lease_that_was_taken_over_cannot_be_renewed_or_released() {
    let world = World::new();
    let lease = world.lock(["x", "--ttl", "1s"]);
    let next = world.lock(["x", "--wait", "30s"]);
    for command in ["renew", "release"] {
        let output = world.call([command, &lease]);
        assert_eq!(code(&output), 77, "{command}: {output:?}");
        let said = text(&output.stderr);
        assert!(said.contains(&format!("lease {lease} is over")), "{said}");
        assert!(said.contains("take the lock again"), "{said}");
    }
    assert_eq!(world.json(["ls"])["held"][0]["lease"], next.as_str());
}

#[test]
fn whose_lease_it_is_counts_where_it_is_said() {
    let world = World::new();
    let lease = world.lock(["x", "--owner", "ana"]);
    for command in ["renew", "release", "upgrade", "downgrade"] {
        let output = world.call([command, &lease, "--owner", "bob"]);
        assert_eq!(code(&output), 77, "{command}: {output:?}");
        let said = text(&output.stderr);
        assert!(said.contains("ana") && said.contains("bob"), "{said}");
        let mut by_variable = world.tenure();
        by_variable
            .env("TENURE_OWNER", "bob")
            .args([command, &lease]);
        assert_eq!(code(&by_variable.output().unwrap()), 77, "{command}");
    }
    assert_eq!(code(&world.call(["renew", &lease, "--owner", "ana"])), 0);
    assert_eq!(code(&world.call(["renew", &lease])), 0, "the id suffices");
}

#[test]
fn a_lease_of_a_run_is_its_own_to_end() {
    let world = World::new();
    let mut holder = Holder::start(&world, ["x"]);
    let listing = world.json(["ls"]);
    let lease = listing["held"][0]["lease"].as_str().unwrap();
    for command in ["renew", "release", "upgrade", "downgrade"] {
        let output = world.call([command, lease]);
        assert_eq!(code(&output), 77, "{command}: {output:?}");
        let end = "tenure break ";
        let said = text(&output.stderr);
        assert!(
            said.contains(end) && said.ends_with(" --reason TEXT\n"),
            "{said}"
        );
    }
    assert!(!world.is_free("x"));
    holder.let_go();
    assert_eq!(holder.code(), 0);
}

#[test]
fn all_are_tried_and_every_problem_is_told() {
    let world = World::new();
    let (first, second) = (world.lock(["x"]), world.lock(["y"]));
    assert_eq!(code(&world.call(["release", &first])), 0);
    let output = world.call(["renew", "nosuch", &first, &second]);
    assert_eq!(code(&output), 77, "the highest code wins: {output:?}");
    assert!(text(&output.stdout).starts_with(&format!("renewed {second}: name:y")));
    let said = text(&output.stderr);
    assert!(said.contains("nosuch") && said.contains(&first), "{said}");
    let output = world.call(["renew", "nosuch", &second, "--json"]);
    assert_eq!(code(&output), 66, "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
    let document = json(&output.stdout);
    assert_eq!(document["leases"][0]["lease"], second.as_str());
    let error = &document["errors"][0];
    assert_eq!(
        (&error["lease"], &error["kind"]),
        (&"nosuch".into(), &"not_found".into())
    );
}

#[test]
fn an_unknown_lease_is_66_in_words_and_in_json() {
    let world = World::new();
    let output = world.call(["renew", "nosuch"]);
    assert_eq!(code(&output), 66, "{output:?}");
    let said = text(&output.stderr);
    assert!(
        said.contains("nosuch") && said.contains("tenure ls"),
        "{said}"
    );
    let output = world.call(["renew", "nosuch", "--json"]);
    assert_eq!(json(&output.stdout)["error"]["kind"], "not_found");
}
