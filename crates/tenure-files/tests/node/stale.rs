//! Dead holders, times in the future, and locks that cannot be removed.

use std::fs;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use tenure_core::{Class, Error};
use tenure_files::Cancel;
use tenure_files::node_lock::{NodeLock, is_fresh};

use crate::node::Node;
use crate::scene::{STALE_AFTER, Scene, set_time};

/// The longest time from the moment a lock is stale to the moment it is ours: a pause between two
/// looks, the time to settle, and a busy machine.
const TAKE_OVER: Duration = Duration::from_secs(4);

/// Fails if the take-over is too late three times in a row: a slow machine is late now and then, a
/// wrong protocol always.
fn in_time(mut take_over: impl FnMut() -> Duration) {
    let late: Vec<Duration> = (0..3)
        .map(|_| take_over())
        .take_while(|late| *late >= TAKE_OVER)
        .collect();
    assert!(late.len() < 3, "{late:?} late");
}

#[test]
fn a_killed_node_holder_is_taken_over_after_10_seconds_and_not_before() {
    in_time(take_over_from_a_killed_node);
}

fn take_over_from_a_killed_node() -> Duration {
    let scene = Scene::new();
    let mut node = Node::hold(&scene.document());
    assert_eq!(node.answer(), "held");
    node.kill();
    let (_, last_alive) = scene.lock().unwrap();
    let stale = last_alive + STALE_AFTER;
    let lock = scene.acquire().unwrap();
    let now = SystemTime::now();
    assert!(
        now > stale,
        "taken over {:?} early",
        stale.duration_since(now)
    );
    lock.check().unwrap();
    assert_eq!(scene.neighbours(), ["data.json.lock"]);
    now.duration_since(stale).unwrap()
}

#[test]
fn a_dead_lock_from_the_future_is_taken_over_once_it_was_watched_for_12_seconds() {
    in_time(take_over_from_the_future);
}

fn take_over_from_the_future() -> Duration {
    let scene = Scene::new();
    fs::create_dir(scene.lock_path()).unwrap();
    set_time(&scene.lock_path(), SystemTime::now() + 1000 * STALE_AFTER);
    let started = tenure_os::clock::boot_now();
    let watched = Duration::from_secs(12);
    let lock = scene.acquire().unwrap();
    let waited = Duration::from_millis(tenure_os::clock::boot_now() - started);
    assert!(waited > watched, "{waited:?}");
    lock.check().unwrap();
    waited - watched
}

#[test]
fn a_lock_one_second_in_the_future_is_fresh_and_its_time_is_left_alone() {
    let scene = Scene::new();
    fs::create_dir(scene.lock_path()).unwrap();
    set_time(
        &scene.lock_path(),
        SystemTime::now() + Duration::from_secs(1),
    );
    let before = scene.lock();
    assert!(is_fresh(&scene.document()).unwrap());
    scene.assert_busy();
    assert_eq!(scene.lock(), before);
}

#[test]
fn a_stale_lock_is_taken_over_at_once_even_by_those_who_do_not_wait() {
    let scene = Scene::new();
    scene.leave_stale();
    assert!(!is_fresh(&scene.document()).unwrap());
    let lock = scene.acquire_within(Duration::ZERO).unwrap();
    let mut node = Node::hold(&scene.document());
    assert_eq!(node.answer(), "busy");
    lock.release().unwrap();
    assert_eq!(node.answer(), "held");
}

#[test]
fn a_stale_lock_with_files_in_it_is_named_and_left_as_it_is() {
    let scene = Scene::new();
    fs::create_dir(scene.lock_path()).unwrap();
    fs::write(scene.lock_path().join("notes"), "mine").unwrap();
    set_time(&scene.lock_path(), SystemTime::now() - 2 * STALE_AFTER);
    let before = scene.lock();
    let error = scene.acquire().err().unwrap();
    assert_eq!(error.class(), Class::BadInput, "{error}");
    assert!(matches!(&error, Error::Corrupt { path, .. } if *path == scene.lock_path()));
    assert_eq!(scene.lock(), before);
    let notes = fs::read_to_string(scene.lock_path().join("notes"));
    assert_eq!(notes.unwrap(), "mine");
    assert_eq!(scene.neighbours(), ["data.json.lock"]);
}

#[test]
fn what_is_no_directory_is_no_lock_and_is_left_as_it_is() {
    let scene = Scene::new();
    for make in [
        |path: &std::path::Path| fs::write(path, "").unwrap(),
        |path: &std::path::Path| std::os::unix::fs::symlink("/", path).unwrap(),
    ] {
        make(&scene.lock_path());
        let error = scene.acquire().err().unwrap();
        assert_eq!(error.class(), Class::BadInput, "{error}");
        assert!(
            !is_fresh(&scene.document()).unwrap(),
            "it is none of Node's"
        );
        fs::remove_file(scene.lock_path()).unwrap();
    }
}

#[test]
fn a_directory_that_may_not_be_written_or_is_not_there_is_said_so() {
    let scene = Scene::new();
    let missing = scene.at("missing/data.json");
    let deadline = Instant::now() + Duration::from_secs(1);
    let error = NodeLock::acquire(&missing, deadline, &Cancel::default(), Arc::new(|_| ()));
    let error = error.err().unwrap();
    assert!(matches!(error, Error::Io { .. }), "{error}");
    // The test gives up its rights in a thread of its own, with which the change ends.
    let denied = thread::scope(|scope| {
        let as_nobody = scope.spawn(|| {
            // SAFETY: the raw call changes this thread alone, and it only takes integers.
            let result = unsafe { libc::syscall(libc::SYS_setresuid, 65534, 65534, 65534) };
            assert_eq!(result, 0, "run this as root");
            scene.acquire_within(Duration::ZERO).err().unwrap()
        });
        as_nobody.join().unwrap()
    });
    assert!(matches!(&denied, Error::Io { source, .. }
        if source.kind() == std::io::ErrorKind::PermissionDenied));
}
