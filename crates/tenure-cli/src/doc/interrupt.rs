//! Signals that ask for the end of a command on documents.
//!
//! They are blocked in all threads but one, which waits for them and knows the stage of the command:
//!
//! - It waits for a lock: it says so and exits 130. There is nothing to undo.
//! - The command under `update` runs: the signal is for that command, as with `run`, unless it came
//!   from the keyboard, which reaches both. How it ends decides what is written. If it has ended, and
//!   something it started keeps its output open, the signal ends us, and nothing is written.
//! - It checks or writes: that takes a moment, and is finished; a command that is started after that
//!   gets the signal. An end here would leave the lock that programs of Node see, and they would
//!   wait ten seconds for nobody.
//! - Otherwise it ends as any program does.

use std::io;
use std::mem::MaybeUninit;
use std::os::unix::process::CommandExt;
use std::process::{self, Command};
use std::sync::{Arc, Mutex};
use std::thread;

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use tenure::{Error, Resource, Result};
use tenure_core::poison::lock;

use crate::report::{Failure, Report};
use crate::signals::{ENDING, change_blocked, is_ignored, set_default, set_of, unavailable};

/// The stage of the command.
enum Stage {
    /// It waits for this lock. The function ends what people see of the wait.
    Waiting(Resource, Box<dyn Fn() + Send>),
    /// The command under `update` runs, with this process id.
    Command(libc::pid_t),
    /// It must not be ended now. The signal that came meanwhile is kept.
    HeldOff(Option<libc::c_int>),
    /// A signal ends the process as usual.
    Usual,
}

/// The thread that waits for signals.
pub struct Interrupt {
    stage: Arc<Mutex<Stage>>,
    report: Report,
    /// The signals that were blocked before.
    before: libc::sigset_t,
}

impl Interrupt {
    /// Begins to listen, before any other thread is started: those must not get the signals.
    pub fn listen(report: Report) -> Result<Self> {
        let stage = Arc::new(Mutex::new(Stage::Usual));
        // Signals that are ignored from the start stay ignored: `nohup tenure doc …` outlives its terminal.
        let signals = set_of(ENDING.into_iter().filter(|number| !is_ignored(*number)));
        let before = change_blocked(libc::SIG_BLOCK, &signals);
        let shared = Arc::clone(&stage);
        let listen = move || {
            loop {
                match next(&signals) {
                    Ok(signal) => answer(&shared, signal, report),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(_) => return,
                }
            }
        };
        let thread = thread::Builder::new().name("signals".into()).spawn(listen);
        thread.map_err(unavailable)?;
        Ok(Self {
            stage,
            report,
            before,
        })
    }

    /// Lets a command have the signals: it would inherit that they are blocked.
    pub fn open_to_signals(&self, command: &mut Command) {
        let before = self.before;
        let step = move || {
            change_blocked(libc::SIG_SETMASK, &before);
            Ok(())
        };
        // SAFETY: only async-signal-safe calls are made between fork and exec.
        unsafe { command.pre_exec(step) };
    }

    /// Makes a signal end the wait for this resource, one that was held off until now, too. `give_up` is
    /// called before the process ends.
    pub fn wait(&self, resource: Resource, give_up: impl Fn() + Send + 'static) {
        let mut stage = lock(&self.stage);
        let is_interrupted = matches!(*stage, Stage::HeldOff(Some(_)));
        *stage = Stage::Waiting(resource, Box::new(give_up));
        if is_interrupted {
            interrupt(&stage, self.report);
        }
    }

    /// Makes a signal wait until the work is done.
    pub fn hold_off(&self) {
        let mut stage = lock(&self.stage);
        if !matches!(*stage, Stage::HeldOff(_)) {
            *stage = Stage::HeldOff(None);
        }
    }

    /// Passes signals on to this command, which must not be reaped before the next call.
    pub fn pass_on_to(&self, command: u32) {
        let mut stage = lock(&self.stage);
        let command = command.cast_signed();
        // A signal that came before the command was there, from the keyboard, too.
        if let Stage::HeldOff(Some(number)) = *stage {
            send(command, number);
        }
        *stage = Stage::Command(command);
    }

    /// Makes a signal end the process as usual.
    pub fn end(&self) {
        *lock(&self.stage) = Stage::Usual;
    }
}

/// A signal, and whether the kernel sent it to the whole group, as it does for keys.
struct Arrived {
    number: libc::c_int,
    from_keyboard: bool,
}

fn answer(stage: &Mutex<Stage>, signal: Arrived, report: Report) {
    // Locked to the end, so that no work begins and no command is reaped meanwhile.
    let mut stage = lock(stage);
    match &mut *stage {
        Stage::Waiting(..) => interrupt(&stage, report),
        // The command has ended, and a process it started keeps its output open.
        Stage::Command(command) if has_ended(*command) => die_of(signal.number),
        Stage::Command(_) if signal.from_keyboard => {}
        Stage::Command(command) => send(*command, signal.number),
        Stage::HeldOff(meanwhile) => *meanwhile = Some(signal.number),
        Stage::Usual => die_of(signal.number),
    }
}

/// Ends the process if it waits.
fn interrupt(stage: &Stage, report: Report) {
    if let Stage::Waiting(resource, give_up) = stage {
        give_up();
        let resource = resource.clone();
        let failure = Failure::Error(Error::Interrupted {
            act: "waiting for",
            resource,
        });
        report.failure(&failure);
        process::exit(failure.code().into());
    }
}

fn has_ended(command: libc::pid_t) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    let Some(pid) = Pid::from_raw(command) else {
        return false;
    };
    matches!(waitid(WaitId::Pid(pid), options), Ok(Some(_)))
}

/// Sends a signal to the command. It is not reaped before the stage changes, so its process id is its
/// own.
fn send(command: libc::pid_t, number: libc::c_int) {
    // SAFETY: a plain call.
    unsafe { libc::kill(command, number) };
}

fn next(signals: &libc::sigset_t) -> io::Result<Arrived> {
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    // SAFETY: both pointers are valid for the call.
    let number = unsafe { libc::sigwaitinfo(signals, info.as_mut_ptr()) };
    if number < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it was zeroed, which is valid, and filled in by the call.
    let code = unsafe { info.assume_init() }.si_code;
    Ok(Arrived {
        number,
        from_keyboard: code > 0,
    })
}

/// Ends this process as the signal would have without us.
fn die_of(number: libc::c_int) {
    set_default(number);
    change_blocked(libc::SIG_UNBLOCK, &set_of([number]));
    // SAFETY: a plain call.
    unsafe { libc::raise(number) };
}
