//! The clock on the wall an hour off, either way: it decides nothing.

use std::process::{Command, Output};

use crate::world::{World, code, json, text, until};

/// `tenure ARGUMENTS` with the clock on the wall shifted.
fn at(world: &World, shift: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new("faketime");
    world.prepare(&mut command);
    command.args(["-f", shift, env!("CARGO_BIN_EXE_tenure")]);
    let output = command.args(arguments).output();
    output.expect("faketime is missing; install the package faketime")
}

#[test]
fn a_lease_is_not_over_because_a_clock_was_set() {
    for shift in ["+1h", "-1h"] {
        let world = World::new();
        let lease = world.lock(["x", "--ttl", "10m"]);
        let output = at(&world, shift, &["lock", "x", "--no-wait"]);
        assert_eq!(code(&output), 75, "{shift}: {output:?}");
        let output = at(&world, shift, &["recover"]);
        assert!(
            text(&output.stderr).contains("nothing looks stale"),
            "{output:?}"
        );
        let listing = json(&at(&world, shift, &["ls", "--json"]).stdout);
        assert_eq!(listing["held"][0]["state"], "held", "{shift}");
        let output = at(&world, shift, &["renew", &lease]);
        assert_eq!(code(&output), 0, "{shift}: {output:?}");
        assert!(!world.is_free("x"));
    }
}

#[test]
fn a_lease_is_over_in_time_although_a_clock_was_set() {
    for shift in ["+1h", "-1h"] {
        let world = World::new();
        let output = at(&world, shift, &["lock", "x", "--ttl", "1s"]);
        assert_eq!(code(&output), 0, "{output:?}");
        let lease = text(&output.stdout).trim().to_owned();
        until("it is taken over", || world.is_free("x"));
        assert_eq!(code(&world.call(["renew", &lease])), 77);
    }
}

#[test]
fn tokens_do_not_go_back_with_the_clock() {
    let world = World::new();
    let mut last = 0;
    for shift in ["+1h", "-1h", "+0h", "-1h"] {
        let arguments = ["run", "x", "--", "sh", "-c", "echo $TENURE_TOKEN"];
        let output = at(&world, shift, &arguments);
        let token: u64 = text(&output.stdout).trim().parse().unwrap();
        assert!(token > last, "{shift}: {token} after {last}");
        last = token;
    }
}
