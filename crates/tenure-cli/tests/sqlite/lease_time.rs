//! The time of a lease: when it runs, and what remains of a lease after it.

use std::time::{Duration, Instant};

use crate::holder::Holder;
use crate::other_sqlite::Database;
use crate::process::{Process, field, the_lease, timed, until_in_line};
use crate::world::{World, code, json, text};

#[test]
fn a_set_is_kept_whole_while_one_of_it_is_busy_for_long_and_then_has_its_full_time() {
    let world = World::new();
    let mut busy = Holder::start(&world, ["b"]);
    let lock = [
        "lock", "a", "b", "--ttl", "2s", "--wait", "60s", "--owner", "set", "--json",
    ];
    let waiter = Process::tenure(&world, lock);
    until_in_line(&world, "set");
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(6) {
        let probe = world.call(["lock", "a", "--no-wait"]);
        assert_eq!(code(&probe), 75, "after {:?}: {probe:?}", began.elapsed());
    }
    busy.let_go();
    let output = waiter.end();
    let taken = Instant::now();
    assert_eq!(code(&output), 0, "{output:?}");
    assert_eq!(json(&output.stdout)["leases"].as_array().unwrap().len(), 2);
    let mut database = Database::of(&world);
    let times = database.rows("SELECT expires_boot - heartbeat_boot, expires_boot FROM dal_locks");
    assert_eq!(times.len(), 2);
    for row in &times {
        assert_eq!(row[0], 2000);
    }
    assert_eq!(times[0][1], times[1][1], "their time began together");
    for name in ["a", "b"] {
        let next = world.call(["lock", name, "--wait", "20s", "--ttl", "1h"]);
        assert_eq!(code(&next), 0, "{next:?}");
        // The set was complete a moment before the command told it.
        let after = taken.elapsed();
        assert!(after > Duration::from_millis(1500), "{name}: {after:?}");
    }
    assert!(
        taken.elapsed() < Duration::from_secs(5),
        "{:?}",
        taken.elapsed()
    );
}

#[test]
fn a_holder_that_slept_through_its_time_is_refused_whatever_it_does_then() {
    let world = World::new();
    let lease = world.lock(["x", "--ttl", "3s"]);
    let token = the_lease(&world)["token"].to_string();
    assert_eq!(code(&world.call(["check", "x", &token])), 0);
    let (next, took) = timed(|| world.lock(["x", "--wait", "30s", "--ttl", "1h"]));
    assert!(took < Duration::from_secs(5), "{took:?}");
    for late in [
        &["release", &lease][..],
        &["renew", &lease],
        &["check", "x", &token],
    ] {
        let output = world.call(late.iter().copied());
        assert_eq!(code(&output), 77, "{late:?}: {output:?}");
        assert!(!text(&output.stderr).is_empty());
    }
    assert_eq!(
        field(&the_lease(&world), "lease"),
        next,
        "the next keeps it"
    );
    let later = the_lease(&world)["token"].to_string();
    assert_eq!(code(&world.call(["check", "x", &later])), 0);
}
