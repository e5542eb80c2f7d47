//! A directory with a store of its own, and commands run in it.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// Everything takes less than this unless it is broken.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// A fresh directory and store, removed at the end.
pub struct World {
    directory: TempDir,
    kind: Kind,
    /// The address of the store, if it is not in the directory.
    server: Option<String>,
}

/// The kind of store that has the locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    File,
    Sqlite,
    Postgres,
}

impl World {
    /// Makes a world with the store that is used by default.
    pub fn new() -> Self {
        Self::with(Kind::Sqlite)
    }

    /// Makes a world with kernel locks.
    pub fn file() -> Self {
        Self::with(Kind::File)
    }

    /// Makes a world of each kind, for statements that hold whatever the store.
    pub fn each() -> [Self; 2] {
        [Kind::File, Kind::Sqlite].map(Self::with)
    }

    fn with(kind: Kind) -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self {
            directory,
            kind,
            server: None,
        }
    }

    /// Makes a world with a database on a server.
    pub fn at(url: &str) -> Self {
        Self {
            server: Some(url.to_owned()),
            ..Self::with(Kind::Postgres)
        }
    }

    pub fn is_file(&self) -> bool {
        self.kind == Kind::File
    }

    pub fn path(&self, name: &str) -> PathBuf {
        // The temporary directory of the system may be a symbolic link.
        self.directory.path().canonicalize().unwrap().join(name)
    }

    pub fn store(&self) -> String {
        match self.kind {
            Kind::File => format!("file:{}", self.path("store").display()),
            Kind::Sqlite => format!("sqlite:{}", self.path("store/tenure.db").display()),
            Kind::Postgres => self.server.clone().unwrap(),
        }
    }

    /// Returns the command in this directory, without variables of the outer environment that
    /// count.
    pub fn tenure(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tenure"));
        self.prepare(&mut command);
        command
    }

    /// Copies the command to a place that other users can reach. Another process makes the copy: a
    /// child that another test starts meanwhile would inherit this process's descriptor, and a file
    /// that is open for writing cannot be run.
    pub fn copy_of_tenure(&self) -> PathBuf {
        let copy = self.path("tenure");
        let mut command = Command::new("cp");
        let copied = command.arg(env!("CARGO_BIN_EXE_tenure")).arg(&copy);
        assert!(copied.status().unwrap().success());
        copy
    }

    /// Gives another program the directory and environment of the command.
    pub fn prepare(&self, command: &mut Command) {
        command
            .current_dir(self.directory.path())
            .stdin(Stdio::null());
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy().into_owned();
            if name.starts_with("TENURE_") || name.starts_with("GIT_") || name.starts_with("XDG_") {
                command.env_remove(name);
            }
        }
        // The tests themselves may be run by a coding agent.
        for name in tenure_work::agents::identity::VARIABLES {
            command.env_remove(name);
        }
        // Tests that were started in the background may ignore some signals.
        let listen = || {
            for number in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT] {
                // SAFETY: a plain call that is allowed between fork and exec.
                unsafe { libc::signal(number, libc::SIG_DFL) };
            }
            Ok(())
        };
        // SAFETY: only async-signal-safe calls are made between fork and exec.
        unsafe { command.pre_exec(listen) };
        command.env("TENURE_STORE", self.store());
        command.env("USER", "ana").env("HOME", self.path("home"));
        command.env("TENURE", env!("CARGO_BIN_EXE_tenure"));
    }

    /// Runs `tenure ARGUMENTS` to its end.
    pub fn call<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> Output {
        self.tenure().args(arguments).output().unwrap()
    }

    /// Runs `tenure ARGUMENTS --json`, which must succeed.
    #[track_caller]
    pub fn json<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> Value {
        let output = self.tenure().args(arguments).arg("--json").output();
        let output = output.unwrap();
        assert_eq!(code(&output), 0, "{output:?}");
        json(&output.stdout)
    }

    /// Runs `tenure lock ARGUMENTS`, which must succeed, and returns the id of its one lease.
    #[track_caller]
    pub fn lock<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> String {
        let output = self.tenure().arg("lock").args(arguments).output().unwrap();
        assert_eq!(code(&output), 0, "{output:?}");
        text(&output.stdout).trim().to_owned()
    }

    /// Waits until so many requests wait in the store. Kernel locks do not count requests; there,
    /// this waits until a thread of `pid` waits in the kernel.
    #[track_caller]
    pub fn until_waiting(&self, number: usize, pid: u32) {
        match self.kind {
            Kind::File => until("it waits in the kernel", || {
                let tasks = std::fs::read_dir(format!("/proc/{pid}/task"));
                tasks.map(|tasks| tasks.count()).unwrap_or(0) > 1
            }),
            Kind::Sqlite | Kind::Postgres => until("it waits in the store", || {
                let listing = self.json(["ls"]);
                listing["waiting"].as_array().unwrap().len() == number
            }),
        }
    }

    /// Counts the sessions that the database knows by their files.
    pub fn sessions(&self) -> usize {
        std::fs::read_dir(self.path("store/sessions"))
            .unwrap()
            .count()
    }

    /// Runs `tenure run ARGUMENTS` to its end.
    pub fn run<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> Output {
        self.tenure().arg("run").args(arguments).output().unwrap()
    }

    /// Tells whether a lock is free, without waiting for it.
    pub fn is_free(&self, resource: &str) -> bool {
        let output = self.run(["--no-wait", resource, "--", "true"]);
        match output.status.code() {
            Some(0) => true,
            Some(75) => false,
            other => panic!("{other:?}: {}", text(&output.stderr)),
        }
    }
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub fn json(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap_or_else(|error| panic!("{error}: {}", text(bytes)))
}

pub fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

/// Waits for a condition, and fails if it does not come.
#[track_caller]
pub fn until(what: &str, condition: impl FnMut() -> bool) {
    assert!(holds_within(DEADLINE, condition), "not in time: {what}");
}

pub fn holds_within(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let began = Instant::now();
    while !condition() {
        if began.elapsed() > limit {
            return false;
        }
        thread::sleep(Duration::from_millis(5));
    }
    true
}

#[track_caller]
pub fn until_exists(path: &Path) {
    until(&path.display().to_string(), || path.exists());
}

/// Returns the state of a process as the kernel shows it (`R`, `S`, `T`, `Z`…), if it exists.
pub fn state(pid: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(')').next()?.trim().chars().next()
}

/// Tells whether a process exists and is no zombie.
pub fn is_alive(pid: u32) -> bool {
    !matches!(state(pid), None | Some('Z' | 'X'))
}

pub fn signal(pid: u32, number: i32) {
    // SAFETY: a plain call with a process id that belongs to this test.
    let sent = unsafe { libc::kill(pid.cast_signed(), number) };
    assert_eq!(sent, 0, "signal {number} to {pid}");
}

pub fn signal_group(pid: u32, number: i32) {
    // SAFETY: a plain call with a process group that belongs to this test.
    let sent = unsafe { libc::kill(-pid.cast_signed(), number) };
    assert_eq!(sent, 0, "signal {number} to the group of {pid}");
}
