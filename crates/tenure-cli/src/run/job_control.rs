//! The terminal, while the command has a process group of its own.
//!
//! A process group in the background may not read from its terminal, and Ctrl-C and Ctrl-Z only
//! reach the one in the foreground. So `run` does what a shell does: it puts the command into the
//! foreground, takes the terminal back when the command stops or ends, and stops itself along with it.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

use rustix::process::{Pid, Signal};

/// The terminal that `run` was in the foreground of when it started.
#[derive(Debug, Clone, Copy)]
pub struct Terminal {
    descriptor: RawFd,
    own: Pid,
}

impl Terminal {
    /// The terminal behind standard input or standard error, if we are in its foreground.
    pub fn in_foreground() -> Option<Self> {
        let own = rustix::process::getpgrp();
        let on = |descriptor: BorrowedFd<'_>| rustix::termios::tcgetpgrp(descriptor) == Ok(own);
        // SAFETY: 0 and 2 are never closed by this process; if its parent closed them, or put
        // other files there, the calls on them fail, which means that there is no terminal.
        let candidates = unsafe { [BorrowedFd::borrow_raw(0), BorrowedFd::borrow_raw(2)] };
        let found = candidates.into_iter().find(|descriptor| on(*descriptor))?;
        Some(Self {
            descriptor: found.as_raw_fd(),
            own,
        })
    }

    /// Puts the calling process into the foreground. For the command, between fork and exec, so that
    /// it never runs in the background for a moment: it would be stopped by its first read.
    ///
    /// Only async-signal-safe calls are made.
    pub fn take_for_caller(self) -> io::Result<()> {
        self.set_foreground(rustix::process::getpid())
    }

    /// Takes the terminal back from the command; leaves it alone if someone else has it by now.
    pub fn take_back(self, group: Pid) {
        if self.foreground() == Some(group) {
            // A terminal that is gone needs nobody in its foreground.
            let _ = self.set_foreground(self.own);
        }
    }

    /// Takes the terminal back from a command that did not start, and whose group is unknown.
    pub fn recover(self) {
        if self.foreground() != Some(self.own) {
            let _ = self.set_foreground(self.own);
        }
    }

    /// The command has stopped: hands the terminal to whoever had us in the foreground, and stops
    /// the whole job. Others in our group belong to it: a script that called us, or a pipeline.
    pub fn stop_with(self, group: Pid, stopped_by: libc::c_int) {
        self.take_back(group);
        let signal = match stopped_by {
            libc::SIGSTOP => Signal::STOP,
            // SIGTSTP does nothing where no shell could continue us, which is as it should be.
            _ => Signal::TSTP,
        };
        let _ = rustix::process::kill_current_process_group(signal);
    }

    /// We go on: so does the command, in the foreground if that is where we are.
    pub fn resume(self, group: Pid) {
        if self.foreground() == Some(self.own) {
            let _ = self.set_foreground(group);
        }
        let _ = rustix::process::kill_process_group(group, Signal::CONT);
    }

    fn foreground(self) -> Option<Pid> {
        rustix::termios::tcgetpgrp(self.borrow()).ok()
    }

    /// Blocks SIGTTOU meanwhile: a process in the background is stopped for trying otherwise.
    fn set_foreground(self, group: Pid) -> io::Result<()> {
        let mut before = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: the sets are initialised by `sigemptyset` and `pthread_sigmask` before they
        // are read, and all pointers are valid for the calls, which are async-signal-safe.
        unsafe {
            let mut blocked = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
            libc::sigemptyset(blocked.as_mut_ptr());
            libc::sigaddset(blocked.as_mut_ptr(), libc::SIGTTOU);
            libc::pthread_sigmask(libc::SIG_BLOCK, blocked.as_ptr(), before.as_mut_ptr());
        }
        let set = rustix::termios::tcsetpgrp(self.borrow(), group);
        // SAFETY: `before` was written by the call above.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
        Ok(set?)
    }

    fn borrow(&self) -> BorrowedFd<'_> {
        // SAFETY: it is 0 or 2, which this process never closes.
        unsafe { BorrowedFd::borrow_raw(self.descriptor) }
    }
}
