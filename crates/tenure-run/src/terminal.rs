//! The terminal, while the command has a process group of its own.
//!
//! A group in the background may write to its terminal, but is stopped when it reads from it or
//! changes it. And Ctrl-C and Ctrl-Z reach only the group in the foreground, which we share with
//! others: the rest of a pipeline, a script around us. So the terminal stays where it is until the
//! command needs it:
//!
//! 1. The command starts in the background. We pass on Ctrl-C and Ctrl-Z.
//! 2. The command reads and is stopped for it: we lend it the terminal, if we are in the
//!    foreground ourselves, and let it go on. In the background, the whole job stops, as any
//!    job would.
//! 3. The command stops for another reason: we take the terminal back and stop, with our
//!    group if only the command had Ctrl-Z. Continued, we let the command go on.
//! 4. The command ends: we take the terminal back.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;

use rustix::fs::OFlags;
use rustix::process::{Pid, Signal};
use tenure_os::platform::{
    BlockedSignals, own_group, restore, set_default, signal_own_group, signal_self, stop_self,
};

/// The terminal of this process and of the command, if there is one.
#[derive(Debug)]
pub struct Terminal {
    tty: Option<File>,
    /// Our process group, or `None` if it has no number in this PID namespace.
    own: Option<Pid>,
    command: Pid,
    lent: bool,
}

impl Terminal {
    /// Returns the controlling terminal, whatever standard input and output are.
    pub fn for_command(command: Pid) -> Self {
        let mut options = OpenOptions::new();
        options
            .read(true)
            .write(true)
            .custom_flags(OFlags::NOCTTY.bits().cast_signed());
        Self {
            tty: options.open("/dev/tty").ok(),
            own: own_group(),
            command,
            lent: false,
        }
    }

    /// Handles a command that was stopped by a signal. Returns when it goes on.
    pub fn command_stopped(&mut self, number: i32) {
        let by = Signal::from_named_raw(number);
        let wants_terminal = matches!(by, Some(Signal::TTIN | Signal::TTOU));
        if self.tty.is_none() {
            // A process that can continue us can continue the command, too.
            return;
        }
        if !(wants_terminal && self.is_in_foreground()) {
            let had_it = self.lent;
            self.take_back();
            match by {
                // The whole job stops as if it had asked for the terminal itself.
                Some(signal @ (Signal::TTIN | Signal::TTOU)) => self.stop_in_background(signal),
                _ if had_it => stop_group(Signal::TSTP),
                // Ctrl-Z reached all of our group, and was passed on to the command.
                _ => stop_self(),
            }
            self.lent = had_it || wants_terminal;
        } else {
            self.lent = true;
        }
        self.resume();
    }

    /// Lets the command go on, with the terminal if it had it and we are in the foreground.
    pub fn resume(&self) {
        if self.lent && self.is_in_foreground() {
            self.set_foreground(self.command);
        }
        let _ = rustix::process::kill_process_group(self.command, Signal::CONT);
    }

    /// Takes the terminal back when the command has ended.
    pub fn take_back(&mut self) {
        let tty = self.tty.as_ref();
        let holder = tty.and_then(|tty| rustix::termios::tcgetpgrp(tty).ok());
        if self.lent
            && holder == Some(self.command)
            && let Some(own) = self.own
        {
            self.set_foreground(own);
        }
        self.lent = false;
    }

    /// Ends this process by the signal from the keyboard that killed the command: a shell around us
    /// needs our way to end to decide whether to go on with its script. Returns if there is no
    /// terminal.
    pub fn die_of(&self, number: i32, had_terminal: bool) {
        if !self.is_in_foreground() {
            return;
        }
        set_default(number);
        if had_terminal {
            // Processes of our group that had not seen Ctrl-C see it now.
            signal_own_group(number);
        } else {
            signal_self(number);
        }
    }

    /// Returns true if the command has the terminal.
    pub fn is_lent(&self) -> bool {
        self.lent
    }

    /// Stops the job unless it is in the foreground. The kernel looks and stops in one step:
    /// between a look of ours and a stop of ours a person may bring the job to the foreground, and
    /// see it stop.
    ///
    /// Waiting for the output of a terminal is such a step: in the background it stops the group,
    /// and begins again when the group goes on; in the foreground it does nothing.
    fn stop_in_background(&self, signal: Signal) {
        if let Some(tty) = &self.tty {
            while rustix::termios::tcdrain(tty) == Err(rustix::io::Errno::INTR) {}
        }
        if !self.is_in_foreground() {
            // Our parent set us to ignore the signal by which the kernel stops.
            stop_group(signal);
        }
    }

    fn is_in_foreground(&self) -> bool {
        let foreground = |tty: &File| rustix::termios::tcgetpgrp(tty).ok();
        let foreground = self.tty.as_ref().and_then(foreground);
        foreground.is_some() && foreground == self.own
    }

    /// Puts a group into the foreground. SIGTTOU is blocked meanwhile: otherwise a process in the
    /// background is stopped for trying.
    fn set_foreground(&self, group: Pid) {
        let Some(tty) = &self.tty else {
            return;
        };
        let _blocked = BlockedSignals::these([Signal::TTOU.as_raw()]);
        // A terminal that is gone has no foreground.
        let _ = rustix::termios::tcsetpgrp(tty, group);
    }
}

/// Stops this process and all of its group.
fn stop_group(signal: Signal) {
    let listening = set_default(Signal::TSTP.as_raw());
    let _ = rustix::process::kill_current_process_group(signal);
    restore(Signal::TSTP.as_raw(), &listening);
}
