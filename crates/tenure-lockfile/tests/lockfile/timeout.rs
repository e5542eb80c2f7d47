//! Waits that end in the instant of the grant.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tenure_core::{Error, Mode};
use tenure_lockfile::{FileLocker, holders};

use crate::process::alone;
use crate::stage::{ProcessResources, RandomNumbers, Stage, patient, spin, waits_in_kernel};

const ROUNDS: u64 = 600;

/// Lets a holder let go at about the time at which a waiter gives up.
fn at_the_same_time(mode: Mode) {
    let stage = Stage::new();
    let path = stage.lock();
    let locker = patient();
    drop(locker.lock_exclusive(&path).unwrap());
    let before = ProcessResources::count();
    let mut spread = RandomNumbers::new();
    let (mut granted, mut ended) = (0, 0);
    for _ in 0..ROUNDS {
        let (held, wait) = (spread.micros_below(400), spread.micros_below(800));
        let (sender, started) = mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(|| {
                let guard = locker.lock_exclusive(&path).unwrap();
                sender.send(()).unwrap();
                spin(held);
                drop(guard);
            });
            started.recv().unwrap();
            let impatient = FileLocker::new(wait);
            match impatient.lock(&path, mode) {
                Ok(guard) => {
                    granted += 1;
                    assert!(!holders(&path).unwrap().is_empty());
                    drop(guard);
                }
                Err(Error::Timeout { waited, .. }) => {
                    ended += 1;
                    assert!(waited >= wait);
                }
                Err(error) => panic!("{error}"),
            }
        });
        assert_eq!(holders(&path).unwrap(), [], "a phantom");
        let free = locker.try_lock_exclusive(&path).unwrap();
        assert!(free.is_some(), "a phantom holds it or waits for it");
    }
    assert!(granted > 0 && ended > 0, "granted {granted}, ended {ended}");
    assert_eq!(waits_in_kernel(&path), 0);
    before.until_no_more_than_before();
}

#[test]
fn a_timeout_in_the_instant_of_an_exclusive_grant_leaves_no_phantom() {
    alone(|| at_the_same_time(Mode::Write));
}

#[test]
fn a_timeout_in_the_instant_of_a_shared_grant_leaves_no_phantom() {
    alone(|| at_the_same_time(Mode::Read));
}

#[test]
fn an_upgrade_that_ends_in_the_instant_of_the_grant_is_one_or_the_other() {
    alone(|| {
        let stage = Stage::new();
        let path = stage.lock();
        let (locker, reader) = (patient(), patient());
        let mut guard = locker.lock_upgradeable(&path).unwrap();
        drop(reader.lock_shared(&path).unwrap());
        let before = ProcessResources::count();
        let mut spread = RandomNumbers::new();
        let (mut granted, mut ended) = (0, 0);
        for _ in 0..ROUNDS {
            let (held, wait) = (spread.micros_below(400), spread.micros_below(800));
            let (sender, started) = mpsc::channel();
            thread::scope(|scope| {
                scope.spawn(|| {
                    let read = reader.lock_shared(&path).unwrap();
                    sender.send(()).unwrap();
                    spin(held);
                    drop(read);
                });
                started.recv().unwrap();
                if guard.upgrade(wait).unwrap().is_some() {
                    granted += 1;
                    assert!(reader.try_lock_shared(&path).unwrap().is_none());
                    guard.downgrade().unwrap();
                } else {
                    ended += 1;
                }
            });
            assert_eq!(guard.mode(), Mode::Upgradeable);
            assert_eq!(holders(&path).unwrap().len(), 1);
            assert!(reader.try_lock_shared(&path).unwrap().is_some());
            assert!(reader.try_lock_exclusive(&path).unwrap().is_none());
        }
        assert!(granted > 0 && ended > 0, "granted {granted}, ended {ended}");
        before.until_no_more_than_before();
        drop(guard);
        assert!(reader.try_lock_exclusive(&path).unwrap().is_some());
    });
}

#[test]
fn a_crowd_that_gives_up_leaves_no_thread_and_no_descriptor() {
    alone(|| {
        let stage = Stage::new();
        let path = stage.lock();
        let (holder, locker) = (patient(), FileLocker::new(Duration::from_millis(30)));
        let held = holder.lock_exclusive(&path).unwrap();
        // The locker keeps one open file for its next lock.
        assert!(locker.try_lock_exclusive(&path).unwrap().is_none());
        let before = ProcessResources::count();
        thread::scope(|scope| {
            for place in 0..30 {
                let (locker, path) = (&locker, &path);
                scope.spawn(move || {
                    let mode = [Mode::Read, Mode::Write, Mode::Upgradeable][place % 3];
                    assert!(locker.lock(path, mode).is_err());
                });
            }
        });
        before.until_no_more_than_before();
        drop(held);
        assert!(locker.try_lock_exclusive(&path).unwrap().is_some());
    });
}
