//! A holder that stood still for longer than its lease lasts.

use std::fs;

use crate::holder::Holder;
use crate::process::{TELL, field, token};
use crate::scene::{Scene, TTL, lease_of, stays};
use crate::world::{World, code, is_alive, signal, signal_group, text, until};

fn stop(holder: &Holder) {
    signal(holder.run.id(), libc::SIGSTOP);
    signal_group(holder.command, libc::SIGSTOP);
    until("run stands still", || {
        crate::world::state(holder.run.id()) == Some('T')
    });
}

fn go_on(holder: &Holder) {
    signal(holder.run.id(), libc::SIGCONT);
}

fn write(world: &World, token: u64) -> std::process::Output {
    let token = format!("x#{token}");
    let mut command = world.tenure();
    command.args(["doc", "write", "--token", &token, "a.json"]);
    fs::write(world.path("new.json"), "[2]").unwrap();
    command.stdin(fs::File::open(world.path("new.json")).unwrap());
    command.output().unwrap()
}

#[test]
fn a_holder_that_was_paused_wakes_up_fenced() {
    let scene = Scene::new();
    let world = &scene.world;
    let mut holder = Holder::start(world, ["x"]);
    let lease = lease_of(world, "x");
    let (id, old) = (field(&lease, "lease"), lease["token"].as_u64().unwrap());
    assert_eq!(code(&write(world, old)), 0, "it holds");
    stop(&holder);
    let new = token(&world.run(["--wait", "60s", "x"].into_iter().chain(TELL)));
    assert!(new > old);
    for command in ["renew", "release"] {
        let late = world.call([command, &id]);
        assert_eq!(code(&late), 77, "{late:?}");
    }
    let late = write(world, old);
    assert_eq!(code(&late), 77, "{late:?}");
    assert!(text(&late.stderr).contains("fenced"), "{late:?}");
    go_on(&holder);
    assert_eq!(holder.code(), 79);
    until("its command is dead", || !is_alive(holder.command));
}

#[test]
fn the_command_of_a_run_that_is_stopped_is_dead_before_another_has_the_lock() {
    let scene = Scene::new();
    let world = &scene.world;
    let mut holder = Holder::start(world, ["x"]);
    signal(holder.run.id(), libc::SIGSTOP);
    let script = format!(
        "grep -sq '^State:.[^Z]' /proc/{}/status; echo $?",
        holder.command
    );
    let next = world.run(["--wait", "60s", "x", "--", "sh", "-c", &script]);
    assert_eq!(
        text(&next.stdout).trim(),
        "1",
        "the first command still runs"
    );
    go_on(&holder);
    assert_eq!(holder.code(), 79);
}

#[test]
fn a_run_that_is_stopped_for_a_moment_goes_on() {
    let scene = Scene::new();
    let world = &scene.world;
    let mut holder = Holder::start(world, ["x"]);
    let lease = lease_of(world, "x")["lease"].clone();
    signal(holder.run.id(), libc::SIGSTOP);
    until("run stands still", || {
        crate::world::state(holder.run.id()) == Some('T')
    });
    go_on(&holder);
    stays("it goes on", TTL * 2, || is_alive(holder.command));
    assert_eq!(lease_of(world, "x")["lease"], lease);
    holder.let_go();
    assert_eq!(holder.code(), 0);
}
