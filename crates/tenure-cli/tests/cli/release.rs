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
