//! Waiting for a document, and the messages about it.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use super::commands::{Worker, doc, get, put};
use crate::terminal::Terminal;
use crate::world::{World, code, json, signal, text};

fn world() -> World {
    let world = World::new();
    put(&world, "a.json", "{\"m\":0}");
    world
}

fn waiter(world: &World, arguments: &[&str]) -> Command {
    let mut command = world.tenure();
    command.arg("doc").args(arguments);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[test]
fn whoever_waits_is_told_who_works_on_it_and_gets_it_after() {
    let world = world();
    let worker = Worker::on(&world, "a.json");
    let raise = [
        "update", "--wait", "1m", "a.json", "--", "jq", "-c", ".n = 1",
    ];
    let mut waiter = waiter(&world, &raise).spawn().unwrap();
    let mut lines = BufReader::new(waiter.stderr.take().unwrap()).lines();
    let line = lines.next().unwrap().unwrap();
    let pid = format!("pid {} on ", worker.update.id());
    for part in [
        "waiting for document /",
        "a.json (write), ",
        " of 1m 00s",
        "held (write) by bob@desk for ",
        &pid,
        "\"tenure doc update a.json --owner bob@desk -- sh -c ",
        "until it is released",
    ] {
        assert!(line.contains(part), "{part:?} is not in {line:?}");
    }
    assert!(
        !line.contains('\u{1b}'),
        "no colours where there is no terminal"
    );
    worker.let_go(&world);
    assert_eq!(code(&waiter.wait_with_output().unwrap()), 0);
    assert_eq!(lines.count(), 0, "lines are sparse");
    assert_eq!(worker.end().0, Some(0));
    assert_eq!(get(&world, "a.json"), "{\"m\":0,\"worked\":true,\"n\":1}");
}

#[test]
fn without_waiting_it_is_75_at_once_with_the_holder() {
    let world = world();
    let worker = Worker::on(&world, "a.json");
    for arguments in [
        &["update", "--no-wait", "a.json", "--", "cat"][..],
        &["read", "--no-wait", "a.json"],
        &["write", "--no-wait", "a.json"],
        &["clean", "--yes", "--no-wait", "a.json"],
    ] {
        let mut command = waiter(&world, arguments);
        if arguments[0] == "write" {
            command.stdin(std::fs::File::open(world.path("a.json")).unwrap());
        }
        let output = command.output().unwrap();
        assert_eq!(code(&output), 75, "{arguments:?}: {output:?}");
        let said = text(&output.stderr);
        assert!(
            said.contains("a.json is held (write) by bob@desk"),
            "{said}"
        );
    }
    let output = doc(&world, ["read", "--no-wait", "a.json", "--json"]);
    let error = &json(&output.stdout)["error"];
    assert_eq!(
        (&error["kind"], &error["holders"][0]["owner"]),
        (&"busy".into(), &"bob@desk".into())
    );
    worker.let_go(&world);
    assert_eq!(worker.end().0, Some(0));
}

#[test]
fn flags_beat_the_environment_beats_the_file() {
    let world = world();
    let worker = Worker::on(&world, "a.json");
    let limit = |variable: Option<&str>, flag: &[&str]| {
        let mut command = waiter(&world, &["read", "a.json"]);
        command.args(flag);
        command.envs(variable.map(|value| ("TENURE_LOCK_TIMEOUT", value)));
        let output = command.output().unwrap();
        assert_eq!(code(&output), 75, "{output:?}");
        text(&output.stderr)
    };
    put(&world, "tenure.toml", "wait = '30ms'\n");
    assert!(limit(None, &[]).contains("within 30ms"));
    assert!(limit(Some("40ms"), &[]).contains("within 40ms"));
    assert!(limit(Some("40ms"), &["--wait", "50ms"]).contains("within 50ms"));
    worker.let_go(&world);
    assert_eq!(worker.end().0, Some(0));
}

#[test]
fn the_usual_wait_is_5_seconds_and_15_with_node() {
    let world = world();
    let worker = Worker::on(&world, "a.json");
    for (more, limit) in [
        (&[][..], " of 5.0s"),
        (&["--compat", "proper-lockfile"], " of 15s"),
    ] {
        let mut command = waiter(&world, &["read", "a.json"]);
        let mut waiter = command.args(more).spawn().unwrap();
        let mut lines = BufReader::new(waiter.stderr.take().unwrap()).lines();
        let line = lines.next().unwrap().unwrap();
        assert!(line.contains(limit), "{line}");
        waiter.kill().unwrap();
        waiter.wait().unwrap();
    }
    worker.let_go(&world);
    assert_eq!(worker.end().0, Some(0));
}

#[test]
fn a_wait_that_is_interrupted_is_130_and_leaves_nothing() {
    let world = world();
    let worker = Worker::on(&world, "a.json");
    for number in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        let mut command = waiter(
            &world,
            &["update", "--wait", "1m", "a.json", "--", "touch", "ran"],
        );
        let mut waiter = command.spawn().unwrap();
        let mut errors = BufReader::new(waiter.stderr.take().unwrap());
        let mut line = String::new();
        errors.read_line(&mut line).unwrap();
        assert!(line.contains("waiting for"), "{line}");
        signal(waiter.id(), number);
        let mut said = String::new();
        errors.read_to_string(&mut said).unwrap();
        assert_eq!(waiter.wait().unwrap().code(), Some(130), "{said}");
        assert!(
            said.contains("interrupted while waiting for document /"),
            "{said}"
        );
    }
    worker.let_go(&world);
    assert_eq!(worker.end().0, Some(0));
    assert!(!world.path("ran").exists());
}

#[test]
fn the_live_line_is_gone_before_the_work_begins() {
    let world = world();
    let worker = Worker::on(&world, "a.json");
    let mut terminal = Terminal::open(&world);
    terminal.press("\"$TENURE\" doc update --wait 1m a.json -- sh -c 'echo begun >&2; cat'\n");
    terminal.expect("is held (write) by bob@desk");
    terminal.expect("waiting for document /");
    worker.let_go(&world);
    terminal.expect("\r\u{1b}[Kbegun\r\n");
    terminal.expect("$ ");
    assert_eq!(worker.end().0, Some(0));
}
