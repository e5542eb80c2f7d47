//! `tenure release`, killed while another process waits.

use std::time::Duration;

use crate::killed_at::{Kills, killed, points, traced};
use crate::other_sqlite::Database;
use crate::process::{Process, assert_nothing_is_left, held, take, timed};
use crate::world::{World, code};

/// A waiter heals a missing wake-up by itself; this is shorter than an offer lasts.
const SOON: Duration = Duration::from_secs(4);

#[test]
fn a_release_killed_at_any_system_call_is_made_once_and_the_next_has_the_lock() {
    let world = World::new();
    let mut last = take(&world, "x");
    let lease = world.lock(["x", "--ttl", "1h"]);
    let waiter = Process::in_line(&world, "x", "next");
    let output = traced(&world, &["release", &lease]).output().unwrap();
    assert_eq!(code(&output), 0, "{output:?}");
    waiter.token();
    let mut database = Database::of(&world);
    let points = points(&world, 100);
    let mut kills = Kills::at(&points);
    let mut slowest = Duration::ZERO;
    for point in &points {
        let lease = world.lock(["x", "--ttl", "1h"]);
        let waiter = Process::in_line(&world, "x", "next");
        let output = killed(&world, point, &["release", &lease]).output();
        let dead = kills.count(&output.unwrap());
        if held(&world)
            .iter()
            .any(|held| held["lease"] == lease.as_str())
        {
            assert!(dead, "{point:?}: it said it was released");
            assert_eq!(code(&world.call(["release", &lease])), 0, "{point:?}");
        }
        let (token, took) = timed(|| waiter.token_within(SOON));
        slowest = slowest.max(took);
        assert!(token > last, "{point:?}: {token} after {last}");
        last = token;
        let ends = format!("SELECT count(*) FROM audit WHERE lock_id = '{lease}' AND ends = 1");
        assert_eq!(database.one(&ends), 1, "{point:?}");
        database.assert_whole();
    }
    println!("the next had it at the latest after {slowest:?}");
    kills.assert_real();
    assert_nothing_is_left(&world);
}
