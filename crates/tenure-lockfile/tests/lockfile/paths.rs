//! The path of a lock file: links, replaced files, spellings, odd bytes and modes.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;

use tenure_core::{Class, Mode};
use tenure_lockfile::{holders, look};

use crate::process::{LockingProcess, alone};
use crate::stage::{LONG, Stage, patient, until_waiting};

#[test]
fn what_is_not_a_regular_file_is_refused() {
    let stage = Stage::new();
    fs::create_dir(stage.at("directory")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        stage.at("fifo"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    let _socket = UnixListener::bind(stage.at("socket")).unwrap();
    symlink("nowhere", stage.at("dangling")).unwrap();
    symlink("directory", stage.at("to-directory")).unwrap();
    for name in [
        "directory",
        "directory/",
        "fifo",
        "socket",
        "dangling",
        "to-directory",
    ] {
        let path = stage.at(name);
        for error in [
            patient().lock_exclusive(&path).err().unwrap(),
            patient().try_lock_shared(&path).err().unwrap(),
        ] {
            assert_eq!(error.class(), Class::BadInput, "{name}: {error}");
            assert!(
                error.to_string().contains("cannot be used as a lock file"),
                "{error}"
            );
        }
    }
    assert!(!stage.at("nowhere").exists());
}

#[test]
fn a_lock_file_replaced_under_a_holder_is_lost_and_a_newcomer_gets_the_new_one() {
    let stage = Stage::new();
    let path = stage.lock();
    for mode in [Mode::Write, Mode::Read, Mode::Upgradeable] {
        let guard = patient().lock(&path, mode).unwrap();
        guard.check().unwrap();
        fs::write(stage.at("new"), "").unwrap();
        fs::rename(stage.at("new"), &path).unwrap();
        let error = guard.check().err().unwrap();
        assert_eq!(error.class(), Class::Lost, "{error}");
        let newcomer = patient().try_lock_exclusive(&path).unwrap().unwrap();
        newcomer.check().unwrap();
        drop(guard);
        newcomer.check().unwrap();
        assert!(
            patient().try_lock_exclusive(&path).unwrap().is_none(),
            "the old one is nothing"
        );
        drop(newcomer);
        fs::remove_file(&path).unwrap();
    }
}

#[test]
fn a_removed_lock_file_is_lost_and_made_anew_by_the_next() {
    let stage = Stage::new();
    let path = stage.lock();
    let locker = patient();
    let guard = locker.lock_exclusive(&path).unwrap();
    fs::remove_file(&path).unwrap();
    assert_eq!(guard.check().err().unwrap().class(), Class::Lost);
    assert!(holders(&path).unwrap().is_empty());
    drop(guard);
    // The open file that the locker kept is no longer the file at the path.
    let guard = locker.lock_exclusive(&path).unwrap();
    guard.check().unwrap();
    assert!(patient().try_lock_shared(&path).unwrap().is_none());
}

#[test]
fn who_waited_for_a_replaced_lock_file_gets_the_new_one() {
    let stage = Stage::new();
    let path = stage.lock();
    let holder = patient().lock_exclusive(&path).unwrap();
    let mut waiter = LockingProcess::new();
    waiter.begin(Mode::Write, &path);
    until_waiting(&path, 1);
    fs::rename(&path, stage.at("old")).unwrap();
    let newcomer = patient().try_lock_exclusive(&path).unwrap().unwrap();
    drop(holder);
    // The waiter is granted the old file, sees that, and stands in line for the new one.
    until_waiting(&path, 1);
    drop(newcomer);
    waiter.granted();
    assert!(patient().try_lock_shared(&path).unwrap().is_none());
    assert_eq!(look(&path).unwrap().unwrap().holders.len(), 1);
}

#[test]
fn replacing_a_lock_file_again_and_again_never_lets_two_hold_the_same_one() {
    let stage = Stage::new();
    let path = stage.lock();
    let locker = patient();
    for _ in 0..200 {
        let guard = locker.lock_exclusive(&path).unwrap();
        guard.check().unwrap();
        assert!(patient().try_lock_shared(&path).unwrap().is_none());
        fs::remove_file(&path).unwrap();
    }
}

#[test]
fn a_symbolic_link_swapped_in_is_refused_and_its_target_untouched() {
    let stage = Stage::new();
    let path = stage.lock();
    let locker = patient();
    let guard = locker.lock_exclusive(&path).unwrap();
    fs::write(stage.at("victim"), "precious").unwrap();
    fs::rename(&path, stage.at("moved")).unwrap();
    for target in ["victim", "moved"] {
        symlink(target, &path).unwrap();
        assert_eq!(guard.check().err().unwrap().class(), Class::Lost);
        for error in [
            patient().lock_exclusive(&path).err().unwrap(),
            locker.try_lock_shared(&path).err().unwrap(),
            look(&path).err().unwrap(),
        ] {
            assert!(error.to_string().contains("symbolic link"), "{error}");
        }
        fs::remove_file(&path).unwrap();
    }
    assert_eq!(fs::read_to_string(stage.at("victim")).unwrap(), "precious");
    drop(guard);
    symlink("victim", &path).unwrap();
    let error = locker.lock_exclusive(&path).err().unwrap();
    assert!(
        error.to_string().contains("symbolic link"),
        "a kept file does not help: {error}"
    );
    assert_eq!(fs::read_to_string(stage.at("victim")).unwrap(), "precious");
}

#[test]
fn a_symbolic_link_swapped_in_under_a_waiter_is_refused() {
    let stage = Stage::new();
    let path = stage.lock();
    let holder = patient().lock_exclusive(&path).unwrap();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| patient().lock_exclusive(&path).err());
        until_waiting(&path, 1);
        fs::rename(&path, stage.at("moved")).unwrap();
        fs::write(stage.at("victim"), "precious").unwrap();
        symlink("victim", &path).unwrap();
        drop(holder);
        let error = waiter.join().unwrap().unwrap();
        assert!(error.to_string().contains("symbolic link"), "{error}");
    });
    assert_eq!(fs::read_to_string(stage.at("victim")).unwrap(), "precious");
}

#[test]
fn all_spellings_of_a_path_are_one_lock() {
    let stage = Stage::new();
    let path = stage.lock();
    fs::create_dir(stage.at("real")).unwrap();
    symlink("real", stage.at("linked")).unwrap();
    let guard = patient().lock_exclusive(&path).unwrap();
    let spellings = ["real/../.data.lock", "./.data.lock", "linked/../.data.lock"];
    let locker = patient();
    for spelling in spellings {
        assert!(
            locker
                .try_lock_shared(&stage.at(spelling))
                .unwrap()
                .is_none(),
            "{spelling}"
        );
    }
    fs::hard_link(&path, stage.at("hard.lock")).unwrap();
    assert!(
        locker
            .try_lock_shared(&stage.at("hard.lock"))
            .unwrap()
            .is_none()
    );
    drop(guard);
    let guard = locker.lock_exclusive(&stage.at("linked/x.lock")).unwrap();
    guard.check().unwrap();
    assert!(
        locker
            .try_lock_shared(&stage.at("real/x.lock"))
            .unwrap()
            .is_none()
    );
    assert_eq!(holders(&stage.at("real/x.lock")).unwrap().len(), 1);
}

#[test]
fn threads_that_wait_by_two_spellings_all_get_in() {
    let stage = Stage::new();
    let paths = [stage.at("x.lock"), stage.at("./x.lock"), stage.at("../")];
    let other = paths[2]
        .join(stage.path().file_name().unwrap())
        .join("x.lock");
    let locker = patient();
    let counter = std::sync::atomic::AtomicU32::new(0);
    std::thread::scope(|scope| {
        for place in 0..8 {
            let path = if place % 2 == 0 { &paths[0] } else { &other };
            let (locker, counter) = (&locker, &counter);
            scope.spawn(move || {
                for _ in 0..50 {
                    let _guard = locker.lock_exclusive(path).unwrap();
                    let before = counter.load(std::sync::atomic::Ordering::Relaxed);
                    std::thread::yield_now();
                    counter.store(before + 1, std::sync::atomic::Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(counter.into_inner(), 8 * 50);
}

#[test]
fn a_relative_path_stays_the_same_lock_when_the_directory_changes() {
    alone(|| {
        let stage = Stage::new();
        fs::create_dir(stage.at("deeper")).unwrap();
        std::env::set_current_dir(stage.path()).unwrap();
        let mut guard = patient().lock_upgradeable(Path::new("x.lock")).unwrap();
        assert!(guard.path().is_absolute());
        std::env::set_current_dir(stage.at("deeper")).unwrap();
        guard.check().unwrap();
        assert!(guard.upgrade(LONG).unwrap().is_some());
        assert!(
            patient()
                .try_lock_shared(Path::new("../x.lock"))
                .unwrap()
                .is_none()
        );
        assert!(
            patient()
                .try_lock_shared(Path::new("x.lock"))
                .unwrap()
                .is_some()
        );
        std::env::set_current_dir("/").unwrap();
    });
}

#[test]
fn paths_with_odd_bytes_are_locked_and_shown() {
    let stage = Stage::new();
    let names: [&[u8]; 7] = [
        b"a b",
        b"new\nline",
        b"\xff\xfe",
        b"%2f",
        b"a#b,c=d",
        b"-",
        &[b'x'; 255],
    ];
    for name in names {
        let path = stage.path().join(OsStr::from_bytes(name));
        let guard = patient().lock_exclusive(&path).unwrap();
        assert!(patient().try_lock_shared(&path).unwrap().is_none());
        let held = holders(&path).unwrap();
        assert_eq!(held[0].resource, guard.lease().resource);
        assert_eq!(held[0].resource.kind(), "file");
    }
    let deep = stage.at(&vec!["d".repeat(200); 15].join("/"));
    fs::create_dir_all(&deep).unwrap();
    let path = deep.join("x.lock");
    let guard = patient().lock_exclusive(&path).unwrap();
    assert_eq!(holders(&path).unwrap(), [guard.lease()]);
}

#[test]
fn a_lock_file_is_its_owners_alone_and_a_prepared_one_keeps_its_mode() {
    let stage = Stage::new();
    let path = stage.lock();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    drop(patient().lock_exclusive(&path).unwrap());
    assert_eq!(mode(&path), 0o600);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    drop(patient().lock_exclusive(&path).unwrap());
    assert_eq!(mode(&path), 0o666);
}
