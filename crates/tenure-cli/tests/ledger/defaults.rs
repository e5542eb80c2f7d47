//! The default wait of an append, and how often it tries the lock of a stranger.

use std::fs;
use std::process::Command;
use std::time::Duration;

use crate::site::{Process, put};
use crate::world::{World, code, text};

/// The interval that the protocol for external programs prescribes.
const EVERY: Duration = Duration::from_millis(10);

/// Makes a ledger that a stranger has locked.
fn locked() -> World {
    let world = World::new();
    assert_eq!(code(&world.call(["ledger", "init", "l"])), 0);
    put(
        &world,
        "l/ledger/ledger.lock",
        r#"{"agent_id":"stranger","acquired_at":"2100-01-01T00:00:00Z"}"#,
    );
    world
}

#[test]
fn the_lock_of_a_stranger_is_tried_every_10_ms() {
    let world = locked();
    let mut command = Command::new("strace");
    world.prepare(&mut command);
    command.args(["-qq", "-ttt", "-o", "trace", "-e", "trace=linkat"]);
    command.arg(env!("CARGO_BIN_EXE_tenure"));
    command.args(["ledger", "append", "--wait", "2s", "l", r#"{"type":"x"}"#]);
    let output = Process::start(&mut command).end();
    assert_eq!(code(&output), 75, "{output:?}");
    let trace = text(&fs::read(world.path("trace")).unwrap());
    let at = |line: &str| line.split(' ').next()?.parse::<f64>().ok();
    let tries: Vec<f64> = trace.lines().filter_map(at).collect();
    let gaps = tries.windows(2).map(|two| two[1] - two[0]);
    // The last pause is only the rest of the wait.
    let gaps: Vec<f64> = gaps.take(tries.len().saturating_sub(2)).collect();
    let every = EVERY.as_secs_f64();
    let shortest = gaps.iter().copied().fold(f64::INFINITY, f64::min);
    // On however busy a machine, none of up to 200 pauses is shorter, and the best of them is
    // hardly longer.
    assert!(shortest >= every, "{gaps:?}");
    assert!(shortest < 1.8 * every, "{gaps:?}");
}

#[test]
fn an_append_waits_5_seconds_unless_told_otherwise() {
    let world = locked();
    let mut append =
        Process::start(
            world
                .tenure()
                .args(["ledger", "append", "l", r#"{"type":"x"}"#]),
        );
    append.until_said(" of 5.0s");
    append.kill();
    fs::remove_file(world.path("l/ledger/ledger.lock")).unwrap();
    let log = world.call(["ledger", "log", "l"]);
    assert_eq!(text(&log.stdout), "", "nothing was appended");
}
