//! Children that share open files, and programs that must not.

use std::fs;
use std::io::{BufRead, BufReader};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::{Command, Stdio};

use tenure_core::{Mode, Store};
use tenure_lockfile::{holders, look};
use tenure_os::clock;

use crate::process::{LockingProcess, alone};
use crate::stage::{Stage, patient, until};
use crate::task::{acquire, open, request, run};

/// A process made by fork, without exec.
pub struct Forked(libc::pid_t);

/// Does something in a forked child; its panic makes [`Forked::join`] fail.
pub fn forked(body: impl FnOnce()) -> Forked {
    // SAFETY: the other thread of this process is the test harness, which waits and holds
    // nothing that the child needs; the child leaves without running anything of the harness.
    match unsafe { libc::fork() } {
        -1 => panic!("fork: {}", std::io::Error::last_os_error()),
        0 => {
            let ended = catch_unwind(AssertUnwindSafe(body));
            // SAFETY: ends this process at once.
            unsafe { libc::_exit(i32::from(ended.is_err())) }
        }
        child => Forked(child),
    }
}

impl Forked {
    pub fn join(self) {
        let mut status = 0;
        until("the end of a forked child", || {
            // SAFETY: `status` is valid for the call.
            let ended = unsafe { libc::waitpid(self.0, &mut status, libc::WNOHANG) };
            assert_ne!(ended, -1);
            ended == self.0
        });
        assert_eq!(status, 0, "the forked child failed; see above");
    }
}

fn is_busy(path: &Path) -> bool {
    let mut puppet = LockingProcess::new();
    puppet.tries(Mode::Read, path).is_none()
}

#[test]
fn a_guard_dropped_or_released_in_a_forked_child_stays_the_parents() {
    alone(|| {
        let stage = Stage::new();
        let path = stage.lock();
        let locker = patient();
        for release in [false, true] {
            let mut guard = Some(locker.lock_exclusive(&path).unwrap());
            let child = forked(|| {
                let guard = guard.take().unwrap();
                if release {
                    guard.release().unwrap();
                } else {
                    drop(guard);
                }
                assert!(
                    locker.try_lock_shared(&path).unwrap().is_none(),
                    "the child freed it"
                );
            });
            child.join();
            assert!(is_busy(&path));
            assert_eq!(holders(&path).unwrap().len(), 1);
            drop(guard);
            assert!(!is_busy(&path));
        }
    });
}

#[test]
fn the_end_of_a_forked_child_releases_nothing_and_a_living_one_keeps_nothing() {
    alone(|| {
        let stage = Stage::new();
        let path = stage.lock();
        let locker = patient();
        let guard = locker.lock_exclusive(&path).unwrap();
        forked(|| ()).join();
        assert!(is_busy(&path));
        let child = forked(|| until("the go", || stage.at("go").exists()));
        drop(guard);
        assert!(
            !is_busy(&path),
            "a release is one, whoever has the file open"
        );
        fs::write(stage.at("go"), "").unwrap();
        child.join();
    });
}

#[test]
fn a_lock_taken_in_a_forked_child_is_the_childs_own() {
    alone(|| {
        let stage = Stage::new();
        let path = stage.lock();
        let locker = patient();
        // The locker keeps the open file, and the child inherits it.
        drop(locker.lock_exclusive(&path).unwrap());
        let child = forked(|| {
            let guard = locker.lock_exclusive(&path).unwrap();
            assert_eq!(guard.lease().mode, Mode::Write);
            fs::write(stage.at("held"), "").unwrap();
            until("the go", || stage.at("go").exists());
        });
        until("the child's lock", || stage.at("held").exists());
        assert!(
            locker.try_lock_shared(&path).unwrap().is_none(),
            "the child excludes its parent"
        );
        assert!(is_busy(&path));
        fs::write(stage.at("go"), "").unwrap();
        child.join();
        assert!(
            locker.try_lock_exclusive(&path).unwrap().is_some(),
            "it ended with the child"
        );
    });
}

#[test]
fn a_lock_taken_in_a_forked_child_names_the_child() {
    alone(|| {
        let stage = Stage::new();
        let path = stage.lock();
        let locker = patient();
        drop(locker.lock_exclusive(&path).unwrap());
        forked(|| {
            let _guard = locker.lock_exclusive(&path).unwrap();
            let record = look(&path).unwrap().unwrap().holders.remove(0);
            assert_eq!(record.lease.pid, std::process::id());
            assert_eq!(record.process_start, clock::process_start());
        })
        .join();
    });
}

#[test]
fn a_parent_excludes_its_forked_child_that_uses_the_same_locker() {
    alone(|| {
        let stage = Stage::new();
        let path = stage.lock();
        let locker = patient();
        drop(locker.lock_exclusive(&path).unwrap());
        let guard = locker.lock_exclusive(&path).unwrap();
        forked(|| {
            assert!(locker.try_lock_exclusive(&path).unwrap().is_none());
            assert!(locker.try_lock_shared(&path).unwrap().is_none());
        })
        .join();
        guard.check().unwrap();
        drop(guard);
        forked(|| assert!(locker.try_lock_exclusive(&path).unwrap().is_some())).join();
        assert!(locker.try_lock_exclusive(&path).unwrap().is_some());
    });
}

#[test]
fn a_store_abandoned_or_dropped_in_a_forked_child_stays_the_parents() {
    alone(|| {
        let stage = Stage::new();
        let mut store = Some(open(&stage));
        let wanted = request("l1", "build", Mode::Write);
        run(acquire(store.as_ref().unwrap(), &wanted)).unwrap();
        let path = store.as_ref().unwrap().path_of(&wanted.resource);
        forked(|| store.as_ref().unwrap().abandon(&wanted.lease)).join();
        assert!(is_busy(&path));
        forked(|| drop(store.take())).join();
        assert!(is_busy(&path));
        forked(|| {
            let _ = run(store.as_ref().unwrap().release(&wanted.lease));
        })
        .join();
        assert!(is_busy(&path));
        run(store.as_ref().unwrap().renew(&wanted.lease)).unwrap();
        run(store.as_ref().unwrap().release(&wanted.lease)).unwrap();
        assert!(!is_busy(&path));
    });
}

#[test]
fn a_program_started_while_holding_has_no_descriptor_of_the_lock() {
    let stage = Stage::new();
    let (path, kept) = (stage.lock(), stage.at("kept.lock"));
    let store = open(&stage);
    let locker = patient();
    drop(locker.lock_exclusive(&kept).unwrap());
    let guard = locker.lock_exclusive(&path).unwrap();
    let wanted = request("l1", "build", Mode::Write);
    run(acquire(&store, &wanted)).unwrap();
    let descriptor = store.descriptor(&wanted.lease).unwrap();
    let mut shell = Command::new("sh");
    shell.args(["-c", "echo ready; read line; exit 0"]);
    let mut shell = shell
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(shell.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert_eq!(line, "ready\n");
    let open_files = |process: &str| -> Vec<_> {
        let entries = fs::read_dir(format!("/proc/{process}/fd")).unwrap();
        let targets = entries.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
        targets
            .filter(|target| target.starts_with(stage.path()))
            .collect()
    };
    assert!(
        open_files("self").len() >= 3,
        "this way of looking finds them"
    );
    let found = open_files(&shell.id().to_string());
    assert!(found.is_empty(), "{found:?}");
    drop((guard, descriptor));
    assert!(patient().try_lock_exclusive(&path).unwrap().is_some());
    drop(shell.stdin.take());
    assert!(shell.wait().unwrap().success());
}
