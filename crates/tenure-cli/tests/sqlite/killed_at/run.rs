//! `tenure run`, killed: before its command, beside it and after it.

use std::time::Duration;

use crate::killed_at::{Kills, killed, points, traced};
use crate::other_sqlite::Database;
use crate::process::{assert_nothing_is_left, held, take};
use crate::world::{World, code, holds_within};

const RUN: [&str; 5] = ["run", "--no-wait", "x", "--", "true"];

#[test]
fn the_lock_of_a_run_killed_at_any_system_call_is_free_within_a_second() {
    let world = World::new();
    let mut last = take(&world, "x");
    let output = traced(&world, &RUN).output().unwrap();
    assert_eq!(code(&output), 0, "{output:?}");
    let mut database = Database::of(&world);
    let points = points(&world, 70);
    let mut kills = Kills::at(&points);
    for point in &points {
        kills.count(&killed(&world, point, &RUN).output().unwrap());
        let held = held(&world);
        assert!(held.len() <= 1, "{point:?}: {held:?}");
        // The command may go on for a moment, and keeps the lock until then.
        let free = holds_within(Duration::from_secs(1), || world.is_free("x"));
        assert!(free, "{point:?}: {held:?}");
        let token = take(&world, "x");
        assert!(token > last, "{point:?}: {token} after {last}");
        last = token;
        database.assert_whole();
    }
    kills.assert_real();
    assert_nothing_is_left(&world);
}
