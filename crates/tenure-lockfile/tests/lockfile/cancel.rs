//! Waits that are cancelled: in the kernel, in the queue, in the instant of the grant.

use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use tenure_core::{Error, Mode, Result};
use tenure_lockfile::{Cancel, FileLocker, LockGuard, holders};

use crate::fork::forked;
use crate::process::alone;
use crate::stage::{LONG, ProcessResources, RandomNumbers, Stage, patient, spin, until_waiting};

const ROUNDS: u64 = 600;
const MODES: [Mode; 3] = [Mode::Write, Mode::Read, Mode::Upgradeable];

fn assert_interrupted(path: &Path, locked: Result<LockGuard>) {
    match locked {
        Err(Error::Interrupted { resource, .. }) => {
            assert_eq!(resource.to_string(), format!("file:{}", path.display()));
        }
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it was granted"),
    }
}

#[test]
fn waits_in_the_kernel_and_in_the_queue_end_and_leave_nothing() {
    alone(|| {
        let stage = Stage::new();
        let path = stage.lock();
        let (holder, locker) = (patient(), patient());
        for mode in MODES {
            let cancel = Cancel::default();
            let held = holder.lock_exclusive(&path).unwrap();
            assert!(locker.try_lock(&path, mode).unwrap().is_none());
            let before = ProcessResources::count();
            let started = Instant::now();
            thread::scope(|scope| {
                // The first waits in the kernel, the others in the queue.
                let waiting = [(); 3].map(|()| {
                    let cancelled = locker.clone().cancelled_by(cancel.clone());
                    let path = &path;
                    scope.spawn(move || cancelled.lock(path, mode))
                });
                until_waiting(&path, 1);
                cancel.cancel();
                for waiting in waiting {
                    assert_interrupted(&path, waiting.join().unwrap());
                }
            });
            assert!(started.elapsed() < LONG);
            until_waiting(&path, 0);
            before.until_no_more_than_before();
            drop(held);
            assert_eq!(holders(&path).unwrap(), []);
            assert!(locker.try_lock_exclusive(&path).unwrap().is_some());
        }
    });
}

#[test]
fn a_cancelled_waiter_lets_the_next_of_its_process_move_up() {
    let stage = Stage::new();
    let path = stage.lock();
    let (holder, locker, cancel) = (patient(), patient(), Cancel::default());
    let held = holder.lock_exclusive(&path).unwrap();
    let cancelled = locker.clone().cancelled_by(cancel.clone());
    thread::scope(|scope| {
        let first = scope.spawn(|| cancelled.lock_exclusive(&path));
        until_waiting(&path, 1);
        let second = scope.spawn(|| locker.lock_exclusive(&path).unwrap());
        cancel.cancel();
        assert_interrupted(&path, first.join().unwrap());
        until_waiting(&path, 1);
        drop(held);
        assert_eq!(second.join().unwrap().mode(), Mode::Write);
    });
}

#[test]
fn a_lock_that_needs_no_wait_is_taken_however_cancelled() {
    let stage = Stage::new();
    let (path, cancel) = (stage.lock(), Cancel::default());
    cancel.cancel();
    let locker = patient().cancelled_by(cancel);
    let held = locker.lock_exclusive(&path).unwrap();
    assert_interrupted(&path, locker.lock_exclusive(&path));
    drop(held);
    drop(locker.lock_shared(&path).unwrap());
}

#[test]
fn a_cancelled_upgrade_leaves_the_lock_upgradeable() {
    let stage = Stage::new();
    let (path, cancel) = (stage.lock(), Cancel::default());
    let (locker, reader) = (patient().cancelled_by(cancel.clone()), patient());
    let mut guard = locker.lock_upgradeable(&path).unwrap();
    let read = reader.lock_shared(&path).unwrap();
    thread::scope(|scope| {
        let upgrading = scope.spawn(|| guard.upgrade(LONG));
        until_waiting(&path, 1);
        cancel.cancel();
        let upgraded = upgrading.join().unwrap();
        assert!(matches!(upgraded, Err(Error::Interrupted { .. })));
    });
    until_waiting(&path, 0);
    assert_eq!(guard.mode(), Mode::Upgradeable);
    assert!(reader.try_lock_shared(&path).unwrap().is_some());
    drop(read);
    assert!(guard.try_upgrade().unwrap().is_some());
}

/// Lets a holder let go at about the time at which a waiter is cancelled.
fn at_the_same_time(mode: Mode) {
    let stage = Stage::new();
    let path = stage.lock();
    let locker = patient();
    drop(locker.lock_exclusive(&path).unwrap());
    let before = ProcessResources::count();
    let mut spread = RandomNumbers::new();
    let (mut granted, mut ended) = (0, 0);
    for _ in 0..ROUNDS {
        let (held, wait) = (spread.micros_below(400), spread.micros_below(400));
        let cancel = Cancel::default();
        let (sender, started) = mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(|| {
                let guard = locker.lock_exclusive(&path).unwrap();
                sender.send(()).unwrap();
                spin(held);
                drop(guard);
            });
            started.recv().unwrap();
            scope.spawn(|| {
                spin(wait);
                cancel.cancel();
            });
            let waiter = FileLocker::new(LONG).cancelled_by(cancel.clone());
            match waiter.lock(&path, mode) {
                Ok(guard) => {
                    granted += 1;
                    assert!(!holders(&path).unwrap().is_empty());
                    drop(guard);
                }
                Err(Error::Interrupted { .. }) => ended += 1,
                Err(error) => panic!("{error}"),
            }
        });
        assert_eq!(holders(&path).unwrap(), [], "a phantom");
        let free = locker.try_lock_exclusive(&path).unwrap();
        assert!(free.is_some(), "a phantom holds it or waits for it");
    }
    assert!(granted > 0 && ended > 0, "granted {granted}, ended {ended}");
    until_waiting(&path, 0);
    before.until_no_more_than_before();
}

#[test]
fn a_cancellation_in_the_instant_of_an_exclusive_grant_leaves_no_phantom() {
    alone(|| at_the_same_time(Mode::Write));
}

#[test]
fn a_cancellation_in_the_instant_of_a_shared_grant_leaves_no_phantom() {
    alone(|| at_the_same_time(Mode::Read));
}

#[test]
fn a_cancelled_wait_ends_in_a_forked_child_too() {
    alone(|| {
        let stage = Stage::new();
        let path = stage.lock();
        let holder = patient();
        let held = holder.lock_exclusive(&path).unwrap();
        let (locker, cancel) = (patient(), Cancel::default());
        let cancelled = locker.clone().cancelled_by(cancel.clone());
        thread::scope(|scope| {
            // This wait is the parent's; the child inherits its waker and must not touch it.
            let waiting = scope.spawn(|| cancelled.lock_exclusive(&path));
            until_waiting(&path, 1);
            let child = forked(|| {
                cancel.cancel();
                let fresh = Cancel::default();
                let waiter = patient().cancelled_by(fresh.clone());
                thread::scope(|scope| {
                    let waiting = scope.spawn(|| waiter.lock_exclusive(&path));
                    until_waiting(&path, 2);
                    fresh.cancel();
                    assert_interrupted(&path, waiting.join().unwrap());
                });
            });
            child.join();
            cancel.cancel();
            assert_interrupted(&path, waiting.join().unwrap());
        });
        drop(held);
    });
}
