//! The holder is cut off from the server.

use std::fs;

use crate::holder::Holder;
use crate::process::Process;
use crate::scene::{Scene, TTL, lease_of, stays};
use crate::world::{code, is_alive, text, until, until_exists};

/// Says its process id, notes every SIGTERM and ignores it.
const STUBBORN: &str = "trap 'date +%s%N >> term' TERM; echo $$; while :; do sleep 0.02; done";

#[test]
fn the_command_of_a_holder_that_is_cut_off_is_ended_before_anybody_else_is_granted() {
    let scene = Scene::new();
    let (proxy, cut) = scene.behind_proxy();
    let mut command = cut.tenure();
    command.args(["run", "x", "--", "sh", "-c", STUBBORN]);
    command.stderr(fs::File::create(cut.path("said")).unwrap());
    let mut holder = Holder::from_command(command);
    let pid = holder.command;
    // This runs in the instant of the grant, and asks whether the other's command is still there.
    let look = format!("if kill -0 {pid} 2>/dev/null; then echo both; else echo alone; fi");
    let mut next = scene.world.tenure();
    next.args([
        "run", "--wait", "60s", "--owner", "next", "x", "--", "sh", "-c", &look,
    ]);
    let next = Process::start(&mut next);
    crate::process::until_in_line(&scene.world, "next");
    stays("it is renewed while nothing is cut", TTL, || is_alive(pid));

    proxy.pause();
    let granted = next.end_within(TTL * 5);
    assert_eq!(text(&granted.stdout).trim(), "alone", "{granted:?}");
    assert_eq!(holder.code(), 79);
    let terms = fs::read_to_string(cut.path("term")).unwrap();
    assert_eq!(terms.lines().count(), 1, "SIGTERM first");
    let said = fs::read_to_string(cut.path("said")).unwrap();
    for word in ["name:x", "could not be renewed for", "SIGTERM", "SIGKILL"] {
        assert!(said.contains(word), "{word} is not in {said}");
    }
}

#[test]
fn a_command_that_ends_when_told_to_is_not_killed_and_run_exits_79() {
    let scene = Scene::new();
    let (proxy, cut) = scene.behind_proxy();
    let script =
        "trap 'echo cleaned > cleaned; exit 3' TERM; echo $$; while :; do sleep 0.02; done";
    let mut command = cut.tenure();
    command.args(["run", "--json", "x", "--", "sh", "-c", script]);
    command.stderr(fs::File::create(cut.path("said")).unwrap());
    let mut holder = Holder::from_command(command);
    proxy.pause();
    assert_eq!(holder.code(), 79);
    assert!(cut.path("cleaned").exists());
    let said = fs::read_to_string(cut.path("said")).unwrap();
    let first = said.lines().find(|line| line.starts_with('{')).unwrap();
    let first = crate::world::json(first.as_bytes());
    assert_eq!(first["error"]["kind"], "lost");
    assert_eq!(first["error"]["resource"], "name:x");
    assert!(!said.contains("SIGKILL"), "{said}");
}

#[test]
fn a_short_silence_is_survived() {
    let scene = Scene::new();
    let (proxy, cut) = scene.behind_proxy();
    let mut holder = Holder::start(&cut, ["x"]);
    let lease = lease_of(&scene.world, "x")["lease"].clone();
    for _ in 0..3 {
        proxy.pause();
        stays("alive in the silence", TTL / 6, || is_alive(holder.command));
        proxy.resume();
        stays("alive after it", TTL, || is_alive(holder.command));
    }
    assert_eq!(lease_of(&scene.world, "x")["lease"], lease);
    holder.let_go();
    assert_eq!(holder.code(), 0);
}

#[test]
fn connections_that_are_reset_are_made_again() {
    let scene = Scene::new();
    let (proxy, cut) = scene.behind_proxy();
    let mut holder = Holder::start(&cut, ["x", "y"]);
    for _ in 0..3 {
        proxy.cut();
        stays("alive", TTL / 2, || is_alive(holder.command));
    }
    until("it is renewed again", || {
        lease_of(&scene.world, "x")["state"] == "held"
    });
    holder.let_go();
    assert_eq!(holder.code(), 0);
}

#[test]
fn what_is_there_of_a_set_is_kept_while_the_rest_is_awaited() {
    let scene = Scene::new();
    let world = &scene.world;
    let mut last = Holder::start(world, ["b"]);
    let mut both = world.tenure();
    both.args([
        "run", "--wait", "60s", "--owner", "both", "a", "b", "--", "touch", "ran",
    ]);
    let both = Process::start(&mut both);
    crate::process::until_in_line(world, "both");
    let lease = lease_of(world, "a")["lease"].clone();
    stays("it keeps the first", TTL * 2, || {
        lease_of(world, "a")["lease"] == lease
    });
    last.let_go();
    assert_eq!(code(&both.end()), 0);
    until_exists(&world.path("ran"));
}
