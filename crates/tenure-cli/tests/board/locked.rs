//! Locks held by `flock` and Python for longer than the wait.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::place::Place;
use crate::site::{Process, everything};
use crate::world::{code, signal, until};

/// Lets another program hold a lock of the board until the result is dropped.
fn hold(place: &Place, program: &str, lock: &str) -> Process {
    let lock = place.path(lock);
    let mut command = Command::new(program);
    place.world.prepare(&mut command);
    let holder = match program {
        "flock" => {
            // Only flock itself has the lock, and its command ends with it.
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
        // A command that does not need the index goes on.
        place.done(&["note", "a", "x"]);
        holder.kill();
        until("the lock is free", || code(&place.call(&["add", "x"])) == 0);
    }
}

#[test]
fn a_signal_ends_the_wait_for_a_lock_with_130_and_nothing_changed() {
    let place = Place::new();
    place.add(&["a"]);
    // The first `next` writes the cache.
    place.done(&["next"]);
    let _holder = hold(&place, "flock", "issues/a.lock");
    let before = everything(&place.root());
    for (arguments, resource) in [
        (&["claim", "a"][..], "issue:a"),
        (&["next", "--claim", "--wait", "60s"], "file:"),
        (&["run", "--wait", "60s", "--", "touch", "ran"], "file:"),
    ] {
        for number in [libc::SIGINT, libc::SIGTERM] {
            let mut command = place.command(arguments);
            let waiting = Process::start(command.env("TENURE_LOCK_TIMEOUT", "60"));
            let waits = format!(" {} ", waiting.id());
            until("it waits in the kernel", || {
                let locks = std::fs::read_to_string("/proc/locks").unwrap();
                let is_it = |line: &str| line.contains("-> ") && line.contains(&waits);
                locks.lines().any(is_it)
            });
            signal(waiting.id(), number);
            let output = waiting.end();
            let said = crate::world::text(&output.stderr);
            assert_eq!(code(&output), 130, "{said}");
            let words = format!("interrupted while waiting for {resource}");
            assert!(said.contains(&words), "{said}");
            assert_eq!(everything(&place.root()), before);
        }
    }
    assert!(!place.world.path("ran").exists());
}

#[test]
fn an_automated_owner_waits_no_longer_for_a_lock_than_it_may() {
    let place = Place::new();
    place.add(&["a"]);
    let _holder = hold(&place, "flock", "issues/a.lock");
    let settings = "wait = \"20s\"\nautomated_wait_max = \"300ms\"\n";
    fs::write(place.world.path("tenure.toml"), settings).unwrap();
    let mut command = place.command(&["note", "a", "x", "--owner", "agent:1"]);
    let output = command.output().unwrap();
    assert_eq!(code(&output), 75, "{output:?}");
    let said = crate::world::text(&output.stderr);
    assert!(said.contains("within 300ms"), "{said}");
}

#[test]
fn a_settings_file_that_does_not_count_is_told_once() {
    let place = Place::new();
    place.add(&["a"]);
    let settings = place.world.path("tenure.toml");
    fs::write(&settings, "").unwrap();
    std::os::unix::fs::chown(&settings, Some(65534), None).unwrap();
    let mut command = place.command(&["next", "--claim", "--owner", "agent:1"]);
    let output = command.output().unwrap();
    assert_eq!(code(&output), 0, "{output:?}");
    let said = crate::world::text(&output.stderr);
    assert_eq!(said.matches("tenure.toml").count(), 1, "{said}");
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
    let locker = tenure_lockfile::FileLocker::new(crate::world::DEADLINE);
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

/// Runs a command with a limit of two seconds for locks.
fn in_two_seconds(place: &Place, arguments: &[&str]) -> (i32, String, Duration) {
    in_seconds(2, place, arguments)
}

fn in_seconds(limit: u32, place: &Place, arguments: &[&str]) -> (i32, String, Duration) {
    let begun = Instant::now();
    let mut command = place.command(arguments);
    command.env("TENURE_LOCK_TIMEOUT", limit.to_string());
    let output = command.output().unwrap();
    let said = crate::world::text(&output.stderr);
    (code(&output), said, begun.elapsed())
}

#[test]
fn a_change_is_acknowledged_and_readers_go_on_while_the_log_is_locked_and_its_line_comes_later() {
    let place = Place::new();
    place.add(&["a", "b"]);
    let mut holder = hold(&place, "flock", ".events.lock");
    let noted = in_two_seconds(&place, &["note", "a", "x"]);
    assert_eq!(noted.0, 0, "{noted:?}");
    let mut claim = place.command(&["next", "--claim", "--json", "--owner", "agent:1"]);
    let claim = claim.env("TENURE_LOCK_TIMEOUT", "1").output().unwrap();
    assert_eq!(code(&claim), 0, "{claim:?}");
    let token = crate::world::json(&claim.stdout)["issues"][0]["claim"]["token"].to_string();
    assert_eq!(place.issue("a")["notes"][0]["text"], "x");
    place.done(&["ls"]);
    holder.kill();
    until("the lock is free", || hold_is_free(&place));
    place.done(&["done", "a", "--owner", "agent:1", "--token", &token]);
    let events = place.json(&["events"]);
    let kinds = events["events"].as_array().unwrap().iter();
    let kinds: Vec<&str> = kinds
        .map(|event| event["event"]["type"].as_str().unwrap())
        .collect();
    let all = [
        "issue_created",
        "issue_created",
        "issue_noted",
        "issue_claimed",
        "issue_done",
    ];
    assert_eq!(kinds, all);
}

fn hold_is_free(place: &Place) -> bool {
    let locker = tenure_lockfile::FileLocker::new(Duration::ZERO);
    let lock = locker.try_lock_exclusive(&place.path(".events.lock"));
    lock.unwrap().is_some()
}

#[test]
fn gates_and_issues_that_stay_locked_are_75_and_named_and_nothing_changed() {
    let place = Place::new();
    place.done(&["gate", "define", "review"]);
    place.done(&["add", "x", "--id", "a", "--gate", "review"]);
    for (lock, arguments) in [
        (".gates.lock", &["gate", "pass", "a", "review"][..]),
        (".gates.lock", &["gate", "define", "other"]),
        ("issues/a.lock", &["note", "a", "x"]),
        ("issues/a.lock", &["delete", "a"]),
    ] {
        let before = everything(&place.root());
        let holder = hold(&place, "python3", lock);
        let mut asked = in_two_seconds(&place, arguments);
        if !asked.1.contains("waiting for") {
            // On a busy machine the command may not report its wait within such a short time.
            asked = in_seconds(20, &place, arguments);
        }
        let (code, said, waited) = asked;
        assert_eq!(code, 75, "{said}");
        // The report of the wait names the lock and its holder.
        let name = lock.trim_start_matches('.').trim_end_matches(".lock");
        let report = said
            .lines()
            .find(|line| line.contains("waiting for"))
            .unwrap_or_else(|| panic!("{said}"));
        assert!(report.contains(&format!("{name}.json (write)")), "{said}");
        assert!(report.contains(&format!("pid {}", holder.id())), "{said}");
        assert!(said.contains(lock) && !said.contains("fuser"), "{said}");
        assert!(waited >= Duration::from_secs(2), "{waited:?}");
        assert_eq!(everything(&place.root()), before);
    }
}

#[test]
fn the_wait_is_one_for_all_locks_of_a_command() {
    let place = Place::new();
    place.add(&["a", "b"]);
    // A change is left without its line in the log, so that each command tries to complete it.
    let mut log = hold(&place, "flock", ".events.lock");
    in_two_seconds(&place, &["note", "b", "x"]);
    let _index = hold(&place, "flock", ".index.lock");
    let _issue = hold(&place, "flock", "issues/a.lock");
    for arguments in [
        &["ls"][..],
        &["show", "a"],
        &["done", "a"],
        &["delete", "a"],
        &["add", "x"],
    ] {
        let (code, said, waited) = in_two_seconds(&place, arguments);
        assert_eq!(code, 75, "{said}");
        // The limit is less than two waits, with room for a busy machine.
        assert!(
            waited < Duration::from_millis(3900),
            "{arguments:?} took {waited:?}"
        );
    }
    log.kill();
}

#[test]
fn next_passes_over_an_issue_that_is_locked_and_waits_only_if_there_is_no_other() {
    let place = Place::new();
    place.add(&["a", "b"]);
    let mut holder = hold(&place, "flock", "issues/a.lock");
    let (code_, said, _) = in_two_seconds(&place, &["next", "--claim", "--owner", "agent:1"]);
    assert_eq!(code_, 0, "{said}");
    assert_eq!(place.issue_unlocked("b")["claim"]["owner"], "agent:1");
    let (code_, said, waited) = in_two_seconds(&place, &["next", "--claim", "--owner", "agent:2"]);
    assert_eq!(code_, 75, "{said}");
    assert!(
        said.contains("issues/a.lock") && waited < Duration::from_millis(3900),
        "{said}"
    );
    let waiting = Process::start(
        place
            .command(&["next", "--claim", "--owner", "agent:2"])
            .env("TENURE_LOCK_TIMEOUT", "60"),
    );
    holder.kill();
    assert_eq!(code(&waiting.end()), 0);
    assert_eq!(place.issue("a")["claim"]["owner"], "agent:2");
}

#[test]
fn the_wait_of_next_is_one_for_the_index_and_the_issue() {
    let place = Place::new();
    place.add(&["a"]);
    let _issue = hold(&place, "flock", "issues/a.lock");
    let mut index = hold(&place, "flock", ".index.lock");
    let begun = Instant::now();
    let mut command = place.command(&["next", "--claim"]);
    let next = Process::start(command.env("TENURE_LOCK_TIMEOUT", "6"));
    // The index becomes free when most of the wait is over.
    std::thread::sleep(Duration::from_secs(4));
    index.kill();
    let output = next.end();
    assert_eq!(code(&output), 75, "{output:?}");
    let waited = begun.elapsed();
    assert!(waited < Duration::from_secs(9), "{waited:?}");
}
