//! Other processes: this binary again, in a role.
//!
//! They talk in lines of JSON. Lines of a child begin with a mark, since the test harness prints,
//! too. A child is killed when it is dropped, and ends by itself when its input ends.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child as Process, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc::UnboundedReceiver;

const ROLE: &str = "TENURE_TEST_ROLE";
const ARGUMENTS: &str = "TENURE_TEST_ARGUMENTS";
const MARK: &str = "@ ";

/// The longest wait for an answer that must come.
pub const LONG: Duration = Duration::from_secs(60);

/// Returns the role this process was started in, with its arguments.
pub fn role() -> Option<(String, String)> {
    let role = std::env::var(ROLE).ok()?;
    Some((role, std::env::var(ARGUMENTS).unwrap()))
}

/// Says something to the process that started this one.
pub fn say(word: &impl Serialize) {
    // On a line of its own: the harness leaves one open.
    let line = format!("\n{MARK}{}\n", serde_json::to_string(word).unwrap());
    let mut out = std::io::stdout().lock();
    // If the parent reads no more, the input ends as well.
    drop(out.write_all(line.as_bytes()).and_then(|()| out.flush()));
}

/// Returns a stream of all that the parent process says, until it has no more to say.
pub fn heard<T: DeserializeOwned + Send + 'static>() -> UnboundedReceiver<T> {
    let (sender, heard) = tokio::sync::mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            let word = serde_json::from_str(&line).unwrap();
            if sender.send(word).is_err() {
                return;
            }
        }
    });
    heard
}

/// Makes a runtime as a program has one.
pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
}

/// Lets only one of these tests run at a time: each needs the whole machine, as leases of seconds
/// run out if their holders have no time to renew them.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A process in a role.
pub struct Child {
    process: Process,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Child {
    /// Starts this binary in a role.
    pub fn start(role: &str, arguments: &impl Serialize) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", crate::roles::ENTRY])
            .args(["--nocapture", "--test-threads=1"])
            .env(ROLE, role)
            .env(ARGUMENTS, serde_json::to_string(arguments).unwrap())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = process.stdin.take();
        let output = BufReader::new(process.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let Some(said) = line.strip_prefix(MARK) else {
                    continue;
                };
                if sender.send(said.to_owned()).is_err() {
                    return;
                }
            }
        });
        Self {
            process,
            input,
            lines,
        }
    }

    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Says something to the process.
    pub fn tell(&mut self, word: &impl Serialize) {
        let line = format!("{}\n", serde_json::to_string(word).unwrap());
        let input = self.input.as_mut().expect("its input is open");
        input.write_all(line.as_bytes()).unwrap();
    }

    /// Returns the next thing the process says.
    pub fn answer<T: DeserializeOwned>(&mut self) -> T {
        let id = self.id();
        let heard = self.answer_by(Instant::now() + LONG);
        heard.unwrap_or_else(|| panic!("process {id} does not answer"))
    }

    /// Returns the next thing the process says, if that comes in time. Panics if it has ended.
    pub fn answer_by<T: DeserializeOwned>(&mut self, end: Instant) -> Option<T> {
        let left = end.saturating_duration_since(Instant::now());
        match self.lines.recv_timeout(left) {
            Ok(line) => Some(serde_json::from_str(&line).unwrap()),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => panic!("process {} has ended", self.id()),
        }
    }

    /// Says that there is no more to come, and waits until the process has ended well.
    pub fn finish(mut self) {
        self.input = None;
        let id = self.id();
        let mut status = None;
        crate::moment::until(LONG, &format!("process {id} ends"), || {
            status = self.process.try_wait().unwrap();
            status.is_some()
        });
        let status = status.unwrap();
        assert!(status.success(), "process {id} ended with {status}");
    }

    /// Kills the process as if by the power switch; it is gone when this returns.
    pub fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Stops the process; it stands still when this returns.
    pub fn stop(&self) {
        let pid = Pid::from_child(&self.process);
        kill_process(pid, Signal::STOP).unwrap();
        let (_, status) = waitpid(Some(pid), WaitOptions::UNTRACED).unwrap().unwrap();
        assert!(status.stopped(), "{status:?}");
    }

    /// Lets the process go on.
    pub fn go_on(&self) {
        kill_process(Pid::from_child(&self.process), Signal::CONT).unwrap();
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // The process may have ended; then there is nothing to kill.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}
