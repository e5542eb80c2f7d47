//! A waiter that is killed as it gets in line, as it waits, or as it is offered the lock and takes
//! it up.

use std::time::Duration;

use crate::killed_at::{Kills, killed, points, traced};
use crate::other_sqlite::Database;
use crate::process::{
    Process, assert_nothing_is_left, field, held, take, timed, until_in_line, waiting,
};
use crate::world::{World, code, until};

const WAIT: [&str; 8] = [
    "lock", "x", "--ttl", "1h", "--wait", "60s", "--owner", "first",
];

/// Long enough for a slow machine, and shorter than an offer that is not taken up.
const SOON: Duration = Duration::from_secs(4);

#[test]
fn a_waiter_killed_at_any_system_call_does_not_hold_up_the_next() {
    let world = World::new();
    let mut last = take(&world, "x");
    let lease = world.lock(["x", "--ttl", "1h"]);
    let first = Process::start(&mut traced(&world, &WAIT));
    until_in_line(&world, "first");
    assert_eq!(code(&world.call(["release", &lease])), 0);
    assert_eq!(code(&first.end()), 0);
    release_all(&world);
    let mut database = Database::of(&world);
    let points = points(&world, 70);
    let mut kills = Kills::at(&points);
    let mut slowest = Duration::ZERO;
    for point in &points {
        let lease = world.lock(["x", "--ttl", "1h"]);
        let mut first = Process::start(&mut killed(&world, point, &WAIT));
        until("the first waits or is dead", || {
            first.is_over()
                || waiting(&world)
                    .iter()
                    .any(|waiter| waiter["owner"] == "first")
        });
        let second = Process::in_line(&world, "x", "second");
        assert_eq!(code(&world.call(["release", &lease])), 0);
        kills.count(&first.end());
        // If the waiter was not killed too early, its lease is there whole.
        release_all(&world);
        let (token, took) = timed(|| second.token_within(SOON));
        slowest = slowest.max(took);
        assert!(token > last, "{point:?}: {token} after {last}");
        last = token;
        database.assert_whole();
    }
    println!("the next had it at the latest after {slowest:?}");
    kills.assert_real();
    assert_nothing_is_left(&world);
}

/// Ends every lease that outlives its process.
fn release_all(world: &World) {
    let held = held(world);
    assert!(held.len() <= 1, "two writers: {held:?}");
    for lease in held.iter().filter(|lease| lease["binding"] == "lease") {
        let released = world.call(["release", &field(lease, "lease")]);
        assert_eq!(code(&released), 0, "{released:?}");
    }
}
