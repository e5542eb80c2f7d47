//! Signals to `run`, while it waits and while its command runs.

use std::process::{Command, Stdio};

use crate::holder::{HOLD, Holder};
use crate::world::{World, code, is_alive, json, signal, text, until, until_exists};

const ENDING: [i32; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// Starts a `run` that waits for a lock that is held, and returns when it says so.
fn waiting(world: &World, extra: &[&str]) -> std::process::Child {
    let mut command = world.tenure();
    command
        .args(["run"])
        .args(extra)
        .args(["x", "--", "touch", "ran"]);
    command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn a_signal_while_waiting_ends_with_130_and_leaves_nothing_behind() {
    for number in ENDING {
        for world in World::each() {
            let mut holder = Holder::start(&world, ["x"]);
            let waiter = waiting(&world, &[]);
            world.until_waiting(1, waiter.id());
            signal(waiter.id(), number);
            let output = waiter.wait_with_output().unwrap();
            assert_eq!(code(&output), 130, "{output:?}");
            assert!(text(&output.stderr).contains("interrupted while waiting for name:x"));
            holder.let_go();
            assert_eq!(holder.code(), 0);
            assert!(world.is_free("x") && !world.path("ran").exists());
        }
    }
}

#[test]
fn an_interrupted_wait_is_data_with_json() {
    for world in World::each() {
        let _holder = Holder::start(&world, ["x"]);
        let waiter = waiting(&world, &["--json"]);
        world.until_waiting(1, waiter.id());
        signal(waiter.id(), libc::SIGTERM);
        let output = waiter.wait_with_output().unwrap();
        let error = &json(&output.stdout)["error"];
        assert_eq!(
            (&error["kind"], &error["resource"]),
            (&"interrupted".into(), &"name:x".into())
        );
    }
}

#[test]
fn a_signal_while_running_reaches_the_command_and_run_ends_as_it_did() {
    for number in ENDING {
        for world in World::each() {
            let mut holder = Holder::start(&world, ["x"]);
            holder.signal_run(number);
            assert_eq!(holder.code(), 128 + number);
            assert!(world.is_free("x"));
            assert!(!is_alive(holder.command));
        }
    }
}

#[test]
fn a_command_may_take_its_time_after_a_signal_and_is_protected_meanwhile() {
    for world in World::each() {
        let script = "trap 'touch caught; cat >/dev/null; exit 7' TERM; echo $$; while :; do sleep 0.01; done";
        let mut command = world.tenure();
        command.args(["run", "x", "--", "sh", "-c", script]);
        let mut holder = Holder::from_command(command);
        holder.signal_run(libc::SIGTERM);
        until_exists(&world.path("caught"));
        assert!(!world.is_free("x"));
        holder.let_go();
        assert_eq!(holder.code(), 7);
        assert!(world.is_free("x"));
    }
}

#[test]
fn the_whole_process_group_of_the_command_is_signalled() {
    for world in World::each() {
        let script = "sleep 300 & echo $!; wait; true";
        let mut command = world.tenure();
        command.args(["run", "x", "--", "sh", "-c", script]);
        let mut holder = Holder::from_command(command);
        let grandchild = holder.command;
        holder.signal_run(libc::SIGTERM);
        assert_eq!(holder.code(), 128 + libc::SIGTERM);
        until("the grandchild is gone", || !is_alive(grandchild));
    }
}

#[test]
fn the_command_has_a_process_group_of_its_own() {
    let world = World::new();
    let output = world.run(["x", "--", "sh", "-c", "ps -o pgid= -p $$; echo $$"]);
    let lines = text(&output.stdout);
    let numbers: Vec<&str> = lines.lines().map(str::trim).collect();
    assert_eq!(numbers[0], numbers[1], "{lines}");
}

#[test]
fn a_signal_that_was_ignored_stays_ignored_for_the_command_too() {
    for world in World::each() {
        let mut command = Command::new("sh");
        world.prepare(&mut command);
        let script = format!("trap '' HUP; exec \"$TENURE\" run x -- sh -c '{HOLD}'");
        command.arg("-c").arg(script);
        let mut holder = Holder::from_command(command);
        holder.signal_run(libc::SIGHUP);
        signal(holder.command, libc::SIGHUP);
        assert!(!world.is_free("x"));
        holder.let_go();
        assert_eq!(holder.code(), 0);
    }
}

#[test]
fn signals_between_grant_and_start_are_not_lost() {
    // The signal comes at random moments of a short life. At each of them `run` ends by the signal
    // and leaves the lock free, unless it had ended before.
    let worlds = World::each();
    for (world, round) in worlds.iter().flat_map(|w| (0..60u64).map(move |r| (w, r))) {
        let mut run = world.tenure();
        run.args(["run", "x", "--", "sleep", "300"]);
        run.stderr(Stdio::null());
        let mut run = run.spawn().unwrap();
        // Before `run` listens, the signal simply kills it, which leaves nothing behind either.
        std::thread::sleep(std::time::Duration::from_micros(round * 100));
        signal(run.id(), libc::SIGTERM);
        let status = run.wait().unwrap();
        use std::os::unix::process::ExitStatusExt;
        let ended = status.code().or(status.signal().map(|number| 128 + number));
        assert!(
            matches!(ended, Some(143 | 130)),
            "round {round}: {status:?}"
        );
        assert!(world.is_free("x"), "round {round}");
    }
}

#[test]
fn a_lost_lock_stops_the_command_and_exits_79() {
    let world = World::file();
    let mut command = world.tenure();
    command
        .args(["run", "x", "--", "sh", "-c", HOLD])
        .stderr(Stdio::piped());
    let mut holder = Holder::from_command(command);
    replace_lock_file(&world);
    assert_eq!(holder.code(), 79);
    assert!(!is_alive(holder.command));
    let mut said = String::new();
    std::io::Read::read_to_string(&mut holder.run.stderr.take().unwrap(), &mut said).unwrap();
    assert!(said.contains("name:x") && said.contains("lost"), "{said}");
}

#[test]
fn a_command_that_will_not_stop_is_killed_once_its_lock_is_lost() {
    let world = World::file();
    let script = "trap '' TERM; echo $$; while :; do sleep 0.05; done";
    let mut command = world.tenure();
    command
        .args(["run", "x", "--", "sh", "-c", script])
        .stderr(Stdio::null());
    let mut holder = Holder::from_command(command);
    replace_lock_file(&world);
    assert_eq!(holder.code(), 79);
    assert!(!is_alive(holder.command));
}

fn replace_lock_file(world: &World) {
    let path = world.path("store/locks/name:x.lock");
    let other = world.path("other");
    std::fs::write(&other, "").unwrap();
    std::fs::rename(other, path).unwrap();
}
