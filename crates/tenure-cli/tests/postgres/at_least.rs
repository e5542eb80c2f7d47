//! `run --at-least` keeps other runs out for its time, on both stores that have leases.

use std::time::{Duration, Instant};

use crate::holder::Holder;
use crate::process::Process;
use crate::scene::Scene;
use crate::world::{DEADLINE, World, code, text};

fn on_both_stores(test: impl Fn(&World)) {
    test(&World::new());
    test(&Scene::new().world);
}

#[track_caller]
fn keep(world: &World, arguments: &[&str]) {
    let output = world.run([arguments, &["--", "true"]].concat());
    assert_eq!(code(&output), 0, "{output:?}");
}

/// Asserts that a run that does not wait is refused at once, and returns the words of the refusal.
#[track_caller]
fn is_kept(world: &World, arguments: &[&str]) -> String {
    let run = [&["--no-wait"], arguments, &["--", "touch", "started"]].concat();
    let output = world.run(run);
    assert_eq!(code(&output), 75, "{output:?}");
    assert!(!world.path("started").exists());
    text(&output.stderr)
}

/// Asserts that the next run starts when the time is over, and not before.
#[track_caller]
fn next_starts_after(world: &World, time: Duration, began: Instant) {
    let next = Process::tenure(world, ["run", "--wait", "60s", "x", "--", "true"]);
    starts_after(next, time, began);
}

#[track_caller]
fn starts_after(next: Process, time: Duration, began: Instant) {
    let output = next.end();
    let waited = began.elapsed();
    assert_eq!(code(&output), 0, "{output:?}");
    assert!(waited >= time && waited < time + DEADLINE, "{waited:?}");
}

#[test]
fn others_are_kept_out_however_soon_the_command_ends() {
    on_both_stores(|world| {
        let began = Instant::now();
        keep(world, &["--at-least", "3s", "--owner", "nightly", "x"]);
        let refusal = is_kept(world, &["x"]);
        for part in [
            "hold:name:x is held (write) by nightly",
            "\"true\"",
            "name:x is kept until 2",
        ] {
            assert!(refusal.contains(part), "{part:?} is not in {refusal:?}");
        }
        let held = world.json(["ls"])["held"].clone();
        assert_eq!(held.as_array().unwrap().len(), 1, "{held}");
        assert_eq!(held[0]["resource"], "hold:name:x");
        assert_eq!(held[0]["binding"], "lease");
        next_starts_after(world, Duration::from_secs(3), began);
        assert!(world.is_free("x"), "it is over for everybody");
        let held = world.json(["ls"])["held"].clone();
        assert_eq!(held.as_array().unwrap().len(), 0, "{held}");
    });
}

#[test]
fn a_run_in_line_for_the_lock_does_not_start_when_the_command_ends() {
    on_both_stores(|world| {
        let began = Instant::now();
        let mut holder = Holder::start(world, ["--at-least", "3s", "x"]);
        let next = Process::in_line(world, "x", "next");
        holder.let_go();
        assert_eq!(holder.code(), 0);
        starts_after(next, Duration::from_secs(3), began);
    });
}

#[test]
fn others_are_kept_out_when_the_run_is_killed() {
    on_both_stores(|world| {
        let began = Instant::now();
        let mut holder = Holder::start(world, ["--at-least", "3s", "x"]);
        holder.signal_run(libc::SIGKILL);
        holder.wait();
        // Without its input the command ends, too, if it did not die with its run.
        holder.let_go();
        next_starts_after(world, Duration::from_secs(3), began);
    });
}

#[test]
fn the_next_that_keeps_others_out_starts_when_the_time_is_over() {
    on_both_stores(|world| {
        let began = Instant::now();
        keep(world, &["--at-least", "2s", "x"]);
        keep(world, &["--at-least", "30s", "--wait", "60s", "x"]);
        let waited = began.elapsed();
        assert!(waited >= Duration::from_secs(2), "{waited:?}");
        assert!(waited < Duration::from_secs(20), "{waited:?}");
        is_kept(world, &["x"]);
    });
}

#[test]
fn readers_keep_only_writers_out() {
    on_both_stores(|world| {
        keep(world, &["--at-least", "30s", "--shared", "x"]);
        keep(world, &["--no-wait", "--shared", "x"]);
        keep(world, &["--no-wait", "--shared", "--at-least", "30s", "x"]);
        is_kept(world, &["x"]);
        keep(world, &["--at-least", "30s", "y"]);
        is_kept(world, &["--shared", "y"]);
    });
}

#[test]
fn every_lock_of_the_run_is_kept_and_no_other() {
    on_both_stores(|world| {
        keep(world, &["--at-least", "30s", "a", "map:a%2Cb"]);
        for kept in ["a", "map:a%2Cb"] {
            is_kept(world, &[kept]);
            is_kept(world, &["project:p", kept, "z"]);
        }
        for free in ["project:p", "z", "map:a"] {
            assert!(world.is_free(free), "{free}");
        }
    });
}

#[test]
fn a_command_that_cannot_be_started_keeps_nobody_out() {
    on_both_stores(|world| {
        let output = world.run(["--at-least", "10m", "x", "--", "./no-such-command"]);
        assert_eq!(code(&output), 127, "{output:?}");
        assert!(world.is_free("x"));
    });
}

#[test]
fn a_person_ends_it_early() {
    on_both_stores(|world| {
        keep(world, &["--at-least", "10m", "x"]);
        let held = world.json(["ls"])["held"].clone();
        let lease = held[0]["lease"].as_str().unwrap().to_owned();
        let output = world.call(["break", &lease, "--reason", "it is urgent", "--yes"]);
        assert_eq!(code(&output), 0, "{output:?}");
        keep(world, &["--wait", "30s", "x"]);
    });
}

#[test]
fn runs_inside_meet_the_lock_as_ever() {
    on_both_stores(|world| {
        for (inner, expected) in [
            ("$TENURE run x -- true", 76),
            ("$TENURE run --at-least 5s x -- true", 76),
            ("$TENURE run --reuse x -- true", 0),
        ] {
            let output = world.run(["--at-least", "1s", "x", "--", "sh", "-c", inner]);
            assert_eq!(code(&output), expected, "{inner}: {output:?}");
        }
    });
}

#[test]
fn an_automated_owner_keeps_others_out_no_longer_than_its_longest_lease() {
    let world = World::new();
    let run = ["--at-least", "61m", "--owner", "agent:42", "x"];
    let output = world.run(run.into_iter().chain(["--", "touch", "started"]));
    assert_eq!(code(&output), 77, "{output:?}");
    assert!(text(&output.stderr).contains("automated_ttl_max"));
    assert!(!world.path("started").exists());
    assert!(world.is_free("x"));
}

#[test]
fn stores_without_leases_refuse_and_name_one_that_has_them() {
    let world = World::file();
    let output = world.run(["--at-least", "5m", "x", "--", "touch", "started"]);
    assert_eq!(code(&output), 78, "{output:?}");
    let said = text(&output.stderr);
    assert!(
        said.contains("file:") && said.contains("--store sqlite:PATH"),
        "{said}"
    );
    assert!(!world.path("started").exists());
    let slot = world.run(["--at-least", "5m", "--slot", "s:1", "--", "true"]);
    assert_eq!(code(&slot), 65, "there is no lock to keep: {slot:?}");
}
