//! `tenure upgrade`, killed.

use crate::killed_at::{Kills, killed, points, traced};
use crate::other_sqlite::Database;
use crate::process::{Process, assert_nothing_is_left, held, the_lease, waiting};
use crate::world::{World, code, until};

fn reads(world: &World) -> bool {
    let output = world.run(["--no-wait", "x=read", "--", "true"]);
    match code(&output) {
        0 => true,
        75 => false,
        _ => panic!("{output:?}"),
    }
}

#[test]
fn an_upgrade_killed_at_any_system_call_is_made_whole_or_not_at_all() {
    let world = World::new();
    let lease = world.lock(["x=upgradeable", "--ttl", "1h"]);
    let upgrade = ["upgrade", &lease];
    let output = traced(&world, &upgrade).output().unwrap();
    assert_eq!(code(&output), 0, "{output:?}");
    assert_eq!(code(&world.call(["downgrade", &lease])), 0);
    let mut database = Database::of(&world);
    let points = points(&world, 100);
    let mut kills = Kills::at(&points);
    for point in &points {
        let before = the_lease(&world)["token"].as_u64().unwrap();
        let output = killed(&world, point, &upgrade).output().unwrap();
        let dead = kills.count(&output);
        let now = the_lease(&world);
        let token = now["token"].as_u64().unwrap();
        assert_eq!(now["lease"], lease.as_str(), "{point:?}");
        match now["mode"].as_str().unwrap() {
            "write" => {
                assert!(token > before, "{point:?}");
                assert!(!reads(&world), "{point:?}");
                assert_eq!(code(&world.call(["downgrade", &lease])), 0, "{point:?}");
            }
            mode => {
                assert_eq!((mode, token), ("upgradeable", before), "{point:?}");
                assert!(dead, "{point:?}: it said it was upgraded");
                assert!(reads(&world), "{point:?}");
            }
        }
        database.assert_whole();
    }
    kills.assert_real();
    assert_eq!(code(&world.call(upgrade)), 0);
    assert_eq!(code(&world.call(["release", &lease])), 0);
    assert!(world.is_free("x"));
    assert_nothing_is_left(&world);
}

#[test]
fn a_waiting_upgrade_killed_at_any_system_call_does_not_keep_readers_out() {
    let world = World::new();
    let lease = world.lock(["x=upgradeable", "--ttl", "1h"]);
    let reader = world.lock(["x=read", "--ttl", "1h", "--owner", "reader"]);
    let upgrade = ["upgrade", &lease, "--wait", "60s"];
    let first = Process::start(&mut traced(&world, &upgrade));
    until("it waits", || waiting(&world).len() == 1);
    assert_eq!(code(&world.call(["release", &reader])), 0);
    assert_eq!(code(&first.end()), 0);
    assert_eq!(code(&world.call(["downgrade", &lease])), 0);
    let mut database = Database::of(&world);
    let points = points(&world, 45);
    let mut kills = Kills::at(&points);
    for point in &points {
        let reader = world.lock(["x=read", "--ttl", "1h", "--owner", "reader"]);
        let mut upgrading = Process::start(&mut killed(&world, point, &upgrade));
        until("it waits or is dead", || {
            upgrading.is_over() || waiting(&world).len() == 1
        });
        let waits = !upgrading.is_over();
        let read = ["run", "--wait", "60s", "--owner", "second", "x=read"];
        let second = Process::tenure(&world, read.into_iter().chain(["--", "true"]));
        if waits {
            // The upgrade may be killed meanwhile, and then the reader is in at once.
            until("the second reader waits or was in", || {
                let waiting = waiting(&world);
                waiting.is_empty() || waiting.iter().any(|waiter| waiter["owner"] == "second")
            });
        }
        assert_eq!(code(&world.call(["release", &reader])), 0);
        kills.count(&upgrading.end());
        if held(&world).iter().any(|lease| lease["mode"] == "write") {
            assert_eq!(code(&world.call(["downgrade", &lease])), 0, "{point:?}");
        }
        assert_eq!(code(&second.end()), 0, "{point:?}");
        assert!(reads(&world), "{point:?}");
        database.assert_whole();
    }
    kills.assert_real();
    assert_eq!(code(&world.call(["release", &lease])), 0);
    assert_nothing_is_left(&world);
}
