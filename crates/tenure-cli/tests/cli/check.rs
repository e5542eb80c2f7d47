//! `tenure check`.

use crate::world::{World, code, json, text};

fn token(world: &World) -> String {
    let output = world.run(["x", "--", "sh", "-c", "echo $TENURE_TOKEN"]);
    text(&output.stdout).trim().to_owned()
}

#[test]
fn a_token_is_good_until_a_later_exclusive_grant() {
    for world in World::each() {
        let first = token(&world);
        let output = world.call(["check", "x", &first]);
        assert_eq!(code(&output), 0, "{output:?}");
        assert_eq!(
            text(&output.stdout),
            format!("token {first} of name:x is good\n")
        );
        assert_eq!(world.json(["check", "x", &first])["good"], true);
        assert_eq!(code(&world.run(["x=read", "--", "true"])), 0);
        assert_eq!(
            code(&world.call(["check", "x", &first])),
            0,
            "readers draw none"
        );
        let second = token(&world);
        let output = world.call(["check", "x", &first]);
        assert_eq!(code(&output), 77, "{output:?}");
        let said = text(&output.stderr);
        assert!(
            said.contains("is fenced") && said.contains(&second),
            "{said}"
        );
        let output = world.call(["check", "x", &first, "--json"]);
        assert_eq!(json(&output.stdout)["error"]["kind"], "not_allowed");
    }
}

#[test]
fn the_late_write_of_a_paused_holder_is_refused() {
    let world = World::new();
    let lease = world.json(["lock", "x", "--ttl", "1s"]);
    let token = lease["leases"][0]["token"].to_string();
    assert_eq!(code(&world.call(["check", "x", &token])), 0);
    let _next = world.lock(["x", "--wait", "30s"]);
    assert_eq!(code(&world.call(["check", "x", &token])), 77);
}

#[test]
fn a_question_about_a_store_that_is_not_there_is_66_and_makes_none() {
    let world = World::new();
    let output = world.call(["check", "x", "1"]);
    assert_eq!(code(&output), 66, "{output:?}");
    let said = text(&output.stderr);
    assert!(said.contains("there is no store"), "{said}");
    assert_eq!(code(&world.call(["ls"])), 0);
    assert!(
        !std::path::Path::new(world.store().trim_start_matches("sqlite:")).exists(),
        "looking made a store"
    );
}
