//! Node programs that take the lock.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use crate::stage::{LONG, until};

/// A Node program; killed when it is dropped.
pub struct Node {
    process: Child,
    lines: Receiver<String>,
}

impl Node {
    /// Starts `hold.js`, which takes the lock of a document and holds it.
    pub fn hold(document: &Path) -> Self {
        Self::start(&[], &["hold.js", document.to_str().unwrap()])
    }

    /// Starts `hold.js` with the default of its library, which follows symbolic links.
    pub fn hold_what_it_means(document: &Path) -> Self {
        let document = document.to_str().unwrap();
        Self::start(&[], &["hold.js", document, "--realpath"])
    }

    /// Starts `hold.js` under another command.
    pub fn hold_under(command: &[&str], document: &Path) -> Self {
        Self::start(command, &["hold.js", document.to_str().unwrap()])
    }

    /// Starts `counter.js`, which raises a number in a document this many times.
    pub fn count(document: &Path, times: u32) -> Self {
        let document = document.to_str().unwrap();
        Self::start(&[], &["counter.js", document, &times.to_string()])
    }

    fn start(command: &[&str], script: &[&str]) -> Self {
        let peers = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/node");
        assert!(
            peers.join("node_modules/proper-lockfile").is_dir(),
            "proper-lockfile is not installed: run ./test, or `npm install --no-package-lock \
             --ignore-scripts` in {}",
            peers.display()
        );
        let words = [command, &["node"], script].concat();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).current_dir(peers);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let started = command.spawn();
        let mut process = started.unwrap_or_else(|error| panic!("cannot start {words:?}: {error}"));
        let output = BufReader::new(process.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self { process, lines }
    }

    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Returns the next line of the program.
    pub fn answer(&mut self) -> String {
        self.answer_within(LONG)
            .unwrap_or_else(|| panic!("Node process {} does not answer", self.id()))
    }

    /// Returns the next line of the program, if it says one in this time.
    pub fn answer_within(&mut self, time: Duration) -> Option<String> {
        match self.lines.recv_timeout(time) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => panic!("Node process {} ended", self.id()),
        }
    }

    /// Makes the program release the lock, and returns what it says about that.
    pub fn release(mut self) -> String {
        drop(self.process.stdin.take());
        let answer = self.answer();
        until("the end of a Node process", || {
            self.process.try_wait().unwrap().is_some()
        });
        answer
    }

    /// Kills the program as if by the power switch, and waits until it is gone.
    pub fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
