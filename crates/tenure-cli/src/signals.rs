//! Signals to this process.
//!
//! Signals that ask for the end are passed on by `run` to the process group of its command, and end
//! a wait. One that was ignored from the start stays ignored, for the command too: `nohup tenure
//! run …` outlives its terminal.

use std::future::poll_fn;
use std::io;
use std::mem;
use std::path::Path;
use std::ptr;
use std::task::Poll;

use rustix::process::Pid;
use tenure::{Error, Result};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that are passed on to the command, and end a wait.
pub const ENDING: [libc::c_int; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// A signal to this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A signal that asks the command to end.
    End(libc::c_int),
    /// A child ended or stopped.
    Child,
    /// This process goes on after it was stopped, or was put into the foreground.
    Continued,
    /// Ctrl-Z: the command is to stop.
    Suspend,
}

/// All signals that this process listens to.
pub struct Signals {
    streams: Vec<(Event, Signal)>,
}

impl Signals {
    /// Starts to listen. From here on no signal is lost: what arrives is remembered.
    ///
    /// Meanwhile they are blocked. The library first installs its handler and then what the handler
    /// does, and a signal in between would be swallowed.
    pub fn listen() -> Result<Self> {
        let _blocked = BlockedSignals::all();
        let mut events = vec![
            (Event::Child, libc::SIGCHLD),
            (Event::Continued, libc::SIGCONT),
        ];
        let ending = ENDING.into_iter().filter(|number| !is_ignored(*number));
        events.extend(ending.map(|number| (Event::End(number), number)));
        if !is_ignored(libc::SIGTSTP) {
            events.push((Event::Suspend, libc::SIGTSTP));
        }
        let streams = events.into_iter().map(|(event, number)| {
            let stream = signal(SignalKind::from_raw(number)).map_err(unavailable)?;
            Ok((event, stream))
        });
        let streams = streams.collect::<Result<_>>()?;
        Ok(Self { streams })
    }

    /// Returns the next thing that happens.
    pub async fn next(&mut self) -> Event {
        poll_fn(|context| {
            for (event, stream) in &mut self.streams {
                if let Poll::Ready(Some(())) = stream.poll_recv(context) {
                    return Poll::Ready(*event);
                }
            }
            Poll::Pending
        })
        .await
    }

    /// Returns the next signal that asks for the end; whatever children do meanwhile.
    pub async fn interruption(&mut self) -> libc::c_int {
        loop {
            match self.next().await {
                Event::End(number) => return number,
                Event::Suspend => stop_self(),
                Event::Child | Event::Continued => {}
            }
        }
    }
}

/// Blocks signals for as long as it lives.
struct BlockedSignals {
    before: libc::sigset_t,
}

impl BlockedSignals {
    fn all() -> Self {
        let before = change_blocked(libc::SIG_SETMASK, &set_of(1..=libc::SIGRTMAX()));
        Self { before }
    }
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        change_blocked(libc::SIG_SETMASK, &self.before);
    }
}

/// Returns a set of signals.
pub fn set_of(numbers: impl IntoIterator<Item = libc::c_int>) -> libc::sigset_t {
    // SAFETY: zero is a valid `sigset_t`, the empty one, and the pointer is valid for the calls.
    unsafe {
        let mut set: libc::sigset_t = mem::zeroed();
        for number in numbers {
            libc::sigaddset(&mut set, number);
        }
        set
    }
}

/// Changes which signals are blocked for this thread and those it starts. Returns those that were
/// before. It is async-signal-safe.
pub fn change_blocked(how: libc::c_int, signals: &libc::sigset_t) -> libc::sigset_t {
    // SAFETY: zero is a valid `sigset_t`, and the pointers are valid for the call.
    unsafe {
        let mut before: libc::sigset_t = mem::zeroed();
        libc::pthread_sigmask(how, signals, &mut before);
        before
    }
}

/// Returns the error when the system has no descriptor or handler left for us.
pub fn unavailable(source: io::Error) -> Error {
    Error::io("prepare for signals in", Path::new("this process"), source)
}

/// Returns true if a signal was ignored from the start, or is by now.
pub fn is_ignored(number: libc::c_int) -> bool {
    // SAFETY: zero is a valid `sigaction`; with a null pointer for the new action the call
    // only writes the present one to `action`.
    let action = unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        libc::sigaction(number, ptr::null(), &mut action);
        action
    };
    action.sa_sigaction == libc::SIG_IGN
}

/// Returns the process group of this process. None if it has no number in this PID namespace, which
/// happens if the process entered it by a fork alone.
pub fn own_group() -> Option<Pid> {
    // SAFETY: a plain call that cannot fail.
    Pid::from_raw(unsafe { libc::getpgrp() })
}

/// Stops this process, as Ctrl-Z does to a process that does not listen to it.
pub fn stop_self() {
    let listening = set_default(libc::SIGTSTP);
    // SAFETY: a plain call. It comes back when we are continued, or at once if nobody could.
    unsafe { libc::kill(libc::getpid(), libc::SIGTSTP) };
    restore(libc::SIGTSTP, &listening);
}

/// Makes a signal do what it does by default, and says what it did before.
pub fn set_default(number: libc::c_int) -> libc::sigaction {
    // SAFETY: zero is a valid `sigaction`, the default one; all pointers are valid.
    unsafe {
        let default: libc::sigaction = mem::zeroed();
        let mut before: libc::sigaction = mem::zeroed();
        libc::sigaction(number, &default, &mut before);
        before
    }
}

/// Makes a signal do again what it did before.
pub fn restore(number: libc::c_int, action: &libc::sigaction) {
    // SAFETY: `action` was written by the system.
    unsafe { libc::sigaction(number, action, ptr::null_mut()) };
}
