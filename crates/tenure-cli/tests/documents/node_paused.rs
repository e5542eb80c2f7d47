//! A holder of ours that stands still for longer than Node waits.

use std::time::Duration;

use serde_json::json;

use crate::node::node;
use crate::site::{Process, assert_tidy, done, put, read};
use crate::world::{World, code, is_alive, signal, state, text, until, until_exists};

/// Prints another document, then tells that by a file, and stays until it may go.
const WORK: &str = "echo '{\"n\":100}'; touch in; while [ ! -e go ]; do sleep 0.05; done";

#[test]
fn a_paused_holder_taken_over_by_node_is_told_so_and_its_write_is_refused() {
    let world = World::new();
    put(&world, "a.json", "{\"n\":0}\n");
    let update = [
        "update",
        "--compat",
        "proper-lockfile",
        "a.json",
        "--",
        "sh",
        "-c",
        WORK,
    ];
    let paused = Process::doc(&world, update);
    until_exists(&world.path("in"));
    signal(paused.id(), libc::SIGSTOP);
    until("it stands still", || state(paused.id()) == Some('T'));
    // Node waits until the lock is stale, takes it over, and writes.
    let taker = node(&world, "counter.js", "a.json", &["1"]);
    let output = taker.end_within(Duration::from_secs(40));
    assert_eq!(text(&output.stdout), "1\n", "{output:?}");
    assert!(is_alive(paused.id()), "it is only paused");
    signal(paused.id(), libc::SIGCONT);
    // The holder is told at once, not only when its command ends.
    paused.until_said("a.json.lock was lost");
    assert!(!world.path("go").exists());
    put(&world, "go", "");
    let output = paused.end();
    assert_eq!(code(&output), 79, "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
    assert_eq!(read(&world, "a.json"), json!({ "n": 1 }), "what Node wrote");
    done(&world, ["clean", "--yes", "a.json"]);
    assert_tidy(&world.path(""), &["a.json", "in", "go"]);
}
