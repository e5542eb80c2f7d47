//! `tenure release`.

use std::process::Stdio;

use crate::world::{World, code, text};

#[test]
fn a_released_lease_is_free_and_over() {
    let world = World::new();
    let lease = world.lock(["x"]);
    let output = world.call(["release", &lease]);
    assert_eq!(code(&output), 0, "{output:?}");
    assert_eq!(text(&output.stdout), format!("released {lease}: name:x\n"));
    assert!(world.is_free("x"));
    let again = world.call(["release", &lease]);
    assert_eq!(code(&again), 77, "{again:?}");
    assert!(text(&again.stderr).contains("is over"), "{again:?}");
}

#[test]
fn several_are_released_at_once() {
    let world = World::new();
    let leases = text(&world.call(["lock", "x", "y"]).stdout);
    let released = world.json(["release"].into_iter().chain(leases.lines()));
    let released = released["leases"].as_array().unwrap();
    assert_eq!(released.len(), 2);
    assert!(world.is_free("x") && world.is_free("y"));
}

#[test]
fn the_next_in_line_has_it_at_once() {
    let world = World::new();
    let lease = world.lock(["x"]);
    let mut command = world.tenure();
    command.args(["run", "x", "--", "echo", "mine"]);
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let waiter = command.spawn().unwrap();
    world.until_waiting(1, waiter.id());
    assert_eq!(code(&world.call(["release", &lease])), 0);
    let output = waiter.wait_with_output().unwrap();
    assert_eq!(
        (code(&output), text(&output.stdout).as_str()),
        (0, "mine\n")
    );
}

#[test]
fn a_resource_names_the_one_lease_that_the_caller_has_of_it() {
    let world = World::new();
    world.lock(["--owner", "ana", "map:m3"]);
    let others = world.call(["release", "--owner", "bo", "map:m3"]);
    assert_eq!(code(&others), 66, "{others:?}");
    assert!(
        text(&others.stderr).contains("bo has none of map:m3"),
        "{others:?}"
    );
    assert_eq!(
        code(&world.call(["release", "--owner", "ana", "map:m3"])),
        0
    );
    assert!(world.is_free("map:m3"));
    for _ in 0..2 {
        world.lock(["--owner", "ana", "x=read"]);
    }
    let two = world.call(["release", "--owner", "ana", "x"]);
    assert_eq!(code(&two), 76, "{two:?}");
    assert!(text(&two.stderr).contains("2 times"), "{two:?}");
}

#[test]
fn the_lease_of_a_slot_is_found_and_ends_with_its_run() {
    let world = World::new();
    let _holder = crate::holder::Holder::start(&world, ["--slot", "build:1"]);
    let slots = world.json(["ls", "slot"]);
    let lease = slots["held"][0]["lease"].as_str().unwrap().to_owned();
    for name in [lease.as_str(), "slot:build"] {
        let output = world.call(["release", name]);
        assert_eq!(code(&output), 77, "{name}: {output:?}");
    }
}
