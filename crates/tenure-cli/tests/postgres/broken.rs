//! Others and the lock of a running command: it is broken or left alone.

use crate::broken_offer;
use crate::holder::Holder;
use crate::process::{Process, field};
use crate::scene::{Scene, lease_of};
use crate::world::{code, is_alive, until};

#[test]
fn the_command_under_a_broken_lock_is_stopped_and_the_next_has_it_then() {
    let scene = Scene::new();
    let world = &scene.world;
    let mut holder = Holder::start(world, ["x"]);
    let next = Process::in_line(world, "x", "next");
    let id = field(&lease_of(world, "x"), "lease");
    let broken = world.call(["break", &id, "--reason", "stuck", "--yes"]);
    assert_eq!(code(&broken), 0, "{broken:?}");
    assert_eq!(holder.code(), 79);
    until("the command is dead", || !is_alive(holder.command));
    next.token();
    let entries = world.json(["audit", "--resource", "x"]);
    let entries = entries["entries"].as_array().unwrap().clone();
    let broken = entries.iter().find(|entry| entry["action"] == "break");
    assert_eq!(broken.unwrap()["reason"], "stuck");
}

#[test]
fn a_run_whose_offer_a_person_breaks_ends_with_79_and_starts_nothing() {
    broken_offer::ends_run_with_who_broke_it_and_why(&Scene::new().world);
}

#[test]
fn the_lock_of_a_running_command_is_not_changed_by_its_id() {
    let scene = Scene::new();
    let world = &scene.world;
    let holder = Holder::start(world, ["x=upgradeable"]);
    let before = lease_of(world, "x");
    let id = field(&before, "lease");
    let changes: [&[&str]; 4] = [
        &["release", &id],
        &["renew", &id, "--ttl", "1s"],
        &["upgrade", &id],
        &["downgrade", &id],
    ];
    for change in changes {
        let output = world.call(change.iter().copied());
        assert_eq!(code(&output), 77, "{change:?}: {output:?}");
    }
    assert!(is_alive(holder.command));
    let after = lease_of(world, "x");
    for field in ["lease", "mode", "token", "owner"] {
        assert_eq!(after[field], before[field], "{field}");
    }
}
