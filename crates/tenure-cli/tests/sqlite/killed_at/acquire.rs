//! `tenure lock`, killed.

use crate::killed_at::{Kills, killed, points, traced};
use crate::other_sqlite::Database;
use crate::process::{assert_nothing_is_left, field, held, take};
use crate::world::{World, code, text};

const LOCK: [&str; 5] = ["lock", "x", "--ttl", "1h", "--no-wait"];

#[test]
fn an_acquire_killed_at_any_system_call_is_there_whole_or_not_at_all() {
    let world = World::new();
    let mut last = take(&world, "x");
    let output = traced(&world, &LOCK).output().unwrap();
    assert_eq!(code(&output), 0, "{output:?}");
    let lease = text(&output.stdout).trim().to_owned();
    assert_eq!(code(&world.call(["release", &lease])), 0);
    let mut database = Database::of(&world);
    let points = points(&world, 110);
    let mut kills = Kills::at(&points);
    for point in &points {
        let output = killed(&world, point, &LOCK).output().unwrap();
        kills.count(&output);
        let held = held(&world);
        assert!(held.len() <= 1, "{point:?}: {held:?}");
        let printed = text(&output.stdout).trim().to_owned();
        if !printed.is_empty() {
            assert_eq!(held[0]["lease"], printed.as_str(), "{point:?}");
        }
        for lease in held.iter().filter(|lease| lease["binding"] == "lease") {
            let token = lease["token"].as_u64().unwrap();
            assert!(token > last, "{point:?}: {token} after {last}");
            last = token;
            let released = world.call(["release", &field(lease, "lease")]);
            assert_eq!(code(&released), 0, "{point:?}: {released:?}");
        }
        let token = take(&world, "x");
        assert!(token > last, "{point:?}: {token} after {last}");
        last = token;
        database.assert_whole();
    }
    kills.assert_real();
    assert_nothing_is_left(&world);
}

#[test]
fn a_store_whose_making_is_killed_at_any_system_call_is_made_by_the_next() {
    let first = World::new();
    let output = traced(&first, &LOCK).output().unwrap();
    assert_eq!(code(&output), 0, "{output:?}");
    let points = points(&first, 70);
    let mut kills = Kills::at(&points);
    for point in &points {
        let world = World::new();
        let output = killed(&world, point, &LOCK).output().unwrap();
        kills.count(&output);
        for lease in held(&world) {
            if lease["binding"] == "lease" {
                let released = world.call(["release", &field(&lease, "lease")]);
                assert_eq!(code(&released), 0, "{point:?}: {released:?}");
            }
        }
        let token = take(&world, "x");
        assert!(take(&world, "x") > token, "{point:?}");
        Database::of(&world).assert_whole();
        assert_nothing_is_left(&world);
    }
    kills.assert_real();
}
