//! `tenure renew`, killed.

use crate::killed_at::{Kills, killed, points, traced};
use crate::other_sqlite::Database;
use crate::process::{assert_nothing_is_left, field, the_lease};
use crate::world::{World, code};

#[test]
fn a_renewal_killed_at_any_system_call_leaves_the_lease_held_with_its_token() {
    let world = World::new();
    let lease = world.lock(["x", "--ttl", "1h"]);
    let token = the_lease(&world)["token"].clone();
    let renew = ["renew", &lease, "--ttl", "2h"];
    let output = traced(&world, &renew).output().unwrap();
    assert_eq!(code(&output), 0, "{output:?}");
    let mut database = Database::of(&world);
    let points = points(&world, 80);
    let mut kills = Kills::at(&points);
    let mut expires = field(&the_lease(&world), "expires_at");
    for point in &points {
        let output = killed(&world, point, &renew).output().unwrap();
        let dead = kills.count(&output);
        let now = the_lease(&world);
        assert_eq!(now["lease"], lease.as_str(), "{point:?}");
        assert_eq!((&now["token"], &now["state"]), (&token, &"held".into()));
        let then = std::mem::replace(&mut expires, field(&now, "expires_at"));
        assert!(expires >= then, "{point:?}: {expires} after {then}");
        assert!(dead || expires > then, "{point:?}: it said it was renewed");
        assert!(!world.is_free("x"), "{point:?}");
        database.assert_whole();
    }
    kills.assert_real();
    assert_eq!(code(&world.call(renew)), 0);
    assert_eq!(code(&world.call(["release", &lease])), 0);
    assert!(world.is_free("x"));
    assert_nothing_is_left(&world);
}
