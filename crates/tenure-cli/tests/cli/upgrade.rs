//! `tenure upgrade` and `tenure downgrade`.

use std::process::Stdio;

use crate::world::{World, code, signal, text};

fn upgradeable(world: &World) -> (String, u64) {
    let document = world.json(["lock", "x=upgradeable"]);
    let lease = &document["leases"][0];
    let id = lease["lease"].as_str().unwrap().to_owned();
    (id, lease["token"].as_u64().unwrap())
}

#[test]
fn an_upgraded_lease_is_exclusive_with_a_new_token_until_it_is_downgraded() {
    let world = World::new();
    let (lease, token) = upgradeable(&world);
    let reads = || code(&world.run(["--no-wait", "x=read", "--", "true"]));
    assert_eq!(reads(), 0);
    let after = &world.json(["upgrade", &lease])["leases"][0];
    assert_eq!(
        (&after["lease"], &after["mode"]),
        (&lease.as_str().into(), &"write".into())
    );
    assert!(after["token"].as_u64().unwrap() > token);
    assert_eq!(reads(), 75);
    let downgraded = &world.json(["downgrade", &lease])["leases"][0];
    assert_eq!(downgraded["mode"], "upgradeable");
    world.json(["upgrade", &lease]);
    let output = world.call(["downgrade", &lease]);
    assert_eq!(code(&output), 0, "{output:?}");
    let said = text(&output.stdout);
    assert!(
        said.contains("name:x is held for upgradeable again"),
        "{said}"
    );
    assert_eq!(reads(), 0);
}

#[test]
fn an_upgrade_waits_for_the_readers_and_on_timeout_all_is_as_before() {
    let world = World::new();
    let (lease, _) = upgradeable(&world);
    let reader = world.lock(["x=read", "--owner", "reader"]);
    let output = world.call(["upgrade", &lease, "--wait", "50ms"]);
    assert_eq!(code(&output), 75, "{output:?}");
    let said = text(&output.stderr);
    assert!(
        said.contains("reader") && said.contains("within 50ms"),
        "{said}"
    );
    assert_eq!(code(&world.call(["upgrade", &lease, "--no-wait"])), 75);
    assert_eq!(code(&world.run(["--no-wait", "x=read", "--", "true"])), 0);
    let mut command = world.tenure();
    command.args(["upgrade", &lease, "--wait", "30s"]);
    let upgrade = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let upgrade = upgrade.unwrap();
    world.until_waiting(1, upgrade.id());
    assert_eq!(code(&world.call(["release", &reader])), 0);
    let output = upgrade.wait_with_output().unwrap();
    assert_eq!(code(&output), 0, "{output:?}");
    let said = text(&output.stdout);
    assert!(
        said.contains("name:x is held for write, with the new token"),
        "{said}"
    );
}

#[test]
fn an_interrupted_upgrade_leaves_the_lease_as_it_was() {
    let world = World::new();
    let (lease, _) = upgradeable(&world);
    let _reader = world.lock(["x=read"]);
    let mut command = world.tenure();
    command.args(["upgrade", &lease, "--wait", "60s"]);
    let upgrade = command.stderr(Stdio::piped()).spawn().unwrap();
    world.until_waiting(1, upgrade.id());
    signal(upgrade.id(), libc::SIGINT);
    assert_eq!(code(&upgrade.wait_with_output().unwrap()), 130);
    let listing = world.json(["ls"]);
    assert_eq!(listing["waiting"].as_array().unwrap().len(), 0);
    let held = listing["held"].as_array().unwrap();
    let ours = held.iter().find(|held| held["lease"] == lease.as_str());
    assert_eq!(ours.unwrap()["mode"], "upgradeable");
}

#[test]
fn what_was_never_upgradeable_is_a_conflict() {
    let world = World::new();
    let lease = world.lock(["x=read"]);
    assert_eq!(code(&world.call(["upgrade", &lease])), 76);
    assert_eq!(code(&world.call(["downgrade", &lease])), 76);
}

#[test]
fn an_upgrade_while_something_later_is_held_is_refused_by_order() {
    let world = World::new();
    let leases = world.json(["lock", "a=upgradeable", "b=read"]);
    let a = leases["leases"][0]["lease"].as_str().unwrap();
    let output = world.call(["upgrade", a]);
    assert_eq!(code(&output), 76, "{output:?}");
    let said = text(&output.stderr);
    assert!(said.contains("name:a") && said.contains("name:b"), "{said}");
}

#[test]
fn an_unknown_lease_is_66() {
    let world = World::new();
    assert_eq!(code(&world.call(["upgrade", "nosuch"])), 66);
    assert_eq!(code(&world.call(["downgrade", "nosuch"])), 66);
}
