//! The command under the locks: started, supervised, reaped.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::time::Duration;

use rustix::io::FdFlags;
use rustix::process::{self, Pid, Signal, WaitOptions, WaitStatus};
use tenure::{Error, Guard};
use tokio::time::timeout;

use super::ending::{Ending, Order};
use super::job_control::Terminal;
use crate::exit;
use crate::report::{Failure, Report};
use crate::signals::{Event, Signals};

/// The longest time the release of a lost lock may take.
const RELEASE_MAX: Duration = Duration::from_secs(1);

/// The command to start.
pub struct Launch<'a> {
    /// The program and its arguments.
    pub command: &'a [OsString],
    /// The variables added to its environment.
    pub environment: &'a [(&'static str, OsString)],
    /// The locks it runs under.
    pub guards: &'a [Guard],
    /// True if it must not inherit the locks, and dies with us instead.
    pub close: bool,
    /// Its standard input, if that is not ours.
    pub input: Option<File>,
}

impl Launch<'_> {
    /// Returns true if the kernel kills the command when we die: nothing else would end it before
    /// its lock is somebody else's, where a lease runs out by itself.
    fn is_killed_with_us(&self) -> bool {
        let runs_out = |guard: &Guard| guard.expires_in().is_some();
        self.close || self.guards.iter().any(runs_out)
    }
}

/// The end of the command.
#[derive(Debug, Clone, Copy)]
pub struct Ended {
    /// The exit code to pass on.
    pub code: u8,
    /// True if a lock was lost before that.
    pub lost: bool,
    /// The signal from the keyboard that ended it, and whether it had the terminal then.
    pub keyboard: Option<(libc::c_int, bool)>,
}

/// The running command. Not reaped before [`supervise`](Child::supervise) says so, so its
/// process id and group stay its own.
pub struct Child {
    pid: Pid,
    terminal: Terminal,
}

impl Child {
    /// Starts the command in a process group of its own.
    pub fn spawn(launch: &Launch<'_>) -> Result<Self, Failure> {
        let [program, arguments @ ..] = launch.command else {
            return Err(Error::BadInput("there is no command to run".into()).into());
        };
        let inherited = inherited(launch)?;
        let mut command = Command::new(program);
        command.args(arguments).process_group(0);
        command.envs(launch.environment.iter().map(|(name, value)| (name, value)));
        if let Some(input) = &launch.input {
            let input = input.try_clone();
            let input = input.map_err(|source| Error::io("pass on", "standard input", source))?;
            command.stdin(input);
        }
        if launch.is_killed_with_us() {
            die_with_parent(&mut command);
        }
        let spawned = command.spawn().or_else(|error| match error.raw_os_error() {
            // A script without its first line: the fork way of starting runs it by the shell.
            Some(libc::ENOEXEC) => by_fork(&mut command).spawn(),
            _ => Err(error),
        });
        drop(inherited);
        let pid = spawned.map(|child| Pid::from_child(&child));
        let pid = pid.map_err(|source| {
            let program = program.to_string_lossy().into_owned();
            Failure::Spawn { program, source }
        })?;
        let terminal = Terminal::for_command(pid);
        Ok(Self { pid, terminal })
    }

    /// Waits for the end of the command. Meanwhile passes signals on, follows the terminal, and
    /// ends the command when `ending` says so, which is reported at once.
    pub async fn supervise(
        &mut self,
        signals: &mut Signals,
        mut ending: Ending<'_>,
        report: Report,
    ) -> Ended {
        let on_loss = |error| report.late_failure(&Failure::Error(error));
        loop {
            let lost = ending.has_begun();
            tokio::select! {
                biased;
                event = signals.next() => match event {
                    Event::Child => match self.look(lost) {
                        ChildStatus::Running => {}
                        ChildStatus::Stopped(by) => self.terminal.command_stopped(by),
                        ChildStatus::Ended(status) => return self.ended(status, lost),
                    },
                    Event::End(number) => {
                        self.signal_group(number);
                        // A stopped command could not follow.
                        self.signal_group(libc::SIGCONT);
                    }
                    Event::Suspend => self.signal_group(libc::SIGTSTP),
                    Event::Continued => self.terminal.resume(),
                },
                order = ending.next() => match order {
                    Order::Stop(error) => {
                        self.signal_group(libc::SIGTERM);
                        self.signal_group(libc::SIGCONT);
                        on_loss(error);
                    }
                    Order::Kill(error) => {
                        self.signal_group(libc::SIGKILL);
                        on_loss(error);
                    }
                },
            }
        }
    }

    /// Releases the locks of the command, which has ended, and returns the exit code. `release` returns
    /// the error if one of them turns out to be lost. Ends this process as the command ended, if that was
    /// by the keyboard.
    pub async fn conclude(
        self,
        ended: Ended,
        release: impl Future<Output = Option<Error>>,
        report: Report,
    ) -> ExitCode {
        if ended.lost {
            // A store that does not answer is not waited for, as the next holder waits for us to end.
            drop(timeout(RELEASE_MAX, release).await);
            return ExitCode::from(exit::LOST);
        }
        if let Some(error) = release.await {
            report.late_failure(&Failure::Error(error));
            return ExitCode::from(exit::LOST);
        }
        if let Some((number, had_terminal)) = ended.keyboard {
            self.terminal.die_of(number, had_terminal);
        }
        ExitCode::from(ended.code)
    }

    fn ended(&mut self, status: WaitStatus, lost: bool) -> Ended {
        let had_terminal = self.terminal.is_lent();
        self.terminal.take_back();
        let by = status.terminating_signal();
        let by_keyboard = by.filter(|by| matches!(*by, libc::SIGINT | libc::SIGQUIT));
        Ended {
            code: code(status),
            lost,
            keyboard: by_keyboard.map(|number| (number, had_terminal)),
        }
    }

    fn signal_group(&self, number: libc::c_int) {
        // SAFETY: a plain call. The group exists until the command is reaped, which ends this value.
        unsafe { libc::kill(-self.pid.as_raw_nonzero().get(), number) };
    }

    /// Returns the state of the command, and reaps it if it ended.
    fn look(&self, lock_is_lost: bool) -> ChildStatus {
        if lock_is_lost && self.has_ended() {
            // Before it is reaped, so that the group is certainly its own. Nobody of it may go on.
            self.signal_group(libc::SIGKILL);
        }
        let options = WaitOptions::NOHANG | WaitOptions::UNTRACED;
        let Ok(Some((_, status))) = process::waitpid(Some(self.pid), options) else {
            return ChildStatus::Running;
        };
        if status.stopped() {
            return ChildStatus::Stopped(status.stopping_signal().unwrap_or(libc::SIGSTOP));
        }
        ChildStatus::Ended(status)
    }

    fn has_ended(&self) -> bool {
        use rustix::process::{WaitId, WaitIdOptions};
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        matches!(process::waitid(WaitId::Pid(self.pid), options), Ok(Some(_)))
    }
}

enum ChildStatus {
    Running,
    Stopped(libc::c_int),
    Ended(WaitStatus),
}

fn code(status: WaitStatus) -> u8 {
    let code = match status.terminating_signal() {
        Some(number) => exit::SIGNAL_BASE + number,
        None => status.exit_status().unwrap_or(exit::OTHER.into()),
    };
    u8::try_from(code).unwrap_or(exit::OTHER)
}

/// Returns descriptors of the locks that survive the exec, one of each file: all locks of a session may
/// depend on the same one. This process has one thread that starts programs, so nothing else can
/// inherit them in between.
fn inherited(launch: &Launch<'_>) -> Result<Vec<OwnedFd>, Failure> {
    if launch.close {
        return Ok(Vec::new());
    }
    let mut inherited = BTreeMap::new();
    for guard in launch.guards {
        let Some(descriptor) = guard.descriptor()? else {
            continue;
        };
        let failed = |error| Error::io("pass on the lock of", guard.resource().as_str(), error);
        let file = rustix::fs::fstat(&descriptor).map_err(failed)?;
        if let Entry::Vacant(first) = inherited.entry((file.st_dev, file.st_ino)) {
            rustix::io::fcntl_setfd(&descriptor, FdFlags::empty()).map_err(failed)?;
            first.insert(descriptor);
        }
    }
    Ok(inherited.into_values().collect())
}

/// Makes the kernel kill the command when we die.
pub fn die_with_parent(command: &mut Command) {
    let parent = process::getpid();
    let step = move || {
        process::set_parent_process_death_signal(Some(Signal::KILL))?;
        // We may have died before the call; then someone else is the parent by now.
        match process::getppid() == Some(parent) {
            true => Ok(()),
            false => Err(io::ErrorKind::Interrupted.into()),
        }
    };
    // SAFETY: only async-signal-safe calls are made between fork and exec.
    unsafe { command.pre_exec(step) };
}

/// Makes the standard library start a program by fork and exec: only exec runs scripts without a first
/// line.
fn by_fork(command: &mut Command) -> &mut Command {
    // SAFETY: nothing is done between fork and exec.
    unsafe { command.pre_exec(|| Ok(())) }
}
