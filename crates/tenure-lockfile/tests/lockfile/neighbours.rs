//! Other programs that use `flock`: util-linux and Python.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tenure_core::{Error, Mode};
use tenure_lockfile::FileLocker;

use crate::stage::{LONG, Stage, patient, until, until_waiting};

#[derive(Debug, Clone, Copy)]
enum Program {
    Flock,
    Python,
}

const PROGRAMS: [Program; 2] = [Program::Flock, Program::Python];

impl Program {
    /// Returns a command that takes the lock without waiting, says `held` and keeps it until its
    /// input ends. It fails if the lock is held.
    fn taking(self, share: bool, path: &Path) -> Command {
        match self {
            Program::Flock => {
                let mut command = Command::new("flock");
                command
                    .arg(if share { "-s" } else { "-x" })
                    .arg("-n")
                    .arg(path);
                command.args(["sh", "-c", "echo held; read line"]);
                command
            }
            Program::Python => {
                let mut command = Command::new("python3");
                let how = if share { "SH" } else { "EX" };
                let script = format!(
                    "import fcntl, sys\n\
                     file = open(sys.argv[1], 'r+')\n\
                     try: fcntl.flock(file, fcntl.LOCK_{how} | fcntl.LOCK_NB)\n\
                     except BlockingIOError: sys.exit(1)\n\
                     print('held', flush=True)\n\
                     sys.stdin.readline()\n"
                );
                command.args(["-c", &script]).arg(path);
                command
            }
        }
    }

    fn start(self, share: bool, path: &Path) -> Child {
        let mut command = self.taking(share, path);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let package = match self {
            Program::Flock => "util-linux",
            Program::Python => "python3",
        };
        let started = command.spawn();
        started.unwrap_or_else(|error| panic!("install the package {package}: {error}"))
    }

    /// Tells whether the program gets the lock.
    fn gets(self, share: bool, path: &Path) -> bool {
        let mut child = self.start(share, path);
        drop(child.stdin.take());
        let output = child.wait_with_output().unwrap();
        output.stdout == b"held\n"
    }

    /// Starts the program, which takes the lock and keeps it.
    fn holds(self, share: bool, path: &Path) -> HoldingProgram {
        let mut child = self.start(share, path);
        let mut line = String::new();
        let output = child.stdout.take().unwrap();
        BufReader::new(output).read_line(&mut line).unwrap();
        assert_eq!(line, "held\n", "{self:?}");
        HoldingProgram(child)
    }
}

/// Another program that holds a lock.
struct HoldingProgram(Child);

impl Drop for HoldingProgram {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

#[test]
fn other_programs_see_our_locks() {
    let stage = Stage::new();
    let path = stage.lock();
    for program in PROGRAMS {
        let guard = patient().lock_exclusive(&path).unwrap();
        assert!(!program.gets(false, &path), "{program:?}");
        assert!(!program.gets(true, &path), "{program:?}");
        drop(guard);
        for mode in [Mode::Read, Mode::Upgradeable] {
            let guard = patient().lock(&path, mode).unwrap();
            assert!(!program.gets(false, &path), "{program:?} under {mode}");
            assert!(program.gets(true, &path), "{program:?} under {mode}");
            drop(guard);
        }
        let mut guard = patient().lock_upgradeable(&path).unwrap();
        guard.upgrade(LONG).unwrap().unwrap();
        assert!(
            !program.gets(true, &path),
            "{program:?} under an upgraded one"
        );
        guard.downgrade().unwrap();
        assert!(
            program.gets(true, &path),
            "{program:?} under a downgraded one"
        );
        drop(guard);
        assert!(program.gets(false, &path), "{program:?}");
    }
}

#[test]
fn we_see_the_locks_of_other_programs() {
    let stage = Stage::new();
    let path = stage.lock();
    drop(patient().lock_exclusive(&path).unwrap());
    let impatient = FileLocker::new(Duration::from_millis(20));
    for program in PROGRAMS {
        let held = program.holds(false, &path);
        for mode in [Mode::Read, Mode::Write, Mode::Upgradeable] {
            assert!(
                patient().try_lock(&path, mode).unwrap().is_none(),
                "{program:?}"
            );
        }
        let error = impatient.lock_shared(&path).err().unwrap();
        assert!(
            matches!(&error, Error::Timeout { holders, .. } if holders.is_empty()),
            "{error}"
        );
        drop(held);
        let held = program.holds(true, &path);
        assert!(
            patient().try_lock_exclusive(&path).unwrap().is_none(),
            "{program:?}"
        );
        assert!(
            patient().try_lock_shared(&path).unwrap().is_some(),
            "{program:?}"
        );
        let mut upgradeable = patient().try_lock_upgradeable(&path).unwrap().unwrap();
        assert_eq!(upgradeable.try_upgrade().unwrap(), None);
        assert_eq!(
            upgradeable.upgrade(Duration::from_millis(20)).unwrap(),
            None
        );
        drop(held);
        assert!(upgradeable.upgrade(LONG).unwrap().is_some());
    }
}

#[test]
fn we_get_the_lock_when_another_program_lets_go() {
    let stage = Stage::new();
    let path = stage.lock();
    drop(patient().lock_exclusive(&path).unwrap());
    for program in PROGRAMS {
        let held = program.holds(false, &path);
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| patient().lock_exclusive(&path).map(drop));
            until_waiting(&path, 1);
            drop(held);
            waiter.join().unwrap().unwrap();
        });
    }
}

#[test]
fn another_program_gets_the_lock_when_we_let_go() {
    let stage = Stage::new();
    let path = stage.lock();
    let guard = patient().lock_exclusive(&path).unwrap();
    let mut command = Command::new("flock");
    let mut waiting = command.arg(&path).arg("true").spawn().unwrap();
    until_waiting(&path, 1);
    drop(guard);
    until("the end of flock", || waiting.try_wait().unwrap().is_some());
    assert!(waiting.wait().unwrap().success());
}
