//! `tenure recover`, killed, with a stale lease and a waiter for it.
//!
//! The recovery is made two hours later by the clock that decides, in a time namespace.

use std::process::{Command, Output};

use crate::killed_at::{Kills, killed, points, traced};
use crate::other_sqlite::Database;
use crate::process::{Process, TELL, assert_nothing_is_left, take, until_in_line};
use crate::world::{World, code};

/// Runs a command two hours later.
fn later(world: &World, command: &Command) -> Output {
    let mut later = Command::new("unshare");
    world.prepare(&mut later);
    later.args(["--time", "--boottime", "7200", "--fork"]);
    // `unshare` does not report a child that was killed as a shell does.
    later.args(["sh", "-c", "\"$@\"; exit $?", "sh"]);
    later.arg(command.get_program()).args(command.get_args());
    later.output().unwrap()
}

/// Makes a lease that will be over by then, and a waiter that will not.
fn stale_and_awaited(world: &World) -> (String, Process) {
    let lease = world.lock(["x", "--ttl", "1h"]);
    let run = ["run", "--wait", "24h", "--owner", "next", "x"];
    let waiter = Process::tenure(world, run.into_iter().chain(TELL));
    until_in_line(world, "next");
    (lease, waiter)
}

#[test]
fn a_recovery_killed_at_any_system_call_is_made_and_audited_or_not_at_all() {
    let world = World::new();
    let mut last = take(&world, "x");
    let (_, waiter) = stale_and_awaited(&world);
    let output = later(&world, &traced(&world, &["recover"]));
    assert_eq!(code(&output), 0, "{output:?}");
    waiter.token();
    let mut database = Database::of(&world);
    let points = points(&world, 100);
    let mut kills = Kills::at(&points);
    for point in &points {
        let (lease, waiter) = stale_and_awaited(&world);
        let output = later(&world, &killed(&world, point, &["recover"]));
        let dead = kills.count(&output);
        let row = format!("SELECT count(*) FROM dal_locks WHERE lock_id = '{lease}'");
        let entry =
            format!("SELECT count(*) FROM audit WHERE lock_id = '{lease}' AND action = 'recover'");
        let (there, audited) = (database.one(&row), database.one(&entry));
        assert_eq!(there.as_u64().unwrap() + audited.as_u64().unwrap(), 1);
        if there == 1 {
            assert!(dead, "{point:?}: it said it was done");
            let mut again = world.tenure();
            again.arg("recover");
            assert_eq!(code(&later(&world, &again)), 0, "{point:?}");
            assert_eq!(database.one(&entry), 1, "{point:?}");
        }
        let token = waiter.token();
        assert!(token > last, "{point:?}: {token} after {last}");
        last = token;
        database.assert_whole();
    }
    kills.assert_real();
    assert_nothing_is_left(&world);
}
