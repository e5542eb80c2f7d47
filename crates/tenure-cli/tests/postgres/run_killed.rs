//! `run` itself is killed: its command never goes on unprotected.

use crate::holder::Holder;
use crate::process::Process;
use crate::scene::{Scene, TTL};
use crate::world::{is_alive, until};

#[test]
fn the_command_is_killed_with_its_run_and_the_next_has_the_lock_when_the_lease_is_over() {
    let scene = Scene::new();
    let world = &scene.world;
    let mut holder = Holder::start(world, ["x"]);
    let next = Process::in_line(world, "x", "next");
    holder.signal_run(libc::SIGKILL);
    holder.wait();
    until("the command is dead", || !is_alive(holder.command));
    next.token_within(TTL * 5);
}

#[test]
fn the_command_inherits_nothing_of_the_store() {
    let scene = Scene::new();
    let world = &scene.world;
    let script = "for f in /proc/self/fd/*; do readlink $f; done";
    let output = world.run(["x", "--", "sh", "-c", script]);
    let lines = crate::world::text(&output.stdout);
    assert!(
        !lines.contains("socket") && !lines.contains("anon_inode"),
        "{lines}"
    );
}
