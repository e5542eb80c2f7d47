//! `run` is killed, and its command lives or dies.

use crate::holder::Holder;
use crate::process::{Process, assert_nothing_is_left, the_lease};
use crate::world::{World, is_alive, until};

#[test]
fn the_lock_of_a_killed_run_stays_until_its_command_ends_and_then_goes_to_the_next() {
    let world = World::new();
    let mut holder = Holder::start(&world, ["x"]);
    let lease = the_lease(&world)["lease"].clone();
    let next = Process::in_line(&world, "x", "next");
    holder.signal_run(libc::SIGKILL);
    holder.wait();
    // The wait is longer than any waiter sleeps before it looks again.
    let looked = world.run(["--wait", "1500ms", "x", "--", "true"]);
    assert_eq!(looked.status.code(), Some(75), "{looked:?}");
    assert!(is_alive(holder.command));
    assert_eq!(the_lease(&world)["lease"], lease);
    holder.let_go();
    next.token();
    assert_nothing_is_left(&world);
}

#[test]
fn with_close_the_command_dies_with_its_run_and_the_next_has_the_lock() {
    let world = World::new();
    let mut holder = Holder::start(&world, ["--close", "x"]);
    let next = Process::in_line(&world, "x", "next");
    holder.signal_run(libc::SIGKILL);
    holder.wait();
    next.token();
    until("the command is dead", || !is_alive(holder.command));
    assert_nothing_is_left(&world);
}
