//! Upgradeable locks.

use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tenure_core::{Class, Mode};
use tenure_lockfile::{FileLocker, holders, look};

use crate::crowd::EqualNumbers;
use crate::process::{Child, LockingProcess, hear, say};
use crate::stage::{
    LONG, RandomNumbers, Stage, StopWhenDropped, patient, until_waiting, waits_in_kernel,
};

const SHORT: Duration = Duration::from_millis(30);

#[test]
fn two_upgradeable_locks_exclude_and_readers_share_with_one() {
    let stage = Stage::new();
    let path = stage.lock();
    let locker = patient();
    let reader = locker.lock_shared(&path).unwrap();
    let upgradeable = locker.lock_upgradeable(&path).unwrap();
    assert!(locker.try_lock_upgradeable(&path).unwrap().is_none());
    assert!(locker.try_lock_exclusive(&path).unwrap().is_none());
    let second = locker.try_lock_shared(&path).unwrap().unwrap();
    let mut puppet = LockingProcess::new();
    assert_eq!(puppet.tries(Mode::Upgradeable, &path), None);
    assert!(puppet.tries(Mode::Read, &path).is_some());
    let modes: Vec<_> = holders(&path)
        .unwrap()
        .iter()
        .map(|lease| lease.mode)
        .collect();
    assert_eq!(modes.len(), 4);
    assert_eq!(
        modes
            .iter()
            .filter(|mode| **mode == Mode::Upgradeable)
            .count(),
        1
    );
    drop((reader, upgradeable, second));
}

#[test]
fn an_upgrade_waits_for_readers_and_new_readers_wait_behind_it() {
    let stage = Stage::new();
    let path = stage.lock();
    let reader = patient().lock_shared(&path).unwrap();
    let mut upgrader = LockingProcess::new();
    upgrader.lock(Mode::Upgradeable, &path);
    upgrader.child().tell("upgrade 60000");
    until_waiting(&path, 1);
    let mut late = LockingProcess::new();
    for _ in 0..50 {
        assert!(patient().try_lock_shared(&path).unwrap().is_none());
        assert_eq!(late.tries(Mode::Read, &path), None);
        assert_eq!(late.tries(Mode::Write, &path), None);
    }
    late.begin(Mode::Read, &path);
    until_waiting(&path, 2);
    drop(reader);
    upgrader.granted();
    assert_eq!(late.child().answer_within(SHORT), None);
    upgrader.release();
    late.granted();
}

#[test]
fn a_waiting_upgrade_goes_before_who_stood_in_line_already() {
    let stage = Stage::new();
    let path = stage.lock();
    let reader = patient().lock_shared(&path).unwrap();
    let mut upgradeable = patient().lock_upgradeable(&path).unwrap();
    let mut writer = LockingProcess::new();
    writer.begin(Mode::Write, &path);
    until_waiting(&path, 1);
    let mut late = LockingProcess::new();
    late.begin(Mode::Read, &path);
    until_waiting(&path, 2);
    std::thread::scope(|scope| {
        let upgrade = scope.spawn(|| upgradeable.upgrade(LONG).unwrap());
        until_waiting(&path, 3);
        drop(reader);
        assert!(upgrade.join().unwrap().is_some());
    });
    assert_eq!(writer.child().answer_within(SHORT), None);
    drop(upgradeable);
    writer.granted();
    writer.release();
    late.granted();
}

#[test]
fn an_upgrade_in_vain_leaves_it_upgradeable_and_lets_readers_in() {
    let stage = Stage::new();
    let path = stage.lock();
    let locker = patient();
    let reader = locker.lock_shared(&path).unwrap();
    let mut guard = locker.lock_upgradeable(&path).unwrap();
    let token = guard.token();
    for wait in [Duration::ZERO, SHORT] {
        assert_eq!(guard.upgrade(wait).unwrap(), None);
        assert_eq!(guard.try_upgrade().unwrap(), None);
        assert_eq!((guard.mode(), guard.token()), (Mode::Upgradeable, token));
        guard.check().unwrap();
        let mut puppet = LockingProcess::new();
        assert!(
            puppet.tries(Mode::Read, &path).is_some(),
            "readers can come again"
        );
        assert!(locker.try_lock_upgradeable(&path).unwrap().is_none());
        let seen = look(&path).unwrap().unwrap();
        assert_eq!((seen.holders.len(), seen.unreadable), (3, 0));
    }
    drop(reader);
    assert!(guard.try_upgrade().unwrap().is_some());
}

#[test]
fn an_upgrade_draws_a_higher_token_and_a_downgrade_keeps_it() {
    let stage = Stage::new();
    let path = stage.lock();
    let locker = patient();
    let first = locker.lock_exclusive(&path).unwrap().token();
    let mut guard = locker.lock_upgradeable(&path).unwrap();
    assert_eq!(guard.token(), first);
    let mut last = first;
    for _ in 0..20 {
        let token = guard.upgrade(LONG).unwrap().unwrap();
        assert!(token > last);
        assert_eq!((guard.mode(), guard.token()), (Mode::Write, token));
        assert!(locker.try_lock_shared(&path).unwrap().is_none());
        assert_eq!(holders(&path).unwrap()[0].mode, Mode::Write);
        assert_eq!(guard.downgrade().unwrap(), Mode::Upgradeable);
        assert_eq!((guard.mode(), guard.token()), (Mode::Upgradeable, token));
        let reader = locker.try_lock_shared(&path).unwrap().unwrap();
        assert_eq!(reader.token(), token);
        assert_eq!(holders(&path).unwrap().len(), 2);
        last = token;
    }
}

#[test]
fn only_an_upgradeable_lock_is_upgraded_and_only_an_upgraded_one_downgraded() {
    let stage = Stage::new();
    let path = stage.lock();
    for mode in [Mode::Read, Mode::Write] {
        let mut guard = patient().lock(&path, mode).unwrap();
        for error in [
            guard.try_upgrade().err().unwrap(),
            guard.upgrade(SHORT).err().unwrap(),
            guard.downgrade().err().unwrap(),
        ] {
            assert_eq!(error.class(), Class::Conflict, "{error}");
        }
        assert_eq!(guard.mode(), mode);
        let other = patient().try_lock_exclusive(&path).unwrap();
        assert!(other.is_none(), "it is held as before");
    }
    let mut guard = patient().lock_upgradeable(&path).unwrap();
    assert_eq!(guard.downgrade().err().unwrap().class(), Class::Conflict);
}

#[test]
fn an_upgrade_of_a_replaced_lock_file_is_lost() {
    let stage = Stage::new();
    let path = stage.lock();
    let mut guard = patient().lock_upgradeable(&path).unwrap();
    std::fs::rename(&path, stage.at("elsewhere")).unwrap();
    let error = guard.upgrade(LONG).err().unwrap();
    assert_eq!(error.class(), Class::Lost, "{error}");
    assert_eq!(guard.mode(), Mode::Upgradeable);
}

#[test]
fn an_upgrade_gets_in_though_other_processes_try_all_the_time() {
    let stage = Stage::new();
    let path = stage.lock();
    let data = stage.at("data");
    EqualNumbers::create(&data);
    let rival = |way| {
        let arguments = [way, path.to_str().unwrap(), data.to_str().unwrap()];
        let mut rival = Child::start("rival", &arguments);
        assert_eq!(rival.answer(), "ready");
        rival
    };
    let mut rivals: Vec<_> = ["try-write", "wait-write", "try-upgradeable", "read"]
        .map(rival)
        .into();
    let locker = patient();
    let twins = EqualNumbers::open(&data);
    let mut raised = 0;
    for round in 0..60 {
        let mut guard = locker.lock_upgradeable(&path).unwrap();
        let mut value = twins.read();
        for _ in 0..3 {
            let upgraded = if round % 3 == 0 {
                guard.try_upgrade()
            } else {
                guard.upgrade(LONG)
            };
            if upgraded.unwrap().is_none() {
                assert_eq!(round % 3, 0, "a stream of tries kept an upgrade out");
                continue;
            }
            assert_eq!(
                twins.read(),
                value,
                "a writer slipped in while the upgrade waited"
            );
            value = twins.raise();
            raised += 1;
            guard.downgrade().unwrap();
            assert_eq!(
                twins.read(),
                value,
                "a writer slipped in with the downgrade"
            );
        }
    }
    for rival in &mut rivals {
        raised += rival.ask("stop").parse::<u64>().unwrap();
    }
    for rival in rivals {
        rival.finish();
    }
    assert_eq!(twins.read(), raised);
    assert_eq!(waits_in_kernel(&path), 0);
    assert!(locker.try_lock_exclusive(&path).unwrap().is_some());
}

#[test]
fn no_writer_gets_in_while_a_lock_is_upgraded_and_downgraded_again_and_again() {
    let stage = Stage::new();
    let path = stage.lock();
    let mut guard = patient().lock_upgradeable(&path).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let stopping = StopWhenDropped(&stop);
        let tries = |mode: Mode| {
            let (path, stop) = (&path, &stop);
            move || {
                let locker = patient();
                while !stop.load(Ordering::SeqCst) {
                    let granted = locker.try_lock(path, mode).unwrap();
                    assert!(granted.is_none(), "{mode} beside an upgradeable lock");
                }
            }
        };
        let rivals = [Mode::Write, Mode::Upgradeable].map(|mode| scope.spawn(tries(mode)));
        let turned = std::panic::catch_unwind(AssertUnwindSafe(|| {
            for turn in 0..20_000 {
                if turn % 2 == 0 {
                    guard.upgrade(LONG).unwrap().unwrap();
                } else if guard.try_upgrade().unwrap().is_none() {
                    // A rival has the lock for the moment it takes to see that it must not.
                    continue;
                }
                guard.downgrade().unwrap();
            }
        }));
        drop(stopping);
        for rival in rivals {
            rival.join().unwrap();
        }
        turned.unwrap();
    });
}

/// Plays a role: tries to get in between during an upgrade until told to stop, and says how often
/// it wrote.
pub fn play(arguments: &[&str]) {
    let [way, path, data] = arguments else {
        panic!("{arguments:?}")
    };
    let path = Path::new(path);
    let twins = EqualNumbers::open(Path::new(data));
    let (sender, stop) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(hear()));
    say("ready");
    let mut spread = RandomNumbers::new();
    let mut raised = 0;
    while stop.try_recv().is_err() {
        let impatient = FileLocker::new(spread.micros_below(3000));
        let granted = match *way {
            "try-write" => impatient.try_lock_exclusive(path).unwrap(),
            "wait-write" => impatient.lock_exclusive(path).ok(),
            "try-upgradeable" => impatient.try_lock_upgradeable(path).unwrap(),
            "read" => impatient.lock_shared(path).ok(),
            _ => panic!("{way}"),
        };
        let Some(guard) = granted else { continue };
        twins.read();
        if guard.mode() == Mode::Write {
            twins.raise();
            raised += 1;
        }
    }
    say(raised);
}
