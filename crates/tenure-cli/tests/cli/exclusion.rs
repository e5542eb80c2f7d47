//! One holder at a time, and an end to every hold.

use std::fs;
use std::process::Stdio;

use crate::holder::Holder;
use crate::world::{World, code, is_alive, signal, signal_group, state, text, until};

#[test]
fn sixty_four_counters_lose_nothing() {
    for world in World::each() {
        fs::write(world.path("c"), "0").unwrap();
        let mut script = std::process::Command::new("sh");
        world.prepare(&mut script);
        let script = script.arg("-c").arg(
            "for i in $(seq 64); do \"$TENURE\" run --wait 60s counter -- \
         sh -c 'n=$(cat c); echo $((n+1)) > c' & done; wait",
        );
        let output = script.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert_eq!(fs::read_to_string(world.path("c")).unwrap().trim(), "64");
    }
}

#[test]
fn readers_share_and_keep_writers_out() {
    for world in World::each() {
        let mut first = Holder::start(&world, ["x=read"]);
        let second = world.run(["--no-wait", "--mode", "read", "x", "--", "true"]);
        assert_eq!(code(&second), 0);
        assert!(!world.is_free("x"));
        first.let_go();
        assert_eq!(first.code(), 0);
        assert!(world.is_free("x"));
    }
}

#[test]
fn when_a_holder_is_killed_with_its_command_the_next_waiter_has_it() {
    for world in World::each() {
        let holder = Holder::start(&world, ["x"]);
        let waiter = world
            .tenure()
            .args(["run", "--wait", "30s", "x", "--", "echo", "mine"])
            .stdout(Stdio::piped())
            .spawn();
        let waiter = waiter.unwrap();
        holder.signal_run(libc::SIGKILL);
        // The command and its children have inherited the lock, so the whole group is killed.
        signal_group(holder.command, libc::SIGKILL);
        let output = waiter.wait_with_output().unwrap();
        assert_eq!(
            (code(&output), text(&output.stdout).as_str()),
            (0, "mine\n")
        );
    }
}

#[test]
fn nobody_takes_over_from_a_stopped_holder() {
    for world in World::each() {
        let mut holder = Holder::start(&world, ["x"]);
        holder.signal_run(libc::SIGSTOP);
        until("run is stopped", || state(holder.run.id()) == Some('T'));
        assert!(!world.is_free("x"));
        // A hold without a time limit needs no watchdog, so the command is the only child.
        let children = format!("/proc/{0}/task/{0}/children", holder.run.id());
        let children = std::fs::read_to_string(children).unwrap();
        assert_eq!(children.trim(), holder.command.to_string());
        let waited = world.run(["--wait", "200ms", "x", "--", "true"]);
        assert_eq!(code(&waited), 75);
        holder.signal_run(libc::SIGCONT);
        holder.let_go();
        assert_eq!(holder.code(), 0);
        assert!(world.is_free("x"));
    }
}

#[test]
fn several_resources_are_taken_all_or_none() {
    for world in World::each() {
        let _holder = Holder::start(&world, ["b"]);
        assert_eq!(
            code(&world.run(["--no-wait", "a", "b", "c", "--", "true"])),
            75
        );
        assert!(world.is_free("a") && world.is_free("c"));
    }
}

#[test]
fn odd_names_are_locks_of_their_own() {
    for world in World::each() {
        let names = [
            "map:a/b",
            "a%2Cb",
            "é漢",
            "..",
            "%00",
            "file:/etc/passwd",
            "%FF%FE",
            "x:y:z",
        ];
        let mut holders = Vec::new();
        for name in names {
            assert!(world.is_free(name), "{name}");
            holders.push(Holder::start(&world, [name]));
            assert!(!world.is_free(name), "{name}");
        }
        let long = "x".repeat(1019);
        let _holder = Holder::start(&world, [long.as_str()]);
        assert!(!world.is_free(&long));
        assert!(world.is_free(&"x".repeat(1018)));
    }
}

#[test]
fn a_daemon_left_behind_does_not_keep_the_lock() {
    for world in World::each() {
        let script = "sleep 300 </dev/null >/dev/null 2>&1 & echo $!";
        let output = world.run(["x", "--", "sh", "-c", script]);
        let daemon: u32 = text(&output.stdout).trim().parse().unwrap();
        assert!(is_alive(daemon));
        assert!(world.is_free("x"));
        signal(daemon, libc::SIGKILL);
    }
}

#[test]
fn whatever_becomes_of_the_command_no_session_is_left() {
    let world = World::new();
    let _holder = Holder::start(&world, ["held"]);
    for (script, expected) in [("true", 0), ("exit 7", 7), ("kill -9 $$", 137)] {
        let output = world.run(["x", "--", "sh", "-c", script]);
        assert_eq!(code(&output), expected, "{output:?}");
    }
    assert_eq!(code(&world.run(["x", "--", "./no-such-command"])), 127);
    assert_eq!(
        code(&world.run(["--wait", "30ms", "held", "--", "true"])),
        75
    );
    let _lease = world.lock(["y"]);
    assert_eq!(world.sessions(), 1, "that of the holder");
}
