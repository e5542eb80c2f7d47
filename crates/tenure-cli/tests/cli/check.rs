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
fn a_token_that_was_never_granted_is_77_and_the_newest_is_named() {
    for world in World::each() {
        let newest = token(&world);
        let next = (newest.parse::<u64>().unwrap() + 1).to_string();
        for never in [&next, "9007199254740991"] {
            let output = world.call(["check", "x", never]);
            assert_eq!(code(&output), 77, "{output:?}");
            let said = text(&output.stderr);
            assert!(said.contains("never granted"), "{said}");
            assert!(said.contains(&newest), "{said}");
        }
        let output = world.call(["check", "x", "9007199254740991", "--json"]);
        assert_eq!(json(&output.stdout)["error"]["kind"], "not_allowed");
    }
}

#[test]
fn a_resource_that_was_never_locked_is_66() {
    for world in World::each() {
        token(&world);
        for never in ["0", "5"] {
            let output = world.call(["check", "nosuch", never, "--json"]);
            assert_eq!(code(&output), 66, "{output:?}");
            let error = &json(&output.stdout)["error"];
            assert_eq!(error["kind"], "not_found");
            assert_eq!(error["resource"], "name:nosuch");
            let said = error["message"].as_str().unwrap();
            assert!(said.contains(&world.store()), "where: {said}");
        }
    }
}

#[test]
fn what_was_only_ever_read_has_token_zero_until_it_is_locked() {
    for world in World::each() {
        let script = "echo $TENURE_TOKEN; exec \"$TENURE\" check x $TENURE_TOKEN";
        let output = world.run(["x=read", "--", "sh", "-c", script]);
        assert_eq!(code(&output), 0, "{output:?}");
        assert!(text(&output.stdout).starts_with("0\n"), "{output:?}");
        assert_eq!(code(&world.call(["check", "x", "0"])), 0);
        assert_eq!(code(&world.call(["check", "x", "1"])), 77);
        token(&world);
        assert_eq!(code(&world.call(["check", "x", "0"])), 77);
    }
}

#[test]
fn a_question_about_a_store_that_is_not_there_is_66_and_makes_none() {
    for world in World::each() {
        let output = world.call(["check", "x", "1"]);
        assert_eq!(code(&output), 66, "{output:?}");
        let said = text(&output.stderr);
        assert!(said.contains("there is no store"), "{said}");
        assert!(!world.path("store").exists(), "looking made a store");
    }
}
