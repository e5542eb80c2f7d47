//! Signals that ask for the end of a command that waits for files.
//!
//! They are blocked in all threads but one, which waits for them and knows the stage of the
//! command:
//!
//! - The command waits: the wait is cancelled, and the command fails with 130. If there is nothing
//!   to wait for any more when the signal comes, the work is finished, and its result is told.
//! - The command under `update` runs: the signal is for that command, as with `run`, unless it came
//!   from the keyboard, which reaches both. The end of that command decides what is written. If it
//!   has ended, and a process it started keeps its output open, the signal ends us, and nothing is
//!   written.
//! - The command checks or writes: that takes a moment, and is finished; a command that is started
//!   after that gets the signal. An end at this point would leave the lock that programs of Node
//!   see, and they would wait ten seconds for a dead process.
//! - In every other stage the command ends as any program does.

use std::io;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;

use rustix::process::Pid;
use tenure::Result;
use tenure_core::internal::lock;
use tenure_os::cancel::Cancel;
use tenure_os::platform::{self, Arrived, change_blocked, is_ignored, set_of};
use tenure_run::signals::{ENDING, unavailable};

/// The stage of the command.
enum Stage {
    /// The command waits. The signal that cancelled the wait is kept.
    Waiting(Option<libc::c_int>),
    /// The command under `update` runs, with this process id.
    Command(Pid),
    /// The process must not be ended now. A signal that came meanwhile is kept.
    HeldOff(Option<libc::c_int>),
    /// A signal ends the process as usual.
    Usual,
}

/// The thread that waits for signals.
pub struct Interruption {
    stage: Arc<Mutex<Stage>>,
    cancel: Cancel,
    /// The signals that were blocked before.
    before: libc::sigset_t,
}

impl Interruption {
    /// Begins to listen. No other thread may have been started, as it would get the signals.
    pub fn listen() -> Result<Self> {
        let (stage, cancel) = (Arc::new(Mutex::new(Stage::Usual)), Cancel::default());
        // Signals that are ignored from the start stay ignored: `nohup tenure doc …` outlives its
        // terminal.
        let signals = set_of(ENDING.into_iter().filter(|number| !is_ignored(*number)));
        let before = change_blocked(libc::SIG_BLOCK, &signals);
        let (shared, waits) = (Arc::clone(&stage), cancel.clone());
        let listen = move || {
            loop {
                match platform::wait_for_signal(&signals) {
                    Ok(signal) => answer(&shared, &waits, signal),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(_) => return,
                }
            }
        };
        let thread = thread::Builder::new().name("signals".into()).spawn(listen);
        thread.map_err(unavailable)?;
        Ok(Self {
            stage,
            cancel,
            before,
        })
    }

    /// Returns the handle that a signal cancels.
    pub fn cancel(&self) -> Cancel {
        self.cancel.clone()
    }

    /// Unblocks the signals for a command, which would inherit that they are blocked.
    pub fn open_to_signals(&self, command: &mut Command) {
        platform::with_blocked_signals(command, self.before);
    }

    /// Makes a signal cancel the waits that begin now. A signal that was held off does so, too.
    pub fn wait(&self) {
        let mut stage = lock(&self.stage);
        let kept = stage.kept();
        *stage = Stage::Waiting(kept);
        if kept.is_some() {
            self.cancel.cancel();
        }
    }

    /// Makes a signal wait until the work is done.
    pub fn hold_off(&self) {
        let mut stage = lock(&self.stage);
        *stage = Stage::HeldOff(stage.kept());
    }

    /// Passes signals on to this command, which must not be reaped before the next call.
    pub fn pass_on_to(&self, command: Pid) {
        let mut stage = lock(&self.stage);
        // A kept signal came before the command was there: even one from the keyboard missed it.
        if let Some(number) = stage.kept() {
            platform::signal_process(command, number);
        }
        *stage = Stage::Command(command);
    }

    /// Makes a signal end the process as usual.
    pub fn end(&self) {
        *lock(&self.stage) = Stage::Usual;
    }
}

impl Stage {
    fn kept(&self) -> Option<libc::c_int> {
        match self {
            Stage::Waiting(kept) | Stage::HeldOff(kept) => *kept,
            Stage::Command(_) | Stage::Usual => None,
        }
    }
}

fn answer(stage: &Mutex<Stage>, cancel: &Cancel, signal: Arrived) {
    // The stage is locked to the end, so that no work begins and no command is reaped meanwhile.
    let mut stage = lock(stage);
    match &mut *stage {
        Stage::Waiting(kept) => {
            *kept = Some(signal.number);
            cancel.cancel();
        }
        // The command has ended, and a process it started keeps its output open.
        Stage::Command(command) if matches!(platform::has_ended(*command), Ok(true)) => {
            platform::die_of(signal.number)
        }
        Stage::Command(_) if signal.from_keyboard => {}
        Stage::Command(command) => platform::signal_process(*command, signal.number),
        Stage::HeldOff(kept) => *kept = Some(signal.number),
        Stage::Usual => platform::die_of(signal.number),
    }
}
