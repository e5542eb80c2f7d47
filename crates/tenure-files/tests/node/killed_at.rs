//! SIGKILL at every system call of taking and releasing the lock.
//!
//! A process is traced once, to list the calls it makes. Then it is started anew for each of them,
//! and killed instead of making it. After that the lock must be free, or one that Node takes over
//! once it is stale.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::time::SystemTime;

use tenure_files::node_lock::{document_of_leftover, is_fresh};

use crate::node::Node;
use crate::process::Child;
use crate::scene::{OLD, Scene, set_time};
use crate::stage::{LONG, Stage};

const CALLS: &str = "mkdir,mkdirat,open,openat,utimensat,stat,lstat,newfstatat,statx,\
                     rename,renameat,renameat2,rmdir,unlinkat";

/// The n-th system call of a kind that a thread makes.
#[derive(Debug, PartialEq, Eq)]
struct Point {
    call: String,
    number: usize,
}

/// The state of the lock before a process wants it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    Free,
    Stale,
}

fn scene(before: Before) -> Scene {
    let scene = Scene::new();
    if before == Before::Stale {
        scene.leave_stale();
    }
    scene
}

/// Takes and releases the lock under strace. Returns false if the process was killed.
fn once(options: &[&str], scene: &Scene) -> bool {
    let command = [&["strace", "-f", "-qq"], options].concat();
    let document = scene.document();
    let mut child = Child::start_under(&command, "once", &[document.to_str().unwrap()]);
    match child.answer_within(LONG) {
        Some(answer) => answer == "released",
        None => false,
    }
}

/// Returns the calls of an undisturbed process, from the first on the lock to the last.
fn points(before: Before) -> Vec<Point> {
    let scene = scene(before);
    let stage = Stage::new();
    let trace = stage.at("trace");
    let filter = format!("trace={CALLS}");
    assert!(once(
        &["-o", trace.to_str().unwrap(), "-e", &filter],
        &scene
    ));
    let trace = fs::read_to_string(trace).unwrap();
    let lock = scene.lock_path().display().to_string();
    let mut numbers = HashMap::new();
    let mut points = Vec::new();
    let mut last = 0;
    for line in trace.lines() {
        // A line reads "1234  mkdir("/..." or "1234  <... mkdir resumed>".
        let Some((thread, call)) = line.split_once(' ') else {
            continue;
        };
        let Some((call, _)) = call.trim_start().split_once('(') else {
            continue;
        };
        let number = numbers.entry((thread, call)).or_insert(0);
        *number += 1;
        if line.contains(&lock) || !points.is_empty() {
            let (call, number) = (call.to_owned(), *number);
            points.push(Point { call, number });
        }
        if line.contains(&lock) {
            last = points.len();
        }
    }
    points.truncate(last);
    // A point is left out if another thread makes as many calls of its kind: strace might kill at
    // that one.
    let found = points.len();
    points.retain(|Point { call, number }| {
        let same = numbers.iter().filter(|((_, other), _)| other == call);
        same.filter(|(_, made)| *made >= number).count() == 1
    });
    assert!(
        2 * points.len() > found,
        "{} of {found}: {trace}",
        points.len()
    );
    for call in ["mkdir", "utimensat", "renameat2", "rmdir"] {
        assert!(points.iter().any(|point| point.call == call), "{trace}");
    }
    points
}

#[test]
fn what_a_process_killed_at_any_system_call_leaves_is_taken_over_by_node() {
    let mut kills = 0;
    let mut locks = 0;
    for before in [Before::Free, Before::Stale] {
        let points = points(before);
        for point in &points {
            let scene = scene(before);
            let Point { call, number } = point;
            let filter = format!("trace={call}");
            let inject = format!("inject={call}:signal=KILL:when={number}");
            let released = once(&["-o", "/dev/null", "-e", &filter, "-e", &inject], &scene);
            assert!(!released, "not killed at {point:?}");
            kills += 1;

            let document = scene.document();
            let document = document.file_name().unwrap();
            for name in scene.neighbours() {
                let known = name == "data.json.lock"
                    || document_of_leftover(OsStr::new(&name)) == Some(document);
                assert!(known, "{name} after a kill at {point:?}");
            }
            if is_fresh(&scene.document()).unwrap() {
                locks += 1;
                set_time(&scene.lock_path(), SystemTime::now() - OLD);
            }
            let mut node = Node::hold(&scene.document());
            // A lock that were neither free nor stale would make Node say "busy" first.
            assert_eq!(node.answer(), "held", "after a kill at {point:?}");
            assert_eq!(node.release(), "released");
            scene.acquire().unwrap().release().unwrap();
        }
    }
    println!("killed {kills} times, {locks} times while it held the lock");
    // Between the two renames the process holds the lock: at the looks of verifying and releasing,
    // and at the second rename. After a take-over it looks once more.
    assert!(locks >= 3 + 4, "{locks} of {kills}");
}
