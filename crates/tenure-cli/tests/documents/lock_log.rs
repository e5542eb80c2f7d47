//! The lock log: `TENURE_LOG=lock=debug`.

use crate::site::{Process, RAISE, doc, put, refused};
use crate::world::{World, code, text, until_exists};

/// Returns the lines of the log that contain this.
fn lines<'a>(said: &'a str, what: &str) -> Vec<&'a str> {
    let of_it = |line: &&str| line.contains(" lock: ") && line.contains(&format!(" {what} "));
    said.lines().filter(of_it).collect()
}

/// Asserts that each line begins with a time in UTC, and tells a duration.
#[track_caller]
fn assert_timed(lines: &[&str], span: &str) {
    assert_eq!(lines.len(), 1, "{lines:?}");
    let line = lines[0];
    let (time, _) = line.split_once(' ').unwrap();
    let digits = time
        .chars()
        .map(|c| if c.is_ascii_digit() { '0' } else { c });
    let form: String = digits.collect();
    assert!(
        form.starts_with("0000-00-00T00:00:00") && form.ends_with('Z'),
        "{line}"
    );
    assert!(line.contains(span), "{line}");
}

const WORK: &str = "cat; touch in; while [ ! -e go ]; do sleep 0.05; done";

#[test]
fn the_lock_log_of_a_document_tells_waiting_acquired_and_released_with_times() {
    let world = World::new();
    put(&world, "a.json", "{\"n\":0}\n");
    let holder = Process::doc(&world, ["update", "a.json", "--", "sh", "-c", WORK]);
    until_exists(&world.path("in"));
    let mut command = world.tenure();
    command.args(["doc", "update", "a.json"]).args(RAISE);
    let waiter = Process::start(command.env("TENURE_LOG", "lock=debug"));
    waiter.until_said(" waiting ");
    assert!(lines(&waiter.said(), "acquired").is_empty());
    put(&world, "go", "");
    assert_eq!(code(&holder.end()), 0);
    let output = waiter.end();
    assert_eq!(code(&output), 0, "{output:?}");
    let said = text(&output.stderr);
    let path = format!("path={}", world.path(".a.json.lock").display());
    assert_timed(&lines(&said, "waiting"), &path);
    assert_timed(&lines(&said, "acquired"), "waited=");
    assert_timed(&lines(&said, "released"), "held=");
    // Standard output shows nothing of the log.
    assert_eq!(text(&output.stdout).trim().len(), 64, "{output:?}");
}

#[test]
fn the_lock_log_of_run_tells_waiting_acquired_and_released_with_times() {
    for world in World::each() {
        let script = "touch in; while [ ! -e go ]; do sleep 0.05; done";
        let holder = Process::start(world.tenure().args(["run", "x", "--", "sh", "-c", script]));
        until_exists(&world.path("in"));
        let mut command = world.tenure();
        command.args(["run", "x", "--", "true"]);
        let waiter = Process::start(command.env("TENURE_LOG", "lock=debug"));
        waiter.until_said(" waiting ");
        put(&world, "go", "");
        assert_eq!(code(&holder.end()), 0);
        let output = waiter.end();
        assert_eq!(code(&output), 0, "{output:?}");
        let said = text(&output.stderr);
        let of_x = |what| {
            let lines = lines(&said, what).into_iter();
            lines
                .filter(|line| line.contains("name:x"))
                .collect::<Vec<_>>()
        };
        assert_timed(&of_x("waiting"), "name:x");
        assert_timed(&of_x("acquired"), "waited=");
        assert_timed(&of_x("released"), "held=");
    }
}

#[test]
fn without_tenure_log_nothing_is_logged_and_a_bad_value_is_refused() {
    let world = World::new();
    put(&world, "a.json", "{\"n\":0}\n");
    let output = doc(&world, ["update", "a.json"].into_iter().chain(RAISE));
    assert!(output.stderr.is_empty(), "{output:?}");
    let mut command = world.tenure();
    command
        .args(["doc", "read", "a.json"])
        .env("TENURE_LOG", "lock=loud");
    let said = refused(&Process::start(&mut command).end(), 78);
    assert!(
        said.contains("TENURE_LOG") && said.contains("lock=debug"),
        "{said}"
    );
}
