//! A process that ends a server and removes its directory when the tests end, also if they are
//! killed.
//!
//! A static is never dropped and a killed process runs nothing, so the end of the tests is noticed
//! from outside: the supervisor, a small shell, reads a pipe whose other end only the test process
//! has.
//!
//! 1. The supervisor makes the directory itself, as the user who runs the server. Tests killed
//!    before that leave nothing, tests killed after it leave the supervisor with an end of input.
//! 2. On an order it runs a command to its end (`initdb`), or starts the server as its child.
//!    Tests killed meanwhile: the command ends, then the supervisor reads the end of input.
//! 3. At the end of input it ends the server, waits for it, and removes the directory.
//!
//! The supervisor has a process group of its own: a signal that ends the tests' group leaves it to
//! do its work. If the supervisor itself is killed, the kernel passes the signal on to the server
//! (`--pdeathsig`); only then a directory stays behind.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use super::programs::not_as_root;

const SCRIPT: &str = include_str!("supervisor.sh");

/// The running supervisor of one server.
pub(super) struct Supervisor {
    child: Child,
    /// The input of the supervisor; its end is the order to finish. `None` once this is dropped.
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    directory: PathBuf,
}

impl Supervisor {
    /// Makes a directory in `place` and waits for orders. `end_signal` is the signal (`QUIT`,
    /// `TERM`) that ends the server at once.
    pub(super) fn spawn(place: &Path, end_signal: &str) -> Self {
        let mut words = not_as_root();
        words.extend(["sh", "-c", SCRIPT, "supervisor"].map(String::from));
        let mut child = Command::new(&words[0])
            .args(&words[1..])
            .arg(place)
            .arg(end_signal)
            // The servers' user may not be allowed into the directory of the tests.
            .current_dir("/")
            .env("LC_ALL", "C")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| {
                panic!("{}: {error}: install util-linux and a shell", words[0])
            });
        let mut supervisor = Self {
            orders: child.stdin.take(),
            answers: BufReader::new(child.stdout.take().unwrap()),
            child,
            directory: PathBuf::new(),
        };
        supervisor.directory = supervisor.answer().into();
        supervisor
    }

    /// Returns the directory that goes with the server.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the supervisor's own process id.
    #[cfg(test)]
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the output of the server and of the commands.
    pub(super) fn log(&self) -> String {
        let log = fs::read(self.directory.join("log")).unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }

    /// Runs a command to its end, which must be a success.
    pub(super) fn run(&mut self, command: &[&str]) {
        let status = self.order(&format!("run{}", quoted(command)));
        assert_eq!(status, "0", "{}: {}", command[0], self.log());
    }

    /// Starts the server; returns its process id.
    pub(super) fn start(&mut self, command: &[&str]) -> u32 {
        self.order(&format!("start{}", quoted(command)))
            .parse()
            .unwrap()
    }

    /// Sends the server a signal that ends it, and waits until it has ended.
    pub(super) fn end(&mut self, signal: &str) {
        assert_eq!(self.order(&format!("end {signal}")), "ended");
    }

    fn order(&mut self, order: &str) -> String {
        assert!(!order.contains('\n'), "an order is one line: {order}");
        let orders = self.orders.as_mut().expect("it is not dropped");
        writeln!(orders, "{order}").unwrap();
        self.answer()
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        assert!(line.ends_with('\n'), "the supervisor ended: {}", self.log());
        line.pop();
        line
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.orders = None;
        drop(self.child.wait());
    }
}

/// Returns the words of a command for a shell, each after a blank.
fn quoted(words: &[&str]) -> String {
    words.iter().fold(String::new(), |mut line, word| {
        write!(line, " '{}'", word.replace('\'', r"'\''")).unwrap();
        line
    })
}

#[cfg(test)]
mod tests {
    use std::env;

    use super::*;

    #[test]
    fn a_dropped_warden_has_ended_its_server_and_removed_its_directory() {
        let mut supervisor = Supervisor::spawn(&env::temp_dir(), "TERM");
        let directory = supervisor.directory().to_owned();
        let pid = supervisor.start(&["sleep", "1000"]);
        assert!(directory.exists() && Path::new(&format!("/proc/{pid}")).exists());
        drop(supervisor);
        assert!(!directory.exists() && !Path::new(&format!("/proc/{pid}")).exists());
    }

    #[test]
    fn a_server_ends_with_a_killed_warden() {
        let mut supervisor = Supervisor::spawn(&env::temp_dir(), "TERM");
        let directory = supervisor.directory().to_owned();
        // The shell answers after a moment, which proves that the signal is set by then.
        let pid = supervisor.start(&["sh", "-c", "echo up; exec sleep 1000"]);
        super::super::until(|| supervisor.log().contains("up"), || supervisor.log());
        supervisor.child.kill().unwrap();
        drop(supervisor);
        super::super::until(
            || !Path::new(&format!("/proc/{pid}")).exists(),
            || format!("{pid} lives on"),
        );
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn words_reach_a_command_as_they_are() {
        let mut supervisor = Supervisor::spawn(&env::temp_dir(), "TERM");
        supervisor.run(&["printf", "%s|", "it's", "$HOME", "a  b", "\\n"]);
        assert_eq!(supervisor.log(), "it's|$HOME|a  b|\\n|");
    }

    #[test]
    #[should_panic(expected = "no such thing")]
    fn a_command_that_fails_is_told_with_what_it_said() {
        Supervisor::spawn(&env::temp_dir(), "TERM").run(&[
            "sh",
            "-c",
            "echo no such thing; exit 3",
        ]);
    }
}
