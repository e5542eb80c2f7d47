//! A directory with a store of its own, and the command run in it.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// Nothing here takes longer unless it is broken.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// A fresh directory and store, removed at the end.
pub struct World {
    directory: TempDir,
    kind: Kind,
    /// Where the store is, if it is not in the directory.
    server: Option<String>,
}

/// Where the locks are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    File,
    Sqlite,
    Postgres,
}

impl World {
    /// One with the store that is used by default.
    pub fn new() -> Self {
        Self::with(Kind::Sqlite)
    }

    /// One with kernel locks.
    pub fn file() -> Self {
        Self::with(Kind::File)
    }

    /// One of each kind: what is said of `run` holds whatever the store.
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

    /// One with a database on a server.
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
        // The system's temporary directory may be a symbolic link.
        self.directory.path().canonicalize().unwrap().join(name)
    }

    pub fn store(&self) -> String {
        match self.kind {
            Kind::File => format!("file:{}", self.path("store").display()),
            Kind::Sqlite => format!("sqlite:{}", self.path("store/tenure.db").display()),
            Kind::Postgres => self.server.clone().unwrap(),
        }
    }

    /// The command, in this directory, without anything of the outer environment that counts.
    pub fn tenure(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tenure"));
        self.prepare(&mut command);
        command
    }

    /// Copies the command to where other users can reach it. Another process copies it: a child
    /// that another test starts meanwhile would keep this one's descriptor open, and what is open
    /// for writing cannot be run.
    pub fn copy_of_tenure(&self) -> PathBuf {
        let copy = self.path("tenure");
        let mut command = Command::new("cp");
        let copied = command.arg(env!("CARGO_BIN_EXE_tenure")).arg(&copy);
        assert!(copied.status().unwrap().success());
        copy
    }

    /// Any other program, in the same surroundings.
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
        // Whoever runs the tests may be a coding agent.
        for name in tenure_work::agents::identity::VARIABLES {
            command.env_remove(name);
        }
        // Whoever started the tests in the background had them ignore some signals.
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

    /// `tenure ARGUMENTS`, to its end.
    pub fn call<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> Output {
        self.tenure().args(arguments).output().unwrap()
    }

    /// `tenure ARGUMENTS --json`, which must succeed.
    #[track_caller]
    pub fn json<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> Value {
        let output = self.tenure().args(arguments).arg("--json").output();
        let output = output.unwrap();
        assert_eq!(code(&output), 0, "{output:?}");
        json(&output.stdout)
    }

    /// `tenure lock ARGUMENTS`, which must succeed: the id of the one lease.
    #[track_caller]
    pub fn lock<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> String {
        let output = self.tenure().arg("lock").args(arguments).output().unwrap();
        assert_eq!(code(&output), 0, "{output:?}");
        text(&output.stdout).trim().to_owned()
    }

    /// Waits until so many wait in the store. Kernel locks do not tell; there, a thread of `pid`
    /// waits in the kernel.
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

    /// How many sessions the database knows by their files.
    pub fn sessions(&self) -> usize {
        std::fs::read_dir(self.path("store/sessions"))
            .unwrap()
            .count()
    }

    /// `tenure run ARGUMENTS`, to its end.
    pub fn run<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> Output {
        self.tenure().arg("run").args(arguments).output().unwrap()
    }

    /// Whether a lock is free, without waiting for it.
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

/// The state of a process as the kernel shows it (`R`, `S`, `T`, `Z`…), None if it is gone.
pub fn state(pid: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(')').next()?.trim().chars().next()
}

/// Whether a process runs: there, and no zombie.
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
