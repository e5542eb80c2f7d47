//! The time limits of waits, and the messages about them.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use crate::holder::Holder;
use crate::world::{World, code, text};

#[test]
fn flags_beat_the_environment_beats_the_file() {
    for world in World::each() {
        let _holder = Holder::start(&world, ["x"]);
        let limit = |variable: Option<&str>, flag: &[&str]| {
            let mut command = world.tenure();
            if let Some(value) = variable {
                command.env("TENURE_LOCK_TIMEOUT", value);
            }
            command.arg("run").args(flag).args(["x", "--", "true"]);
            let output = command.output().unwrap();
            assert_eq!(code(&output), 75);
            text(&output.stderr)
        };
        std::fs::write(world.path("tenure.toml"), "wait = '30ms'\n").unwrap();
        assert!(limit(None, &[]).contains("within 30ms"));
        assert!(limit(Some("40ms"), &[]).contains("within 40ms"));
        assert!(limit(Some("0"), &[]).contains("is held"));
        assert!(limit(Some("40ms"), &["--wait", "50ms"]).contains("within 50ms"));
        assert!(
            limit(Some("1"), &[]).contains("within 1.0s"),
            "a bare number is seconds"
        );
    }
}

#[test]
fn a_waiter_gets_the_lock_when_it_is_released() {
    for world in World::each() {
        let mut holder = Holder::start(&world, ["--purpose", "nightly", "x"]);
        let mut waiter = world.tenure();
        waiter
            .args(["run", "x", "--", "echo", "mine"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut waiter = waiter.spawn().unwrap();
        let mut lines = BufReader::new(waiter.stderr.take().unwrap()).lines();
        let line = lines.next().unwrap().unwrap();
        let pid = format!("pid {} on ", holder.run.id());
        for part in [
            "waiting for name:x (write), ",
            " of 10m 00s",
            "held (write) by ana@",
            &pid,
            "\"sh -c ",
            "purpose: nightly",
            "until it is released",
        ] {
            assert!(line.contains(part), "{part:?} is not in {line:?}");
        }
        assert!(
            !line.contains('\u{1b}'),
            "no colours where there is no terminal"
        );
        holder.let_go();
        let output = waiter.wait_with_output().unwrap();
        assert_eq!(
            (code(&output), text(&output.stdout).as_str()),
            (0, "mine\n")
        );
        assert_eq!(lines.count(), 0, "lines are sparse");
    }
}

#[test]
fn a_wait_shorter_than_a_second_says_nothing() {
    let world = World::new();
    let _holder = Holder::start(&world, ["x"]);
    let output = world.run(["--wait", "100ms", "x", "--", "true"]);
    assert!(!text(&output.stderr).contains("waiting"), "{output:?}");
}
