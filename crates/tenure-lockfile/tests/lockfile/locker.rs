//! The locker as its users know it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tenure_core::duration::DURATION_MAX;
use tenure_core::{Class, Error, Mode};
use tenure_lockfile::{FileLocker, holders};

use crate::process::LockingProcess;
use crate::stage::{LONG, Stage, patient, until_waiting, waits_in_kernel};

#[test]
fn an_exclusive_lock_prevents_concurrent_writes() {
    let stage = Stage::new();
    let path = stage.lock();
    let locker = patient();
    let guard = locker.lock_exclusive(&path).unwrap();
    let released = AtomicBool::new(false);
    thread::scope(|scope| {
        let second = scope.spawn(|| {
            let _guard = locker.lock_exclusive(&path).unwrap();
            assert!(released.load(Ordering::SeqCst), "two hold it");
        });
        until_waiting(&path, 1);
        released.store(true, Ordering::SeqCst);
        drop(guard);
        second.join().unwrap();
    });
}

#[test]
fn every_pair_of_modes_shares_or_excludes_as_the_matrix_says() {
    use Mode::{Read, Upgradeable, Write};
    let stage = Stage::new();
    let path = stage.lock();
    let (one, other) = (patient(), patient());
    let mut puppet = LockingProcess::new();
    for held in [Read, Write, Upgradeable] {
        for asked in [Read, Write, Upgradeable] {
            let shared = (held, asked);
            let shares = matches!(shared, (Read, Read | Upgradeable) | (Upgradeable, Read));
            let guard = one.try_lock(&path, held).unwrap().unwrap();
            let same = one.try_lock(&path, asked).unwrap();
            assert_eq!(same.is_some(), shares, "{asked} under {held}");
            drop(same);
            let second = other.try_lock(&path, asked).unwrap();
            assert_eq!(
                second.is_some(),
                shares,
                "{asked} under {held}, other locker"
            );
            drop(second);
            let granted = puppet.tries(asked, &path);
            assert_eq!(
                granted.is_some(),
                shares,
                "{asked} under {held}, other process"
            );
            if granted.is_some() {
                puppet.release();
            }
            drop(guard);
        }
    }
}

#[test]
fn shared_locks_share_among_threads_and_processes() {
    let stage = Stage::new();
    let path = stage.lock();
    let locker = patient();
    let guards: Vec<_> = (0..20)
        .map(|_| locker.lock_shared(&path).unwrap())
        .collect();
    let mut puppets = [LockingProcess::new(), LockingProcess::new()];
    for puppet in &mut puppets {
        puppet.lock(Mode::Read, &path);
    }
    assert_eq!(holders(&path).unwrap().len(), 22);
    drop(guards);
    assert!(locker.try_lock_exclusive(&path).unwrap().is_none());
    for puppet in &mut puppets {
        puppet.release();
    }
    assert!(locker.try_lock_exclusive(&path).unwrap().is_some());
}

#[test]
fn an_exclusive_lock_blocks_shared_ones_until_it_ends() {
    let stage = Stage::new();
    let path = stage.lock();
    let locker = patient();
    let guard = locker.lock_exclusive(&path).unwrap();
    let mut puppet = LockingProcess::new();
    puppet.begin(Mode::Read, &path);
    until_waiting(&path, 1);
    drop(guard);
    puppet.granted();
}

#[test]
fn a_lock_is_released_on_drop_in_whatever_thread() {
    let stage = Stage::new();
    let path = stage.lock();
    let guard = patient().lock_exclusive(&path).unwrap();
    thread::spawn(move || drop(guard)).join().unwrap();
    assert!(patient().try_lock_exclusive(&path).unwrap().is_some());
    assert!(path.exists(), "a lock file is never removed");
}

#[test]
fn a_lock_outlives_its_locker() {
    let stage = Stage::new();
    let path = stage.lock();
    let locker = patient();
    let guard = locker.lock_exclusive(&path).unwrap();
    drop(locker);
    assert!(patient().try_lock_shared(&path).unwrap().is_none());
    guard.release().unwrap();
    assert!(patient().try_lock_shared(&path).unwrap().is_some());
}

#[test]
fn a_timeout_says_how_long_it_waited_and_who_holds_the_lock() {
    let stage = Stage::new();
    let path = stage.lock();
    let mut puppet = LockingProcess::new();
    puppet.lock(Mode::Write, &path);
    let limit = Duration::from_millis(50);
    let error = FileLocker::new(limit).lock_exclusive(&path).err().unwrap();
    assert_eq!(error.class(), Class::Busy);
    let pid = puppet.child().id();
    let message = error.to_string();
    assert!(message.contains(&format!("pid:{pid}")), "{message}");
    assert!(message.contains("50ms"), "{message}");
    let Error::Timeout {
        context,
        waited,
        limit: told,
        holders,
        ..
    } = error
    else {
        panic!("{message}");
    };
    assert_eq!(told, limit);
    assert!(waited >= limit && waited < LONG, "{waited:?}");
    assert_eq!(context.mode, Mode::Write);
    assert_eq!(context.location, path.display().to_string());
    assert_eq!(holders.len(), 1);
    assert_eq!(holders[0].pid, pid);
    assert_eq!(waits_in_kernel(&path), 0);
}

#[test]
fn a_timeout_in_the_line_of_a_process_ends_in_time_too() {
    let stage = Stage::new();
    let path = stage.lock();
    let holder = patient().lock_exclusive(&path).unwrap();
    let limit = Duration::from_secs(1);
    let locker = FileLocker::new(limit);
    let (answers, ended) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..8 {
            let answers = answers.clone();
            let (locker, path) = (&locker, &path);
            scope.spawn(move || answers.send(locker.lock_shared(path).err()).unwrap());
        }
    });
    drop(answers);
    for error in ended {
        let Some(Error::Timeout { waited, .. }) = error else {
            panic!("{error:?}");
        };
        // Threads that waited one after the other for this time each would need up to 8 s.
        assert!(waited >= limit && waited < 4 * limit, "{waited:?}");
    }
    drop(holder);
    assert!(locker.try_lock_exclusive(&path).unwrap().is_some());
}

#[test]
fn no_time_to_wait_is_a_try_that_says_who_is_there() {
    let stage = Stage::new();
    let path = stage.lock();
    let locker = FileLocker::new(Duration::ZERO);
    let guard = locker.lock_exclusive(&path).unwrap();
    let error = locker.lock_shared(&path).err().unwrap();
    assert_eq!(error.holders().len(), 1);
    drop(guard);
    assert!(locker.lock_shared(&path).is_ok());
}

#[test]
fn a_wait_without_an_end_is_refused_and_one_of_a_year_is_not() {
    let stage = Stage::new();
    let path = stage.lock();
    let endless = FileLocker::new(Duration::MAX).lock_upgradeable(&path);
    let error = endless.err().unwrap();
    assert_eq!(error.class(), Class::BadInput, "{error}");
    let locker = FileLocker::new(DURATION_MAX);
    let mut guard = locker.lock_upgradeable(&path).unwrap();
    assert!(guard.upgrade(Duration::MAX).is_err());
    assert!(guard.upgrade(DURATION_MAX).unwrap().is_some());
    thread::scope(|scope| {
        let waiter = scope.spawn(|| locker.lock_exclusive(&path).map(drop));
        until_waiting(&path, 1);
        drop(guard);
        waiter.join().unwrap().unwrap();
    });
}

#[test]
fn dropping_many_guards_in_any_order_leaves_the_lock_free() {
    let stage = Stage::new();
    let locker = patient();
    let paths: Vec<_> = (0..100).map(|n| stage.at(&format!("{n}.lock"))).collect();
    let mut guards: Vec<_> = paths
        .iter()
        .map(|p| locker.lock_exclusive(p).unwrap())
        .collect();
    while !guards.is_empty() {
        drop(guards.swap_remove(guards.len() / 2));
    }
    for path in &paths {
        assert!(patient().try_lock_exclusive(path).unwrap().is_some());
    }
}
