//! A command that is given text and answers with text, within a time and up to a size.
//!
//! The command has a process group of its own. The rest of that group is killed when the command
//! has ended, when its time is over, and when the future is dropped. The command itself dies with
//! the thread that called it, however that thread ends. Its time is counted on the clock that
//! counts sleep, too.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tenure_core::{Result, duration};
use tenure_os::clock;
use tenure_os::platform::{die_with_parent, has_ended};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use crate::spawn::pass_on;

/// The interval of checks whether the command has ended.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// The longest wait for the output of a command that has ended, if a process outside of its group
/// has the output open.
const OUTPUT_WAIT: Duration = Duration::from_secs(1);

/// The reason why a command gave no answer: the words after its name.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The program cannot be run.
    #[error("{program:?} cannot be run: {source}")]
    Spawn {
        /// The name of the program.
        program: OsString,
        /// The error of the system.
        source: io::Error,
    },
    /// The command was not tried: something that it must inherit could not be had.
    #[error(transparent)]
    NotTried(#[from] tenure_core::Error),
    /// The command could not be waited for.
    #[error("{0}")]
    Wait(#[from] io::Error),
    /// The time of the command was over.
    #[error("took longer than {}, and was ended", duration::show(*.0))]
    TooLong(Duration),
    /// The command failed.
    #[error("failed: {0}")]
    Failed(ExitStatus),
}

/// Limits of a call.
#[derive(Debug, Clone, Copy)]
pub struct CallLimits {
    /// The time when the call must have ended, in milliseconds since boot.
    pub end_ms: u64,
    /// The time that messages say it had.
    pub time_max: Duration,
    /// The number of bytes of its output that are kept.
    pub bytes_max: u64,
}

/// Calls a command with a text on its standard input. Returns the beginning of what it printed. The
/// command and all that it starts inherit the descriptors.
pub async fn call(
    command: Command,
    inherited: impl IntoIterator<Item = Result<OwnedFd>>,
    text: &str,
    limits: CallLimits,
) -> Result<Vec<u8>, CallError> {
    let too_long = || CallError::TooLong(limits.time_max);
    if clock::boot_now() >= limits.end_ms {
        return Err(too_long());
    }
    let inherited = pass_on(inherited)?;
    let mut running = Running::spawn(command)?;
    drop(inherited);
    let mut reading = running.exchange(text.to_owned(), limits.bytes_max);
    while !has_ended(running.group)? {
        if clock::boot_now() >= limits.end_ms {
            return Err(too_long());
        }
        sleep(LOOK_EVERY).await;
    }
    // The processes that it left in the background have its output open.
    running.kill();
    let status = running.child.wait()?;
    if !status.success() {
        return Err(CallError::Failed(status));
    }
    let printed = timeout(OUTPUT_WAIT, &mut reading).await;
    let printed = printed.map_err(|_| too_long())?;
    Ok(printed.unwrap_or_default())
}

/// The command while it runs. Dropping this kills it and all that it has started.
struct Running {
    child: Child,
    group: Pid,
}

impl Running {
    fn spawn(mut command: Command) -> Result<Self, CallError> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command.stderr(Stdio::null()).process_group(0);
        die_with_parent(&mut command);
        let child = command.spawn().map_err(|source| CallError::Spawn {
            program: command.get_program().to_owned(),
            source,
        })?;
        let group = Pid::from_child(&child);
        Ok(Self { child, group })
    }

    /// Begins to write the text, and to read what the command prints. Both pipes may be full, so
    /// neither waits for the other. A command that reads nothing closes its own.
    fn exchange(&mut self, text: String, bytes_max: u64) -> oneshot::Receiver<Vec<u8>> {
        let (stdin, stdout) = (self.child.stdin.take(), self.child.stdout.take());
        thread::spawn(move || stdin.map(|mut stdin| stdin.write_all(text.as_bytes())));
        let (answer, reading) = oneshot::channel();
        thread::spawn(move || {
            let mut printed = Vec::new();
            if let Some(mut stdout) = stdout {
                let _ = (&mut stdout).take(bytes_max).read_to_end(&mut printed);
                // A command that prints more than is kept still ends well.
                let _ = io::copy(&mut stdout, &mut io::sink());
            }
            let _ = answer.send(printed);
        });
        reading
    }

    fn kill(&self) {
        // A group that is gone has ended.
        let _ = kill_process_group(self.group, Signal::KILL);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
        let _ = self.child.wait();
    }
}
