//! Documents shared with Node programs, which use the real `proper-lockfile`.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use serde_json::json;
use tenure_lockfile::FileLocker;

use crate::site::{Process, assert_tidy, bytes, doc, done, names, put, read, refused};
use crate::world::{World, code, signal, until};

/// The arguments of `tenure doc update` with Node's lock taken, too.
const UPDATE: [&str; 4] = ["update", "--compat", "proper-lockfile", "a.json"];
const COMPAT: &str = "--compat proper-lockfile";

/// The age at which the lock of a dead program is over.
const STALE_AFTER: Duration = Duration::from_secs(10);

/// Longer than a crowd needs, on a busy machine too.
const CROWD: Duration = Duration::from_secs(120);

/// Returns the directory of the Node programs.
fn peers() -> PathBuf {
    let peers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tenure-files/tests/node");
    assert!(
        peers.join("node_modules/proper-lockfile").is_dir(),
        "proper-lockfile is not installed: run ./test, or `npm install --no-package-lock \
         --ignore-scripts` in {}",
        peers.display()
    );
    peers
}

/// Starts a Node program on a document; it goes on until its input ends.
pub fn node(world: &World, script: &str, document: &str, arguments: &[&str]) -> Process {
    let mut command = Command::new("node");
    world.prepare(&mut command);
    command.arg(peers().join(script)).arg(world.path(document));
    Process::start(command.args(arguments).stdin(Stdio::piped()))
}

/// Starts a Node program that holds the lock of a document.
fn node_holder(world: &World, document: &str) -> Process {
    let holder = node(world, "hold.js", document, &[]);
    until("Node holds the lock", || holder.printed().contains("held"));
    holder
}

/// Returns the age of a lock by its time, or zero if that is in the future.
fn age(modified: SystemTime) -> Duration {
    modified.elapsed().unwrap_or_default()
}

#[test]
fn no_update_of_8_of_ours_and_8_node_programs_is_lost() {
    const TIMES: usize = 10;
    let world = World::new();
    put(&world, "a.json", "{\n  \"n\": 0\n}\n");
    let script = format!(
        "for i in $(seq {TIMES}); do \
         \"$TENURE\" doc update {COMPAT} --wait 120s a.json -- jq '.n += 1' || exit 1; done"
    );
    let times = TIMES.to_string();
    let crowd: Vec<Process> = (0..16)
        .map(|number| match number % 2 {
            0 => Process::shell(&world, &script),
            _ => node(&world, "counter.js", "a.json", &[&times]),
        })
        .collect();
    for process in crowd {
        let output = process.end_within(CROWD);
        assert_eq!(code(&output), 0, "{output:?}");
    }
    assert_eq!(read(&world, "a.json"), json!({ "n": 16 * TIMES }));
    done(&world, ["clean", "--yes", "a.json"]);
    assert_tidy(&world.path(""), &["a.json"]);
}

#[test]
fn a_killed_node_holder_is_taken_over_10_s_after_its_last_sign_of_life_and_not_before() {
    let world = World::new();
    put(&world, "a.json", "{\"n\":0}\n");
    let mut holder = node_holder(&world, "a.json");
    holder.kill();
    let lock = world.path("a.json.lock");
    let modified = fs::metadata(&lock).unwrap().modified().unwrap();
    // The default wait of the command, which bounds the take-over, is enough. Its own command shows
    // when the lock was granted.
    let update = Process::doc(
        &world,
        UPDATE
            .into_iter()
            .chain(["--", "sh", "-c", "touch in; cat"]),
    );
    until("it is granted", || {
        // The age is taken before the look, so that a grant after the look is not blamed.
        let old = age(modified);
        let granted = world.path("in").exists();
        assert!(
            !granted || age(modified) >= STALE_AFTER,
            "granted after {old:?}"
        );
        granted
    });
    let output = update.end();
    assert_eq!(code(&output), 0, "{output:?}");
    assert!(!lock.exists(), "its lock is given back");
    done(&world, ["clean", "--yes", "a.json"]);
    assert_tidy(&world.path(""), &["a.json", "in"]);
}

#[test]
fn a_signal_while_waiting_for_node_is_130_and_leaves_only_the_lock_of_node() {
    let world = World::new();
    put(&world, "a.json", "{\"n\":0}\n");
    let holder = node_holder(&world, "a.json");
    for number in [libc::SIGINT, libc::SIGTERM] {
        let wait = ["--wait", "60s", "--", "touch", "ran"];
        let update = Process::doc(&world, UPDATE.into_iter().chain(wait));
        update.until_said("a.json.lock");
        signal(update.id(), number);
        let said = refused(&update.end(), 130);
        assert!(
            said.contains("interrupted while waiting for document /"),
            "{said}"
        );
        let left = names(&world.path(""));
        assert_eq!(left, [".a.json.lock", "a.json", "a.json.lock"]);
        let ours = world.path(".a.json.lock");
        let free = FileLocker::new(Duration::ZERO).try_lock_exclusive(&ours);
        assert!(free.unwrap().is_some(), "our own lock is held");
    }
    drop(holder);
    done(&world, UPDATE.into_iter().chain(["--", "jq", ".n += 1"]));
    assert_eq!(read(&world, "a.json"), json!({ "n": 1 }));
}

#[test]
fn a_live_node_holder_keeps_ours_out_until_it_releases() {
    let world = World::new();
    put(&world, "a.json", "{\"n\":0}\n");
    let mut holder = node_holder(&world, "a.json");
    let no_wait = UPDATE.into_iter().chain(["--no-wait", "--", "cat"]);
    let said = refused(&doc(&world, no_wait), 75);
    assert!(said.contains("a.json.lock"), "{said}");
    // A command that does not ask for Node's lock does not come between, either.
    let said = refused(&doc(&world, ["update", "a.json", "--", "cat"]), 76);
    assert!(said.contains("--compat proper-lockfile"), "{said}");
    let update = Process::doc(&world, UPDATE.into_iter().chain(["--", "jq", ".n += 1"]));
    update.until_said("a.json.lock");
    assert_eq!(bytes(&world, "a.json"), "{\"n\":0}\n");
    holder.close_input();
    assert_eq!(code(&update.end()), 0);
    assert_eq!(bytes(&world, "a.json"), "{\"n\":1}\n");
    assert_eq!(code(&holder.end()), 0, "Node was not disturbed");
    assert_tidy(&world.path(""), &["a.json"]);
}

#[test]
fn two_of_ours_that_find_one_stale_lock_take_it_over_one_after_the_other() {
    let world = World::new();
    put(&world, "a.json", "{\"n\":0}\n");
    // The script notes when it comes and goes: the second must not come before the first has gone.
    let script = format!(
        "\"$TENURE\" doc update {COMPAT} a.json -- \
         sh -c 'echo in >>log; jq \".n += 1\"; echo out >>log'"
    );
    for round in 1..=5 {
        let lock = world.path("a.json.lock");
        fs::create_dir(&lock).unwrap();
        let long_ago = SystemTime::now() - Duration::from_secs(60);
        File::open(&lock).unwrap().set_modified(long_ago).unwrap();
        let both = [(); 2].map(|()| Process::shell(&world, &script));
        for process in both {
            let output = process.end();
            assert_eq!(code(&output), 0, "{output:?}");
        }
        assert_eq!(read(&world, "a.json"), json!({ "n": 2 * round }));
        assert!(!lock.exists(), "given back");
    }
    assert_eq!(bytes(&world, "log"), "in\nout\n".repeat(10));
    done(&world, ["clean", "--yes", "a.json"]);
    assert_tidy(&world.path(""), &["a.json", "log"]);
}

#[test]
fn documents_shared_with_node_cannot_join_a_transaction_over_several() {
    let world = World::new();
    put(&world, "a.json", "{}\n");
    put(&world, "b.json", "{}\n");
    let update = UPDATE.into_iter().chain(["b.json", "--", "cat"]);
    let said = refused(&doc(&world, update), 76);
    assert!(said.contains("Node"), "{said}");
    assert_tidy(&world.path(""), &["a.json", "b.json"]);
}
