//! Runs a command under something held, from its start to the release.

use std::future::{pending, ready};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use rustix::process::{self, Pid, Signal, WaitId, WaitIdOptions, WaitOptions};
use tenure_core::{Error, LockContext, Result};
use tenure_os::clock;
use tenure_os::platform::{has_ended, signal_group};
use tokio::time::{sleep, timeout};

use crate::ending::Ending;
use crate::held::{Distrusted, GRACE, Held, Outcome, RunsOut};
use crate::signals::{Event, Signals};
use crate::spawn::{SpawnError, spawn};
use crate::terminal::Terminal;
use crate::watchdog::Watchdog;

/// The longest time that the release of a lost lock may take.
const RELEASE_MAX: Duration = Duration::from_secs(1);
/// The shortest and the longest time between two looks whether the hold was renewed.
const LOOK_MS: [u64; 2] = [20, 1000];

/// The end of a command, and of its hold.
#[derive(Debug)]
#[must_use = "a shell around this process needs to see how the command ended"]
pub struct Ended {
    /// The exit status of the command.
    pub status: ExitStatus,
    /// True if the hold could not be relied on before that. The command was then told to end.
    pub is_lost: bool,
    /// The result of the release, if nothing was lost before.
    pub released: Result<()>,
    /// The signal from the keyboard that ended the command.
    pub keyboard: Option<KeyboardSignal>,
}

/// A signal from the keyboard that ended the command.
#[derive(Debug)]
pub struct KeyboardSignal {
    number: i32,
    terminal: Terminal,
    had_terminal: bool,
}

impl KeyboardSignal {
    /// Ends this process by the signal, too: a shell around us needs our way to end to decide
    /// whether to go on with its script. Returns if there is no terminal.
    pub fn repeat(&self) {
        self.terminal.die_of(self.number, self.had_terminal);
    }
}

/// Runs a command under a hold, and releases the hold when the command has ended or could not be
/// started. Meanwhile it passes signals on, follows the terminal, and ends the command when the
/// hold cannot be relied on any more; `on_loss` is told of that at once.
///
/// The command may die with the thread that awaits this, so the future stays on that thread. A hold
/// that runs out by time needs a watchdog.
pub async fn run<H: Held>(
    command: Command,
    held: H,
    watchdog: Option<Watchdog>,
    signals: &mut Signals,
    on_loss: impl FnMut(Error),
) -> Result<Ended, SpawnError> {
    let runs_out = held.runs_out();
    let watched = watchdog.zip(runs_out.as_ref());
    let watched = watched.map(|(watchdog, runs_out)| Watched::new(watchdog, runs_out));
    let watchdog = watched.as_ref().map(|watched| &watched.watchdog);
    let pid = match spawn(command, &held, watchdog) {
        Ok(pid) => pid,
        Err(error) => {
            // The error that counts is the one that kept the command from starting.
            drop(held.release(Outcome::NotStarted).await);
            return Err(error);
        }
    };
    let mut child = Child {
        pid,
        terminal: Terminal::for_command(pid),
        watched,
    };
    let (status, is_lost) = child.supervise(&held, signals, on_loss).await;
    let keyboard = child.keyboard_signal(status);
    let released = if is_lost {
        // The release of a silent store is cut short: the next holder waits for us to end.
        drop(timeout(RELEASE_MAX, held.release(Outcome::Lost)).await);
        Ok(())
    } else {
        held.release(Outcome::Ended(status)).await
    };
    Ok(Ended {
        status,
        is_lost,
        released,
        keyboard,
    })
}

/// The running command. It is not reaped before [`supervise`](Child::supervise) says so, so its
/// process id and group stay its own.
struct Child {
    pid: Pid,
    terminal: Terminal,
    watched: Option<Watched>,
}

/// The watchdog of the command, and the hold that it watches.
struct Watched {
    watchdog: Watchdog,
    context: Box<LockContext>,
}

/// A change of the command.
enum Change {
    /// The command was stopped by a signal.
    Stopped(i32),
    /// The command has ended, and is reaped.
    Ended(ExitStatus),
}

impl Child {
    /// Waits for the end of the command. Returns its status, and true if it was told to end.
    async fn supervise(
        &mut self,
        held: &impl Held,
        signals: &mut Signals,
        mut on_loss: impl FnMut(Error),
    ) -> (ExitStatus, bool) {
        let mut ending = Ending::when(held.distrusted());
        loop {
            if let Some(watched) = self.watched.as_ref().filter(|_| !ending.has_begun())
                && watched.watchdog.is_dead()
            {
                ending = Ending::when(ready(watched.unwatched()));
            }
            let mut lost = ending.has_begun();
            tokio::select! {
                biased;
                event = signals.next() => match event {
                    Event::Child => match self.look(&mut lost, &mut on_loss) {
                        Some(Change::Stopped(by)) => self.terminal.command_stopped(by),
                        Some(Change::Ended(status)) => return (status, lost),
                        None => {}
                    },
                    Event::End(number) => self.end_group(number),
                    Event::Suspend => self.signal_group(Signal::TSTP.as_raw()),
                    Event::Continued => self.terminal.resume(),
                },
                (signal, loss) = ending.next() => {
                    self.end_group(signal.as_raw());
                    on_loss(loss);
                }
                () = self.next_look(held) => {}
            }
        }
    }

    /// Tells the watchdog until when the hold is good, and waits for the next time to do so.
    async fn next_look(&self, held: &impl Held) {
        let Some(watched) = &self.watched else {
            return pending().await;
        };
        sleep(watched.follow(held.runs_out().as_ref())).await;
    }

    /// Takes the terminal back from the command, which has ended. Returns the signal from the
    /// keyboard that ended it.
    fn keyboard_signal(mut self, status: ExitStatus) -> Option<KeyboardSignal> {
        let had_terminal = self.terminal.is_lent();
        self.terminal.take_back();
        let from_keyboard = [Signal::INT.as_raw(), Signal::QUIT.as_raw()];
        let number = status.signal().filter(|by| from_keyboard.contains(by))?;
        Some(KeyboardSignal {
            number,
            terminal: self.terminal,
            had_terminal,
        })
    }

    fn signal_group(&self, number: i32) {
        // The group exists until the command is reaped, which ends this value.
        signal_group(self.pid, number);
    }

    fn end_group(&self, number: i32) {
        self.signal_group(number);
        // A stopped command could not follow the signal.
        self.signal_group(Signal::CONT.as_raw());
    }

    /// Returns the change of the command, if it stopped or ended. A command that ended is reaped;
    /// its hold is lost if its watchdog killed it.
    fn look(&mut self, is_lost: &mut bool, on_loss: &mut impl FnMut(Error)) -> Option<Change> {
        if !has_ended(self.pid).is_ok_and(|has_ended| has_ended) {
            let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
            let status = process::waitid(WaitId::Pid(self.pid), options).ok()??;
            return status.stopping_signal().map(Change::Stopped);
        }
        // The watchdog is gone before another group can get the number of this one.
        if let Some(killed) = self.watched.take().and_then(Watched::end) {
            *is_lost = true;
            on_loss(killed);
        }
        if *is_lost {
            // The command is not reaped yet, so the group is certainly its own. No process of it
            // may go on.
            self.signal_group(Signal::KILL.as_raw());
        }
        let (_, status) = process::waitpid(Some(self.pid), WaitOptions::NOHANG).ok()??;
        Some(Change::Ended(ExitStatus::from_raw(status.as_raw())))
    }
}

impl Watched {
    fn new(watchdog: Watchdog, runs_out: &RunsOut) -> Self {
        watchdog.set_deadline(Some(runs_out.kill_at_ms));
        let context = runs_out.context.clone();
        Self { watchdog, context }
    }

    /// Notes when the command must be dead. Returns the time until that must be asked again: a hold
    /// that is renewed in time is renewed while a good part of its time is left.
    fn follow(&self, runs_out: Option<&RunsOut>) -> Duration {
        let kill_at_ms = runs_out.map(|runs_out| runs_out.kill_at_ms);
        self.watchdog.set_deadline(kill_at_ms);
        let left_ms = kill_at_ms.map_or(u64::MAX, |at| at.saturating_sub(clock::boot_now()));
        let [min, max] = LOOK_MS;
        Duration::from_millis((left_ms / 4).clamp(min, max))
    }

    /// Returns the reason to end the command: no process would end it while this one is stopped.
    fn unwatched(&self) -> Distrusted<'static> {
        Distrusted {
            context: self.context.clone(),
            reason: "the process that watches over the command was ended".into(),
            grace: GRACE,
            over: Box::pin(pending()),
        }
    }

    /// Ends the watchdog. Returns the loss if it killed the command.
    fn end(self) -> Option<Error> {
        let reason = "it was not renewed in time; the command was killed (SIGKILL)";
        let has_killed = self.watchdog.end();
        has_killed.then(|| Error::lost(self.context, reason))
    }
}
