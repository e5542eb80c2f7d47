//! Locks held by `flock` and Python for longer than the wait.

use std::process::Command;

use crate::place::Place;
use crate::site::{Process, everything};
use crate::world::{code, until};

/// Holds a lock of the board by another program until it is dropped.
fn hold(place: &Place, program: &str, lock: &str) -> Process {
    let lock = place.path(lock);
    let mut command = Command::new(program);
    place.world.prepare(&mut command);
    let holder = match program {
        "flock" => {
            // Only flock itself holds it, and what it runs ends with it.
            let script = "echo held; exec tail --pid=$PPID -f /dev/null";
            command.arg("-o").arg(&lock).args(["sh", "-c", script])
        }
        _ => {
            let script = "import fcntl, sys, time\nf = open(sys.argv[1], 'a')\nfcntl.flock(f, fcntl.LOCK_EX)\nprint('held', flush=True)\ntime.sleep(600)";
            command.args(["-c", script]).arg(&lock)
        }
    };
    let holder = Process::start(holder);
    until("it holds the lock", || holder.printed().contains("held"));
    holder
}

#[test]
fn a_lock_held_by_flock_or_python_for_longer_than_the_wait_is_75_and_nothing_changed() {
    for program in ["flock", "python3"] {
        let place = Place::new();
        place.add(&["a"]);
        let before = everything(&place.root());
        let mut holder = hold(&place, program, ".index.lock");
        let mut command = place.command(&["add", "x"]);
        let output = command.env("TENURE_LOCK_TIMEOUT", "1").output().unwrap();
        assert_eq!(code(&output), 75, "{output:?}");
        let said = crate::world::text(&output.stderr);
        for part in [
            ".index.lock",
            "was not free within 1.0s",
            program,
            &format!("pid {}", holder.id()),
            "1. wait a few seconds",
            &format!("2. look for a stuck process: ps -fp {}", holder.id()),
            "3. allow more time than 1.0s: TENURE_LOCK_TIMEOUT=2 tenure board",
        ] {
            assert!(said.contains(part), "{part:?} is not in {said}");
        }
        assert_eq!(everything(&place.root()), before);
        // What does not need the index goes on.
        place.done(&["note", "a", "x"]);
        holder.kill();
        until("the lock is free", || code(&place.call(&["add", "x"])) == 0);
    }
}

#[test]
fn the_variables_of_jit_count_where_ours_are_not_set() {
    let place = Place::new();
    place.add(&["a"]);
    let _holder = hold(&place, "flock", "issues/a.lock");
    let asked = |ours: Option<&str>| {
        let mut command = place.command(&["note", "a", "x"]);
        command.env("JIT_LOCK_TIMEOUT", "1");
        if let Some(ours) = ours {
            command.env("TENURE_LOCK_TIMEOUT", ours);
        }
        let output = command.output().unwrap();
        assert_eq!(code(&output), 75, "{output:?}");
        crate::world::text(&output.stderr)
    };
    assert!(asked(None).contains("within 1.0s"));
    assert!(asked(Some("200ms")).contains("within 200ms"));
    let mut bad = place.command(&["note", "a", "x"]);
    let bad = bad.env("JIT_RETRY_MAX_ATTEMPTS", "none").output().unwrap();
    assert_eq!(code(&bad), 78);
    assert!(crate::world::text(&bad.stderr).contains("JIT_RETRY_MAX_ATTEMPTS"));
}

#[test]
fn a_holder_of_ours_is_named_with_its_command() {
    let place = Place::new();
    place.add(&["a"]);
    let locker = tenure_files::FileLocker::new(crate::world::DEADLINE);
    let _held = locker.lock_exclusive(&place.path("issues/a.lock")).unwrap();
    let mut command = place.command(&["done", "a"]);
    let output = command
        .env("TENURE_LOCK_TIMEOUT", "300ms")
        .output()
        .unwrap();
    assert_eq!(code(&output), 75);
    let said = crate::world::text(&output.stderr);
    let pid = std::process::id();
    assert!(
        said.contains("issues/a.lock was not free within 300ms"),
        "{said}"
    );
    assert!(
        said.contains(&format!("pid {pid}")) && said.contains(&format!("ps -fp {pid}")),
        "{said}"
    );
}
