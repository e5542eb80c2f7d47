//! Other processes: this binary again, in a role, or running a single test.
//!
//! They talk in lines. Lines of a child begin with a mark, since the test harness prints,
//! too. A child is killed when it is dropped, and ends by itself when its input ends.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child as Process, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use tenure_core::Mode;

use crate::stage::{LONG, until};

const ROLE: &str = "TENURE_TEST_ROLE";
const ARGUMENTS: &str = "TENURE_TEST_ARGUMENTS";
const ALONE: &str = "TENURE_TEST_ALONE";
const MARK: &str = "@ ";

/// Returns the role this process was started in, with its arguments.
pub fn role() -> Option<(String, Vec<String>)> {
    let role = std::env::var(ROLE).ok()?;
    let arguments = std::env::var(ARGUMENTS).unwrap();
    Some((role, serde_json::from_str(&arguments).unwrap()))
}

/// Says a line to the process that started this one.
pub fn say(line: impl std::fmt::Display) {
    let mut out = std::io::stdout().lock();
    // On a line of its own: the harness leaves one open.
    writeln!(out, "\n{MARK}{line}").unwrap();
    out.flush().unwrap();
}

/// Waits for a line of the process that started this one. Returns `None` if it has no more to say.
pub fn hear() -> Option<String> {
    let mut line = String::new();
    let read = std::io::stdin().read_line(&mut line).unwrap();
    (read > 0).then(|| line.trim_end_matches('\n').to_owned())
}

/// A process in a role.
pub struct Child {
    process: Process,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Child {
    /// Starts this binary in a role.
    pub fn start(role: &str, arguments: &[&str]) -> Self {
        Self::start_under(&[], role, arguments)
    }

    /// Starts this binary in a role, under another command.
    pub fn start_under(command: &[&str], role: &str, arguments: &[&str]) -> Self {
        let this = std::env::current_exe().unwrap();
        let words = command.iter().map(OsStr::new).chain([this.as_os_str()]);
        let words: Vec<&OsStr> = words.collect();
        let mut command = Command::new(words[0]);
        command
            .args(&words[1..])
            .args(["--exact", crate::roles::ENTRY]);
        command.args(["--nocapture", "--test-threads=1"]);
        command.env(ROLE, role);
        command.env(ARGUMENTS, serde_json::to_string(arguments).unwrap());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let started = command.spawn();
        let process = started.unwrap_or_else(|error| panic!("cannot start {words:?}: {error}"));
        Self::attend(process)
    }

    fn attend(mut process: Process) -> Self {
        let input = process.stdin.take();
        let output = BufReader::new(process.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in output.split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line).into_owned();
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

    /// Says a line to the process.
    pub fn tell(&mut self, line: impl std::fmt::Display) {
        let input = self.input.as_mut().unwrap();
        writeln!(input, "{line}").unwrap();
        input.flush().unwrap();
    }

    /// Returns the next line of the process.
    pub fn answer(&mut self) -> String {
        let heard = self.lines.recv_timeout(LONG);
        heard.unwrap_or_else(|error| panic!("process {} does not answer: {error}", self.id()))
    }

    /// Returns the next line of the process, if it says one in this time.
    pub fn answer_within(&mut self, time: Duration) -> Option<String> {
        self.lines.recv_timeout(time).ok()
    }

    pub fn ask(&mut self, line: impl std::fmt::Display) -> String {
        self.tell(line);
        self.answer()
    }

    /// Says that there is no more to come, and waits until the process has ended well.
    pub fn finish(mut self) {
        self.input = None;
        let status = self.wait();
        assert!(
            status.success(),
            "process {} ended with {status}",
            self.id()
        );
    }

    /// Kills the process as if by the power switch, and waits until it is gone.
    pub fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    pub fn signal(&self, signal: libc::c_int) {
        let id = libc::pid_t::try_from(self.id()).unwrap();
        // SAFETY: a signal to a process of ours, which is not waited for yet.
        assert_eq!(unsafe { libc::kill(id, signal) }, 0);
    }

    /// Stops the process, and waits until it stands still.
    pub fn stop(&self) {
        self.signal(libc::SIGSTOP);
        let stat = format!("/proc/{}/stat", self.id());
        until("a stopped process", || {
            let stat = std::fs::read_to_string(&stat).unwrap();
            stat.rsplit_once(") ").unwrap().1.starts_with('T')
        });
    }

    fn wait(&mut self) -> ExitStatus {
        let mut status = None;
        until("the end of a process", || {
            status = self.process.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Runs a test in a process of its own, where no other test starts threads or opens files.
pub fn alone<Body: FnOnce()>(body: Body) {
    if std::env::var_os(ALONE).is_some() {
        body();
        say("done");
        return;
    }
    // The name of a closure begins with the name of its function.
    let name = std::any::type_name::<Body>();
    let (_, name) = name.split_once("::").unwrap();
    let (name, _) = name.split_once("::{{closure}}").unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--nocapture", "--test-threads=1"]);
    command.env(ALONE, "1").env_remove(ROLE);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = Child::attend(command.spawn().unwrap());
    let status = child.wait();
    assert!(
        status.success(),
        "{name} failed in its own process; see above"
    );
    assert_eq!(child.answer(), "done", "{name} did not run");
}

/// A process that takes locks as it is told; see `roles`.
pub struct LockingProcess(Child);

impl LockingProcess {
    pub fn new() -> Self {
        Self(Child::start("puppet", &[]))
    }

    pub fn child(&mut self) -> &mut Child {
        &mut self.0
    }

    /// Begins to wait for a lock.
    pub fn begin(&mut self, mode: Mode, path: &Path) {
        let wait = LONG.as_millis();
        self.0
            .tell(format!("lock {mode} {wait} {}", path.display()));
    }

    /// Returns the token of the grant that the process waits for.
    pub fn granted(&mut self) -> u64 {
        let answer = self.0.answer();
        token_in(&answer).unwrap_or_else(|| panic!("not granted: {answer}"))
    }

    /// Takes a lock, waiting if it must.
    pub fn lock(&mut self, mode: Mode, path: &Path) -> u64 {
        self.begin(mode, path);
        self.granted()
    }

    /// Takes a lock if that needs no waiting.
    pub fn tries(&mut self, mode: Mode, path: &Path) -> Option<u64> {
        let answer = self.0.ask(format!("try {mode} {}", path.display()));
        assert!(answer == "busy" || token_in(&answer).is_some(), "{answer}");
        token_in(&answer)
    }

    pub fn release(&mut self) {
        assert_eq!(self.0.ask("release"), "released");
    }
}

fn token_in(answer: &str) -> Option<u64> {
    answer.strip_prefix("granted ")?.parse().ok()
}
