//! Holders and waiters that are killed, stopped, or panic.

use std::time::{Duration, Instant};

use tenure_core::Mode;
use tenure_lockfile::{FileLocker, holders, look};

use crate::process::{Child, LockingProcess};
use crate::stage::{Stage, patient, until, until_waiting, waits_in_kernel};

#[test]
fn a_killed_holder_holds_nothing() {
    let stage = Stage::new();
    let path = stage.lock();
    for mode in [Mode::Write, Mode::Read, Mode::Upgradeable] {
        let mut puppet = LockingProcess::new();
        puppet.lock(mode, &path);
        assert_eq!(holders(&path).unwrap().len(), 1);
        puppet.child().kill();
        assert!(patient().try_lock_exclusive(&path).unwrap().is_some());
        assert_eq!(holders(&path).unwrap(), []);
    }
}

#[test]
fn when_the_holder_is_killed_the_waiting_processes_have_it_one_after_the_other() {
    let stage = Stage::new();
    let path = stage.lock();
    let mut holder = LockingProcess::new();
    let mut last = holder.lock(Mode::Write, &path);
    let mut waiting: Vec<_> = (0..4).map(|_| LockingProcess::new()).collect();
    for (before, puppet) in waiting.iter_mut().enumerate() {
        puppet.begin(Mode::Write, &path);
        until_waiting(&path, before + 1);
    }
    holder.child().kill();
    // Each holder is killed in turn. The order among processes is the kernel's.
    while !waiting.is_empty() {
        let mut granted = None;
        until("the next holder", || {
            let first = waiting.iter_mut().position(|puppet| {
                granted = puppet.child().answer_within(Duration::from_millis(1));
                granted.is_some()
            });
            if let Some(first) = first {
                let mut next = waiting.swap_remove(first);
                for other in &mut waiting {
                    let other = other.child().answer_within(Duration::ZERO);
                    assert_eq!(other, None, "two have it");
                }
                next.child().kill();
            }
            first.is_some()
        });
        let answer = granted.unwrap();
        let token: u64 = answer.strip_prefix("granted ").unwrap().parse().unwrap();
        assert!(token > last);
        last = token;
    }
    assert!(patient().try_lock_exclusive(&path).unwrap().is_some());
}

#[test]
fn a_killed_waiter_holds_nobody_up() {
    let stage = Stage::new();
    let path = stage.lock();
    for first_mode in [Mode::Write, Mode::Read, Mode::Upgradeable] {
        let holder = patient().lock_exclusive(&path).unwrap();
        let mut first = LockingProcess::new();
        first.begin(first_mode, &path);
        until_waiting(&path, 1);
        let mut second = LockingProcess::new();
        second.begin(Mode::Write, &path);
        until_waiting(&path, 2);
        first.child().kill();
        until_waiting(&path, 1);
        drop(holder);
        second.granted();
    }
}

#[test]
fn a_killed_upgrade_lets_readers_and_writers_in_again() {
    let stage = Stage::new();
    let path = stage.lock();
    let reader = patient().lock_shared(&path).unwrap();
    let mut upgrader = LockingProcess::new();
    upgrader.lock(Mode::Upgradeable, &path);
    upgrader.child().tell("upgrade 60000");
    until_waiting(&path, 1);
    assert!(patient().try_lock_shared(&path).unwrap().is_none());
    upgrader.child().kill();
    assert!(patient().try_lock_shared(&path).unwrap().is_some());
    drop(reader);
    assert!(patient().try_lock_exclusive(&path).unwrap().is_some());
}

#[test]
fn nobody_takes_over_from_a_stopped_holder() {
    let stage = Stage::new();
    let path = stage.lock();
    for mode in [Mode::Write, Mode::Read, Mode::Upgradeable] {
        let mut holder = LockingProcess::new();
        holder.lock(mode, &path);
        holder.child().stop();
        let impatient = FileLocker::new(Duration::from_millis(100));
        let error = impatient.lock_exclusive(&path).err().unwrap();
        assert_eq!(error.holders().len(), 1, "{error}");
        let mut waiter = LockingProcess::new();
        waiter.begin(Mode::Write, &path);
        until_waiting(&path, 1);
        holder.child().signal(libc::SIGCONT);
        assert_eq!(holders(&path).unwrap()[0].pid, holder.child().id());
        holder.release();
        waiter.granted();
        waiter.release();
    }
}

#[test]
fn a_stopped_waiter_is_not_granted_what_it_gave_up() {
    let stage = Stage::new();
    let path = stage.lock();
    let holder = patient().lock_exclusive(&path).unwrap();
    let mut waiter = LockingProcess::new();
    let wait = Duration::from_millis(200);
    let ask = format!("lock write {} {}", wait.as_millis(), path.display());
    let mut over = Instant::now();
    waiter.child().tell(&ask);
    until("a stopped waiter", || {
        over = Instant::now() + wait;
        if waits_in_kernel(&path) == 1 {
            waiter.child().stop();
            if waits_in_kernel(&path) == 1 {
                return true;
            }
            waiter.child().signal(libc::SIGCONT);
        }
        // The waiter gave up before it was stopped, so it is told to wait again.
        if waiter.child().answer_within(Duration::ZERO).is_some() {
            waiter.child().tell(&ask);
        }
        false
    });
    drop(holder);
    // Its time runs out while it stands still. Then it goes on, and either has the lock or has
    // given up.
    until("the end of its time", || Instant::now() > over);
    waiter.child().signal(libc::SIGCONT);
    let answer = waiter.child().answer();
    if answer.starts_with("granted") {
        assert!(patient().try_lock_shared(&path).unwrap().is_none());
        waiter.release();
    } else {
        assert_eq!(answer, "busy 0");
    }
    assert!(patient().try_lock_exclusive(&path).unwrap().is_some());
    assert_eq!(waits_in_kernel(&path), 0);
}

#[test]
fn a_panic_releases_in_the_process_that_goes_on() {
    let stage = Stage::new();
    let path = stage.lock();
    let locker = patient();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _guard = locker.lock_exclusive(&path).unwrap();
        std::panic::resume_unwind(Box::new("this panic is part of the test"));
    }));
    assert!(panicked.is_err());
    assert!(locker.try_lock_exclusive(&path).unwrap().is_some());
    assert!(patient().try_lock_exclusive(&path).unwrap().is_some());
}

#[test]
fn a_panic_that_ends_the_process_releases() {
    let stage = Stage::new();
    let path = stage.lock();
    let mut child = Child::start("panic", &[path.to_str().unwrap()]);
    assert_eq!(child.answer(), "held");
    assert!(patient().try_lock_exclusive(&path).unwrap().is_none());
    child.tell("go on");
    drop(patient().lock_exclusive(&path).unwrap());
}

#[test]
fn what_killed_processes_leave_behind_is_seen_as_left_over() {
    let stage = Stage::new();
    let path = stage.lock();
    let mut puppets: Vec<_> = (0..3).map(|_| LockingProcess::new()).collect();
    for puppet in &mut puppets {
        puppet.lock(Mode::Read, &path);
    }
    assert_eq!(look(&path).unwrap().unwrap().holders.len(), 3);
    for puppet in &mut puppets[..2] {
        puppet.child().kill();
    }
    let seen = look(&path).unwrap().unwrap();
    assert_eq!(
        (seen.holders.len(), seen.left_over, seen.unreadable),
        (1, 2, 0)
    );
    assert_eq!(seen.holders[0].lease.pid, puppets[2].child().id());
}
