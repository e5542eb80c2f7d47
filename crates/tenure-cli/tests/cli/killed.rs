//! `run` itself is killed: its command never goes on unprotected.

use crate::holder::Holder;
use crate::world::{World, is_alive, json, text, until};

#[test]
fn the_lock_stays_until_the_command_ends_if_run_is_killed() {
    for world in World::each() {
        let mut holder = Holder::start(&world, ["x"]);
        holder.signal_run(libc::SIGKILL);
        holder.wait();
        assert!(is_alive(holder.command));
        assert!(!world.is_free("x"));
        holder.let_go();
        until("the lock is free", || world.is_free("x"));
    }
}

#[test]
fn every_lock_of_a_set_stays_if_run_is_killed() {
    for world in World::each() {
        let mut holder = Holder::start(&world, ["x", "y=read", "z=upgradeable"]);
        holder.signal_run(libc::SIGKILL);
        holder.wait();
        assert!(!world.is_free("x") && !world.is_free("y"));
        let read = world.run(["--no-wait", "z=read", "--", "true"]);
        assert_eq!(
            crate::world::code(&read),
            0,
            "upgradeable shares with readers"
        );
        let upgradeable = world.run(["--no-wait", "z=upgradeable", "--", "true"]);
        assert_eq!(crate::world::code(&upgradeable), 75);
        holder.let_go();
        until("all are free", || {
            ["x", "y", "z"].iter().all(|name| world.is_free(name))
        });
    }
}

#[test]
fn people_are_told_that_run_is_not_seen_and_its_command_goes_on() {
    for world in World::each() {
        let mut holder = Holder::start(&world, ["x"]);
        holder.signal_run(libc::SIGKILL);
        holder.wait();
        let busy = world.run(["--no-wait", "x", "--", "true"]);
        assert!(
            text(&busy.stderr).contains("run not seen here: its command goes on"),
            "{busy:?}"
        );
        let listed = world.tenure().arg("ls").output().unwrap();
        assert!(
            text(&listed.stdout).contains("run not seen here: its command goes on"),
            "{listed:?}"
        );
        let listed = world.tenure().args(["ls", "--json"]).output().unwrap();
        assert_eq!(json(&listed.stdout)["held"][0]["pid"], holder.run.id());
        holder.let_go();
        until("the lock is free", || world.is_free("x"));
    }
}

#[test]
fn with_close_the_command_dies_with_run() {
    for flag in ["--close", "-o"] {
        for world in World::each() {
            let mut holder = Holder::start(&world, [flag, "x"]);
            holder.signal_run(libc::SIGKILL);
            holder.wait();
            until("the command is dead", || !is_alive(holder.command));
            assert!(world.is_free("x"));
        }
    }
}

/// Returns the directory of the files that keep a lock held while they are open: a file of each
/// lock, or the file of the session for all of its locks.
fn files_of_locks(world: &World) -> &'static str {
    match world.is_file() {
        true => "/store/locks/",
        false => "/store/sessions/",
    }
}

#[test]
fn with_close_the_command_does_not_inherit_the_lock() {
    for world in World::each() {
        let descriptors = "ls -l /proc/self/fd";
        let inherited = world.run(["x", "--", "sh", "-c", descriptors]);
        assert!(
            text(&inherited.stdout).contains(files_of_locks(&world)),
            "{inherited:?}"
        );
        let closed = world.run(["--close", "x", "--", "sh", "-c", descriptors]);
        assert!(!text(&closed.stdout).contains("/store/"), "{closed:?}");
    }
}

#[test]
fn nothing_but_the_locks_is_inherited() {
    for world in World::each() {
        let output = world.run([
            "x",
            "y",
            "--",
            "sh",
            "-c",
            "for f in /proc/self/fd/*; do readlink $f; done",
        ]);
        let ours = text(&output.stdout)
            .lines()
            .filter(|line| line.starts_with('/'))
            .map(str::to_owned)
            .collect::<Vec<_>>();
        let foreign: Vec<_> = ours
            .iter()
            .filter(|line| {
                !line.contains(files_of_locks(&world))
                    && !line.starts_with("/dev/null")
                    && !line.starts_with("/proc/")
            })
            .collect();
        assert!(foreign.is_empty(), "{foreign:?}");
        assert_eq!(
            ours.iter()
                .filter(|line| line.contains(files_of_locks(&world)))
                .count(),
            if world.is_file() { 2 } else { 1 },
            "{ours:?}"
        );
        let lines = text(&output.stdout);
        assert!(
            !lines.contains("anon_inode") && !lines.contains("socket"),
            "{lines}"
        );
    }
}
