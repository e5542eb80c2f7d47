//! The seven concrete examples of seed 3, in their order.

use std::fs;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use tenure_files::document::Documents;
use tenure_lockfile::{FileLocker, LockGuard};

use crate::killed_at::Victim;
use crate::site::{Process, RAISE, assert_tidy, bytes, doc, done, names, put, read, refused};
use crate::world::{World, code, is_alive, until, until_exists};

/// Holds the lock of a reader, as a program in the middle of reading a document does.
fn reader(world: &World, document: &str) -> LockGuard {
    let lock = Documents::lock_file(&world.path(document)).unwrap();
    FileLocker::new(Duration::from_secs(5))
        .lock_shared(&lock)
        .unwrap()
}

/// A document with three members that must always be equal.
const TRIPLE: &str = "{\"a\":0,\"b\":0,\"c\":0}\n";
const RAISE_ALL: &str = ".a += 1 | .b += 1 | .c += 1";

#[test]
fn example_1_list_and_update_at_the_same_time_corrupt_nothing() {
    let world = World::new();
    put(&world, "a.json", TRIPLE);
    let update = format!(
        "for i in $(seq 20); do \"$TENURE\" doc update --wait 60s a.json -- jq '{RAISE_ALL}' || exit 1; done"
    );
    let mut writers = [(); 2].map(|()| Process::shell(&world, &update));
    let mut last = 0;
    while !writers.iter_mut().all(Process::is_over) {
        let found = read(&world, "a.json");
        assert_eq!(found["a"], found["b"], "torn: {found}");
        assert_eq!(found["b"], found["c"], "torn: {found}");
        let n = found["a"].as_u64().unwrap();
        assert!(n >= last, "{n} after {last}");
        last = n;
    }
    for writer in writers {
        assert_eq!(code(&writer.end()), 0);
    }
    assert_eq!(read(&world, "a.json"), json!({"a": 40, "b": 40, "c": 40}));
}

#[test]
fn example_2_a_board_that_follows_sees_a_story_that_is_created() {
    let world = World::new();
    put(&world, "work-units.json", "{\n  \"workUnits\": {}\n}\n");
    let board = Process::doc(&world, ["read", "--follow", "--json", "work-units.json"]);
    until("the board is there", || board.printed().ends_with('\n'));
    let create = ".workUnits[\"BOARD-001\"] = {\"status\": \"backlog\"}";
    done(&world, ["update", "work-units.json", "--", "jq", create]);
    until("the board sees it", || {
        board.printed().contains("BOARD-001")
    });
    for line in board.printed().lines() {
        serde_json::from_str::<Value>(line).unwrap();
    }
}

#[test]
fn example_3_three_reads_complete_and_one_write_waits_for_exclusive_access() {
    let world = World::new();
    put(&world, "a.json", "{\"n\":0}\n");
    done(&world, ["update", "a.json", "--", "cat"]);
    let mut readers = vec![(); 3]
        .into_iter()
        .map(|()| reader(&world, "a.json"))
        .collect::<Vec<_>>();
    let update = ["update", "--wait", "60s", "a.json"]
        .into_iter()
        .chain(RAISE);
    let mut writer = Process::doc(&world, update);
    writer.until_said("a.json");
    while let Some(reader) = readers.pop() {
        assert!(!writer.is_over(), "it waits for {} more", readers.len() + 1);
        assert_eq!(bytes(&world, "a.json"), "{\"n\":0}\n");
        drop(reader);
    }
    assert_eq!(code(&writer.end()), 0);
    assert_eq!(bytes(&world, "a.json"), "{\"n\":1}\n");
}

#[test]
fn example_4_after_a_crash_the_next_proceeds_at_once_and_after_10_s_where_node_shares() {
    let world = World::new();
    let work = "cat; touch $TENURE_DOCUMENT.in; exec sleep 600";
    let hold = |name: &str, options: &[&str]| {
        put(&world, name, "{\"n\":0}\n");
        let update = ["update"].into_iter().chain(options.iter().copied());
        let holder = Process::doc(&world, update.chain([name, "--", "sh", "-c", work]));
        until_exists(&world.path(&format!("{name}.in")));
        holder
    };
    let mut shared = hold("shared.json", &["--compat", "proper-lockfile"]);
    let mut own = hold("own.json", &[]);
    refused(
        &doc(&world, ["update", "--no-wait", "own.json", "--", "cat"]),
        75,
    );
    shared.kill();
    own.kill();
    // The kernel knows that the holder of this lock is dead.
    done(
        &world,
        ["update", "--no-wait", "own.json"].into_iter().chain(RAISE),
    );
    assert_eq!(bytes(&world, "own.json"), "{\"n\":1}\n");
    // Node's lock shows a death only by its age. The default wait bounds the take-over.
    let lock = world.path("shared.json.lock");
    let modified = fs::metadata(lock).unwrap().modified().unwrap();
    let update = ["update", "--compat", "proper-lockfile", "shared.json"];
    done(&world, update.into_iter().chain(RAISE));
    let age = SystemTime::now().duration_since(modified).unwrap();
    assert!(age >= Duration::from_secs(10), "not before: {age:?}");
    assert_eq!(bytes(&world, "shared.json"), "{\"n\":1}\n");
}

#[test]
fn example_5_an_atomic_write_that_crashes_leaves_the_original_intact() {
    let world = World::new();
    let place = Victim {
        world: &world,
        before: |world, directory| put(world, &format!("{directory}/a.json"), TRIPLE),
        arguments: &["doc", "update", "a.json", "--", "jq", RAISE_ALL],
    };
    let points = place.points();
    let is_rename = |line: &str| line.starts_with("rename") && line.contains("a.json\"");
    let rename = points
        .iter()
        .position(|point| is_rename(&point.line))
        .unwrap();
    // Everything is written, and only the last step is missing.
    let (directory, told) = place.kill(rename, &points[rename]);
    let name = format!("{directory}/a.json");
    assert!(!told);
    assert_eq!(bytes(&world, &name), TRIPLE);
    let left = names(&world.path(&directory));
    assert!(left.iter().any(|name| name.ends_with(".tmp")), "{left:?}");
    assert_eq!(done(&world, ["read", &name]), TRIPLE);
    done(&world, ["clean", "--yes", &name]);
    assert_tidy(&world.path(&directory), &["a.json"]);
    assert_eq!(bytes(&world, &name), TRIPLE);
}

#[test]
fn example_6_two_reads_in_one_process_share_and_so_do_those_of_others() {
    let world = World::new();
    put(&world, "a.json", "{\"n\":0}\n");
    done(&world, ["update", "a.json", "--", "cat"]);
    let first = reader(&world, "a.json");
    let second = reader(&world, "a.json");
    // Both reads are held; more reads share with them, in this process and in others.
    let documents = Documents::new(Duration::ZERO);
    let content = documents.read(&world.path("a.json")).unwrap();
    assert_eq!(content.text().unwrap(), "{\"n\":0}\n");
    assert_eq!(done(&world, ["read", "--no-wait", "a.json"]), "{\"n\":0}\n");
    refused(
        &doc(&world, ["update", "--no-wait", "a.json", "--", "cat"]),
        75,
    );
    drop((first, second));
    done(&world, ["update", "--no-wait", "a.json", "--", "cat"]);
}

#[test]
fn example_7_a_write_while_a_read_is_active_waits_for_the_reader_to_finish() {
    let world = World::new();
    put(&world, "a.json", "{\"n\":0}\n");
    done(&world, ["update", "a.json", "--", "cat"]);
    let reading = reader(&world, "a.json");
    let update = [
        "update",
        "--wait",
        "60s",
        "a.json",
        "--",
        "sh",
        "-c",
        "touch in; jq '.n += 1'",
    ];
    let mut writer = Process::doc(&world, update);
    // The writer tells whom it waits for.
    writer.until_said(&std::process::id().to_string());
    assert!(!world.path("in").exists(), "its command has not begun");
    assert!(!writer.is_over() && is_alive(writer.id()));
    drop(reading);
    assert_eq!(code(&writer.end()), 0);
    assert_eq!(bytes(&world, "a.json"), "{\"n\":1}\n");
}
