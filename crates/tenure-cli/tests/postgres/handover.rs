//! The hand-over from one process to the next.

use std::time::Duration;

use crate::holder::Holder;
use crate::process::{Process, timed};
use crate::scene::Scene;
use crate::world::World;

#[test]
fn a_run_hands_over_to_the_next_when_it_ends() {
    let Scene { world, database } = Scene::new();
    // The waiter shares nothing with the holder but the server and uses TCP, as on another machine.
    let other = World::at(&crate::scene::address(&database.tcp_url()));
    let mut holder = Holder::start(&world, ["x"]);
    let next = Process::in_line(&other, "x", "next");
    holder.let_go();
    assert_eq!(holder.code(), 0);
    let (token, took) = timed(|| next.token());
    assert!(token > 0);
    assert!(took < Duration::from_secs(3), "woken, not found: {took:?}");
}

#[test]
fn a_wait_that_is_interrupted_leaves_nobody_in_the_line() {
    let scene = Scene::new();
    let world = &scene.world;
    let mut holder = Holder::start(world, ["x"]);
    let first = Process::in_line(world, "x", "first");
    let second = Process::in_line(world, "x", "second");
    crate::world::signal(first.id(), libc::SIGINT);
    assert_eq!(crate::world::code(&first.end()), 130);
    let waiting = crate::process::waiting(world);
    assert_eq!(waiting.len(), 1, "{waiting:?}");
    assert_eq!(waiting[0]["owner"], "second");
    holder.let_go();
    second.token();
}
