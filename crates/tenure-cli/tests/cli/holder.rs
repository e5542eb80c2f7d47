//! A `tenure run` in the background that holds a lock until it is told otherwise.

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Duration;

use crate::world::{World, holds_within, is_alive, signal, until};

/// Says its process id, then goes on until standard input ends. `exec` leaves no shell: a shell
/// that gets SIGINT between two commands goes on with the next one.
pub const HOLD: &str = "echo $$; exec cat >/dev/null";

/// A `tenure run` whose command is running.
pub struct Holder {
    pub run: Child,
    /// The process id of the command under `run`.
    pub command: u32,
    /// Kept open, so that a command which writes more is not ended by a closed pipe.
    _output: BufReader<ChildStdout>,
    input: Option<ChildStdin>,
}

impl Holder {
    /// Starts a `run` with these arguments, and returns when its command holds.
    pub fn start<'a>(world: &World, arguments: impl IntoIterator<Item = &'a str>) -> Self {
        let mut command = world.tenure();
        command
            .arg("run")
            .args(arguments)
            .args(["--", "sh", "-c", HOLD]);
        let holder = Self::from_command(command);
        let name = format!("/proc/{}/comm", holder.command);
        until("the shell is gone", || {
            std::fs::read_to_string(&name).is_ok_and(|name| name.trim() == "cat")
        });
        holder
    }

    /// Starts a `run` whose command first says its process id, and waits for that.
    pub fn from_command(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut run = command.spawn().unwrap();
        let mut output = BufReader::new(run.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let command = line
            .trim()
            .parse()
            .unwrap_or_else(|_| panic!("no pid: {line:?}"));
        let input = run.stdin.take();
        Self {
            run,
            command,
            _output: output,
            input,
        }
    }

    pub fn signal_run(&self, number: i32) {
        signal(self.run.id(), number);
    }

    /// Lets the command end by itself.
    pub fn let_go(&mut self) {
        self.input = None;
    }

    /// Waits for the end of `run`.
    #[track_caller]
    pub fn wait(&mut self) -> ExitStatus {
        let mut status = None;
        let ended = holds_within(Duration::from_secs(30), || {
            status = self.run.try_wait().unwrap();
            status.is_some()
        });
        assert!(ended, "run does not end");
        status.unwrap()
    }

    /// Waits for the end of `run`, which must be by exit, and returns its code.
    #[track_caller]
    pub fn code(&mut self) -> i32 {
        let status = self.wait();
        status
            .code()
            .unwrap_or_else(|| panic!("ended by signal {:?}", status.signal()))
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.input = None;
        let _ = self.run.kill();
        let _ = self.run.wait();
        if is_alive(self.command) {
            // SAFETY: a plain call; the process is a child of the run that was ours.
            unsafe { libc::kill(self.command.cast_signed(), libc::SIGKILL) };
        }
    }
}
