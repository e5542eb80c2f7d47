//! Looking at locks, and the records of their holders.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use tenure_core::{Binding, LeaseState, Mode, Query, Store};
use tenure_lockfile::{FileStore, holders, look};
use tenure_os::clock;

use crate::process::{Child, LockingProcess, hear, say};
use crate::stage::{Stage, StopWhenDropped, patient, until_waiting};
use crate::task::{acquire, open, request, run, try_acquire};

/// Plays a role: looks at a lock file and lists a store until its input ends.
pub fn play(arguments: &[&str]) {
    let [path, store] = arguments else {
        panic!("{arguments:?}")
    };
    let store = FileStore::open(Path::new(store), false).unwrap();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let stopping = StopWhenDropped(&stop);
        scope.spawn(|| {
            while !stop.load(Ordering::SeqCst) {
                look(Path::new(path)).unwrap();
                run(store.list(&Query::default())).unwrap();
            }
        });
        say("looking");
        hear();
        drop(stopping);
    });
}

#[test]
fn no_try_ever_fails_because_someone_looks() {
    let stage = Stage::new();
    let store = open(&stage);
    let wanted = request("l1", "build", Mode::Write);
    let path = store.path_of(&wanted.resource);
    let arguments = [path.to_str().unwrap(), stage.at("store").to_str().unwrap()].map(String::from);
    let mut child = Child::start("look-for-ever", &[&arguments[0], &arguments[1]]);
    assert_eq!(child.answer(), "looking");
    let locker = patient();
    let (stop, looks) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let stopping = StopWhenDropped(&stop);
        scope.spawn(|| {
            while !stop.load(Ordering::SeqCst) {
                holders(&path).unwrap();
                run(store.list(&Query::default())).unwrap();
                looks.fetch_add(1, Ordering::SeqCst);
            }
        });
        let modes = [Mode::Write, Mode::Upgradeable, Mode::Read];
        let mut rounds = 0;
        while rounds < 1000 || looks.load(Ordering::SeqCst) < 1000 {
            for mode in modes {
                assert!(
                    locker.try_lock(&path, mode).unwrap().is_some(),
                    "looking made it busy"
                );
            }
            assert!(run(try_acquire(&store, &wanted)).unwrap().is_some());
            run(store.release(&wanted.lease)).unwrap();
            rounds += 1;
        }
        drop(stopping);
    });
    child.finish();
}

#[test]
fn several_readers_are_listed_at_once_with_all_that_is_known_of_them() {
    let stage = Stage::new();
    let store = open(&stage);
    let before = clock::now();
    let mut wanted = request("l1", "build", Mode::Read);
    wanted.metadata = Some(serde_json::json!({"ticket": 7}));
    let path = store.path_of(&wanted.resource);
    run(acquire(&store, &wanted)).unwrap();
    wanted.lease = "l2".parse().unwrap();
    run(acquire(&store, &wanted)).unwrap();
    wanted.mode = Mode::Upgradeable;
    wanted.lease = "l3".parse().unwrap();
    run(acquire(&store, &wanted)).unwrap();
    let mut puppet = LockingProcess::new();
    puppet.lock(Mode::Read, &path);
    let seen = look(&path).unwrap().unwrap();
    assert_eq!(
        (seen.holders.len(), seen.unreadable, seen.left_over),
        (4, 0, 0)
    );
    for record in &seen.holders {
        assert_eq!(record.boot_id, clock::boot_id().unwrap());
        let lease = &record.lease;
        assert_eq!(
            (lease.binding, lease.state),
            (Binding::Session, LeaseState::Held)
        );
        assert_eq!(lease.expires_at, None);
        assert!(lease.acquired_at >= before && lease.acquired_at <= clock::now());
        if lease.pid == puppet.child().id() {
            assert!(lease.command.contains("--exact"), "{}", lease.command);
            assert_eq!(
                lease.host,
                rustix::system::uname().nodename().to_str().unwrap()
            );
            assert!(record.process_start > clock::process_start());
        } else {
            assert_eq!(lease.pid, std::process::id());
            assert_eq!(record.process_start, clock::process_start());
            assert_eq!(
                (lease.owner.as_str(), lease.host.as_str()),
                ("ana@desk", "desk")
            );
            assert_eq!(
                (lease.command.as_str(), lease.session.as_str()),
                ("make all", "the-session")
            );
            assert_eq!(lease.purpose.as_deref(), Some("a test"));
            assert_eq!(lease.metadata, wanted.metadata);
            assert_eq!(lease.resource, wanted.resource);
        }
    }
    assert_eq!(
        seen.holders
            .iter()
            .filter(|r| r.lease.mode == Mode::Upgradeable)
            .count(),
        1
    );
    let listed = run(store.list(&Query::default())).unwrap();
    assert_eq!(listed.waiting, None, "this store cannot know who waits");
    assert_eq!(listed.held.len(), 4);
}

#[test]
fn a_holder_is_seen_whole_while_it_renews() {
    let stage = Stage::new();
    let store = open(&stage);
    let wanted = request("l1", "build", Mode::Write);
    let path = store.path_of(&wanted.resource);
    let granted = run(acquire(&store, &wanted)).unwrap();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let stopping = StopWhenDropped(&stop);
        scope.spawn(|| {
            while !stop.load(Ordering::SeqCst) {
                run(store.renew(&granted.lease)).unwrap();
            }
        });
        for _ in 0..2000 {
            let seen = look(&path).unwrap().unwrap();
            assert_eq!(
                (seen.holders.len(), seen.unreadable, seen.left_over),
                (1, 0, 0)
            );
            assert_eq!(seen.holders[0].lease.lease, granted.lease);
            assert_eq!(seen.token, granted.token);
        }
        drop(stopping);
    });
}

#[test]
fn a_holder_is_seen_once_while_it_upgrades_and_downgrades() {
    let stage = Stage::new();
    let path = stage.lock();
    let mut guard = patient().lock_upgradeable(&path).unwrap();
    let lease = guard.lease().lease.clone();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let stopping = StopWhenDropped(&stop);
        let turning = scope.spawn(|| {
            while !stop.load(Ordering::SeqCst) {
                assert!(
                    guard.try_upgrade().unwrap().is_some(),
                    "looking made it busy"
                );
                guard.downgrade().unwrap();
            }
        });
        for _ in 0..2000 {
            let seen = look(&path).unwrap().unwrap();
            assert_eq!(seen.unreadable, 0);
            // The two slots are looked at one after the other, so the holder can be missed.
            assert!(seen.holders.len() <= 1);
            assert!(
                seen.holders
                    .iter()
                    .all(|record| record.lease.lease == lease)
            );
        }
        drop(stopping);
        turning.join().unwrap();
    });
}

#[test]
fn a_writer_that_let_go_is_not_listed_beside_the_next_reader() {
    only_the_next_is_listed(Mode::Read);
}

#[test]
fn a_writer_that_let_go_is_not_listed_in_the_place_of_the_next() {
    only_the_next_is_listed(Mode::Write);
}

/// Asserts that a holder that looks as soon as it has the lock no longer sees the one before.
fn only_the_next_is_listed(mode: Mode) {
    let stage = Stage::new();
    let path = stage.lock();
    let (one, other) = (patient(), patient());
    for _ in 0..300 {
        let writer = one.lock_exclusive(&path).unwrap();
        thread::scope(|scope| {
            let next = scope.spawn(|| {
                let next = other.lock(&path, mode).unwrap();
                let listed = holders(&path).unwrap();
                let listed: Vec<_> = listed.into_iter().map(|held| held.lease).collect();
                assert_eq!(listed, [next.lease().lease]);
            });
            until_waiting(&path, 1);
            drop(writer);
            next.join().unwrap();
        });
    }
}

#[test]
fn looking_creates_nothing() {
    let stage = Stage::new();
    assert!(look(&stage.lock()).unwrap().is_none());
    assert_eq!(holders(&stage.at("missing/x.lock")).unwrap(), []);
    assert_eq!(std::fs::read_dir(stage.path()).unwrap().count(), 0);
}
