//! The folder of the sessions is deleted or copied, so its files prove nothing any more.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::holder::Holder;
use crate::process::{field, held, take, the_lease};
use crate::world::{World, code, is_alive, signal_group, until};

/// Removes the folder; a folder that is made later has other inodes.
fn delete(world: &World) {
    fs::remove_dir_all(world.path("store/sessions")).unwrap();
}

fn copy_there_and_back(world: &World) {
    let (folder, copy) = (world.path("store/sessions"), world.path("copy"));
    let copied = Command::new("cp")
        .arg("-a")
        .arg(&folder)
        .arg(&copy)
        .status();
    assert!(copied.unwrap().success());
    // The old files stay in use elsewhere, so that no inode number is used again.
    fs::rename(&folder, world.path("old")).unwrap();
    fs::rename(&copy, &folder).unwrap();
}

/// Asserts that the lock is kept from all others, and shown as unknown.
#[track_caller]
fn assert_unknown_and_kept(world: &World) {
    let lease = the_lease(world);
    assert_eq!(lease["state"], "unknown", "{lease}");
    assert!(!world.is_free("x"));
    assert_eq!(
        code(&world.run(["--wait", "1500ms", "x", "--", "true"])),
        75
    );
    assert_eq!(code(&world.call(["recover"])), 0);
    assert_eq!(the_lease(world)["lease"], lease["lease"]);
}

#[track_caller]
fn break_it(world: &World) {
    let lease = field(&the_lease(world), "lease");
    let broken = world.call(["break", &lease, "--reason", "the folder is gone", "--yes"]);
    assert_eq!(code(&broken), 0, "{broken:?}");
}

#[test]
fn a_run_whose_sessions_folder_is_deleted_or_copied_keeps_its_lock_until_it_is_broken() {
    for lose in [delete, copy_there_and_back] {
        let world = World::new();
        let mut holder = Holder::start(&world, ["x"]);
        let token = the_lease(&world)["token"].as_u64().unwrap();
        lose(&world);
        assert_unknown_and_kept(&world);
        assert!(is_alive(holder.command));
        let began = Instant::now();
        break_it(&world);
        until("it is free", || world.is_free("x"));
        assert!(
            began.elapsed() < Duration::from_secs(11),
            "{:?}",
            began.elapsed()
        );
        assert!(!is_alive(holder.command), "it was stopped before");
        assert_eq!(holder.code(), 79);
        assert!(take(&world, "x") > token);
        assert!(held(&world).is_empty());
    }
}

#[test]
fn what_a_dead_run_held_is_unknown_without_the_sessions_folder_and_ended_by_break() {
    let world = World::new();
    let mut holder = Holder::start(&world, ["x"]);
    delete(&world);
    holder.signal_run(libc::SIGKILL);
    signal_group(holder.command, libc::SIGKILL);
    holder.wait();
    assert_unknown_and_kept(&world);
    let began = Instant::now();
    break_it(&world);
    assert!(!world.is_free("x"), "nobody confirms the stop");
    assert_eq!(code(&world.run(["--wait", "30s", "x", "--", "true"])), 0);
    let took = began.elapsed();
    assert!(took > Duration::from_secs(9), "{took:?}");
    assert!(took < Duration::from_secs(12), "{took:?}");
}

#[test]
fn newcomers_make_the_sessions_folder_anew_and_go_on() {
    let world = World::new();
    let first = take(&world, "y");
    let mut holder = Holder::start(&world, ["x"]);
    delete(&world);
    assert!(take(&world, "y") > first);
    let mut other = Holder::start(&world, ["z"]);
    assert!(!world.is_free("z"));
    other.let_go();
    assert_eq!(other.code(), 0);
    // The holder never lost its lock, so it releases it as usual.
    holder.let_go();
    assert_eq!(holder.code(), 0);
    assert!(world.is_free("x"));
}
