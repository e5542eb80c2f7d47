//! A worker: this binary again, in a process of its own, which does what it is told in lines.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs::{self, File, TryLockError};
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tenure_run::shim::{Attempt, Lifetime, Limits, Spawner, Status, read_status};

const IS_WORKER: &str = "TENURE_TEST_IS_WORKER";
pub const LONG: Duration = Duration::from_secs(60);

/// Runs before `main`, as the test harness makes threads.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = be_a_worker;

extern "C" fn be_a_worker() {
    if std::env::var_os(IS_WORKER).is_some() {
        work(&Spawner::start().unwrap());
        std::process::exit(0);
    }
}

/// Obeys until its input ends: `run LOCK ATTEMPT`, then `wait`, or one of `end`, `deadline MS`.
fn work(spawner: &Spawner) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut shim = None;
        for line in std::io::stdin().lines().map_while(Result::ok) {
            let (word, rest) = line.split_once(' ').unwrap_or((&line, ""));
            match word {
                "run" => {
                    let (lock, attempt) = rest.split_once(' ').unwrap();
                    let lock = File::open(lock).unwrap();
                    lock.lock().unwrap();
                    let attempt: Attempt = serde_json::from_str(attempt).unwrap();
                    let session = [lock.as_fd(), lock.as_fd()];
                    match spawner.spawn(&attempt, &session).await {
                        Ok(started) => shim = Some(started),
                        Err(error) => say(format!("error {error}")),
                    }
                }
                "wait" => {
                    let status = shim.as_mut().unwrap().ended().await;
                    say(format!("ended {}", serde_json::to_string(&status).unwrap()));
                }
                "deadline" => shim.as_ref().unwrap().set_deadline(rest.parse().unwrap()),
                "end" => shim.as_ref().unwrap().end(),
                _ => panic!("{line}"),
            }
        }
    });
}

fn say(line: impl Display) {
    println!("{line}");
}

/// A worker, and the files of an attempt. Dropped, all of its processes are killed.
pub struct Scene {
    worker: Child,
    input: ChildStdin,
    lines: Receiver<String>,
    pub spawner: i32,
    pub folder: TempDir,
}

impl Scene {
    pub fn new() -> Self {
        let mut worker = Command::new(std::env::current_exe().unwrap())
            .env(IS_WORKER, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = worker.stdin.take().unwrap();
        let output = BufReader::new(worker.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        let pid = worker.id().cast_signed();
        let spawner = until("the worker has a spawner", || {
            let spawner = children(pid).into_iter().next();
            spawner.filter(|pid| name(*pid) == "tenure-spawner")
        });
        let folder = tempfile::tempdir().unwrap();
        File::create(folder.path().join("lock")).unwrap();
        Self {
            worker,
            input,
            lines,
            spawner,
            folder,
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// An attempt of a script of the shell, without limits.
    pub fn attempt(&self, script: &str) -> Attempt {
        Attempt {
            tag: "job-7/1".into(),
            command: ["sh", "-c", script].map(String::from).into(),
            directory: self.folder.path().into(),
            environment: BTreeMap::new(),
            limits: Limits::default(),
            lifetime: Lifetime::OutlivesWorker,
            deadline_ms: None,
            status: self.path("status"),
            output: self.path("out"),
        }
    }

    pub fn tell(&mut self, line: impl Display) {
        writeln!(self.input, "{line}").unwrap();
    }

    pub fn begin(&mut self, attempt: &Attempt) {
        let lock = self.path("lock");
        let attempt = serde_json::to_string(attempt).unwrap();
        self.tell(format!("run {} {attempt}", lock.display()));
    }

    pub fn answer(&self) -> String {
        self.lines.recv_timeout(LONG).unwrap()
    }

    /// What the worker sees of the end of the attempt.
    pub fn ended(&mut self) -> Option<Status> {
        self.tell("wait");
        let answer = self.answer();
        let status = answer.strip_prefix("ended ").expect(&answer);
        serde_json::from_str(status).unwrap()
    }

    pub fn run(&mut self, attempt: &Attempt) -> Status {
        self.begin(attempt);
        self.ended().expect("the shim lives")
    }

    /// What is in the file of the status.
    pub fn status(&self) -> Option<Status> {
        read_status(&self.path("status"), "job-7/1").unwrap()
    }

    pub fn output(&self) -> String {
        fs::read_to_string(self.path("out")).unwrap()
    }

    /// A file of the folder, when the command has written it whole.
    pub fn number_in(&self, name: &str) -> i32 {
        until(&format!("{name} has a number"), || {
            let text = fs::read_to_string(self.path(name)).ok()?;
            text.strip_suffix('\n')?.trim().parse().ok()
        })
    }

    pub fn is_locked(&self) -> bool {
        let lock = File::open(self.path("lock")).unwrap();
        matches!(lock.try_lock(), Err(TryLockError::WouldBlock))
    }

    pub fn worker(&self) -> i32 {
        self.worker.id().cast_signed()
    }

    pub fn kill_worker(&mut self) {
        self.worker.kill().unwrap();
        self.worker.wait().unwrap();
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        // One whose spawner is dead, in a test that failed.
        let noted = fs::read_to_string(self.path("shim")).ok();
        let noted = noted.and_then(|pid| pid.trim().parse().ok());
        let shims = children(self.spawner).into_iter().chain(noted);
        for shim in shims.filter(|pid| name(*pid) == "tenure-shim") {
            // The kernel kills its command.
            kill(shim);
        }
        let _ = self.worker.kill();
        let _ = self.worker.wait();
    }
}

/// Waits for a condition.
pub fn until<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = condition() {
            return found;
        }
        assert!(begun.elapsed() < LONG, "in vain: {what}");
        sleep(Duration::from_millis(5));
    }
}

pub fn until_gone(pid: i32) {
    until(&format!("{pid} is gone"), || (!lives(pid)).then_some(()));
}

/// Children of a process, zombies among them.
pub fn children(pid: i32) -> Vec<i32> {
    let listed = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let listed = listed.unwrap_or_default();
    listed
        .split_whitespace()
        .map(|pid| pid.parse().unwrap())
        .collect()
}

pub fn name(pid: i32) -> String {
    let name = fs::read_to_string(format!("/proc/{pid}/comm"));
    name.unwrap_or_default().trim().to_owned()
}

/// True if a process is there and no zombie.
pub fn lives(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(')').next().unwrap().trim().chars().next();
    state.is_some_and(|state| !"ZX".contains(state))
}

pub fn kill(pid: i32) {
    signal(pid, rustix::process::Signal::KILL);
}

pub fn signal(pid: i32, signal: rustix::process::Signal) {
    let _ = rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), signal);
}

/// The number of descriptors that a process has open.
pub fn descriptors(pid: i32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}
