//! Holders that were paused, and locks that other programs touch.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant, SystemTime};

use tenure_core::{Class, Error};
use tenure_files::Cancel;
use tenure_files::node_lock::NodeLock;

use crate::node::Node;
use crate::roles::holder;
use crate::scene::{STALE_AFTER, Scene, set_time};
use crate::stage::{LONG, until};

/// Takes the lock, and returns a channel that tells of its loss.
fn acquire_and_listen(scene: &Scene) -> (NodeLock, mpsc::Receiver<String>) {
    let (sender, told) = mpsc::channel();
    let tell = move |reason: &str| sender.send(reason.to_owned()).unwrap();
    let deadline = Instant::now() + LONG;
    let lock = NodeLock::acquire(
        &scene.document(),
        deadline,
        &Cancel::default(),
        Arc::new(tell),
    )
    .unwrap();
    (lock, told)
}

fn assert_lost(lock: &NodeLock, why: &str) {
    match lock.check() {
        Err(Error::Lost { reason, .. }) => assert!(reason.contains(why), "{reason}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_holder_paused_too_long_is_told_and_what_node_took_over_is_nodes() {
    let scene = Scene::new();
    let mut paused = holder(&scene.document());
    let (_, last_alive) = scene.lock().unwrap();
    paused.stop();
    let mut node = Node::hold(&scene.document());
    // A Node program that starts after the lock has become stale need not wait for it.
    let mut answer = node.answer();
    if answer == "busy" {
        answer = node.answer();
    }
    assert_eq!(answer, "held");
    assert!(SystemTime::now() > last_alive + STALE_AFTER);
    let (theirs, _) = scene.lock().unwrap();

    paused.signal(libc::SIGCONT);
    assert_eq!(paused.answer(), "told another program took it over");
    assert_eq!(paused.ask("verify"), "lost");
    assert_eq!(paused.ask("release"), "lost");

    // Node refreshes its lock every five seconds, whatever happens here meanwhile. At its next
    // refresh it looks at the lock first, and finds it untouched.
    let (_, before) = scene.lock().unwrap();
    until("a refresh by Node", || {
        let (inode, modified) = scene.lock().unwrap();
        assert_eq!(inode, theirs);
        modified != before
    });
    assert_eq!(node.answer_within(Duration::from_millis(100)), None);
    assert_eq!(node.release(), "released");
    paused.finish();
}

#[test]
fn a_holder_paused_too_long_does_not_trust_a_lock_that_nobody_took_yet() {
    let scene = Scene::new();
    let mut paused = holder(&scene.document());
    paused.stop();
    let over = Instant::now() + STALE_AFTER + Duration::from_millis(500);
    until("the end of the pause", || Instant::now() > over);
    paused.signal(libc::SIGCONT);
    let told = paused.answer();
    assert_eq!(
        told,
        "told it became more than 10s old, so that anyone may take it over"
    );
    assert_eq!(paused.ask("verify"), "lost");
    assert_eq!(paused.ask("release"), "lost");
    assert_eq!(scene.neighbours(), [""; 0], "nobody need wait for it");
}

#[test]
fn a_foreign_change_of_its_time_loses_the_lock_and_its_holder_is_told_once() {
    let scene = Scene::new();
    let (lock, told) = acquire_and_listen(&scene);
    lock.check().unwrap();
    let (_, time) = scene.lock().unwrap();
    set_time(&scene.lock_path(), time + Duration::from_millis(1));
    assert_lost(&lock, "changed the time");
    set_time(&scene.lock_path(), time);
    assert_lost(&lock, "changed the time");
    assert!(told.recv().unwrap().contains("changed the time"));
    // The sending end of the channel is gone, so the holder cannot be told again.
    assert!(told.recv().is_err());
    assert_eq!(lock.release().err().unwrap().class(), Class::Lost);
}

#[test]
fn a_removed_lock_is_lost() {
    let scene = Scene::new();
    let lock = scene.acquire().unwrap();
    fs::remove_dir(scene.lock_path()).unwrap();
    assert_lost(&lock, "gone");
}

#[test]
fn a_lock_removed_before_its_release_was_lost() {
    let scene = Scene::new();
    let lock = scene.acquire().unwrap();
    fs::remove_dir(scene.lock_path()).unwrap();
    assert_eq!(lock.release().err().unwrap().class(), Class::Lost);
}

/// Returns the time of an entry's last change; a rename counts.
fn last_change(path: &Path) -> (i64, i64) {
    let metadata = fs::metadata(path).unwrap();
    (metadata.ctime(), metadata.ctime_nsec())
}

#[test]
fn the_lock_of_whoever_took_over_is_not_touched() {
    let scene = Scene::new();
    for verify_first in [true, false] {
        let lock = scene.acquire().unwrap();
        fs::remove_dir(scene.lock_path()).unwrap();
        fs::create_dir(scene.lock_path()).unwrap();
        let theirs = scene.lock();
        let changed = last_change(&scene.lock_path());
        until("a later time of the file system", || {
            fs::write(scene.at("clock"), "").unwrap();
            last_change(&scene.at("clock")) != changed
        });
        fs::remove_file(scene.at("clock")).unwrap();
        if verify_first {
            assert_lost(&lock, "took it over");
        }
        assert_eq!(lock.release().err().unwrap().class(), Class::Lost);
        assert_eq!(scene.lock(), theirs);
        let now = last_change(&scene.lock_path());
        assert_eq!(now, changed, "it was moved away and back");
        assert_eq!(scene.neighbours(), ["data.json.lock"]);
        fs::remove_dir(scene.lock_path()).unwrap();
    }
}

#[test]
fn a_holder_that_never_looks_is_told_when_the_lock_is_to_be_refreshed() {
    let scene = Scene::new();
    let (lock, told) = acquire_and_listen(&scene);
    fs::remove_dir(scene.lock_path()).unwrap();
    fs::create_dir(scene.lock_path()).unwrap();
    let theirs = scene.lock();
    assert!(told.recv_timeout(LONG).unwrap().contains("took it over"));
    assert_eq!(scene.lock(), theirs);
    drop(lock);
    assert_eq!(scene.lock(), theirs);
}
