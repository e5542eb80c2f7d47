//! Signals: blocking them, sending them, waiting for them, and what they do by default.

use std::io;
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::event::{EventfdFlags, eventfd};
use rustix::process::Pid;

/// Signals that stay blocked until this is dropped.
#[must_use = "the signals are blocked until it is dropped"]
pub struct BlockedSignals {
    before: libc::sigset_t,
}

impl BlockedSignals {
    /// Blocks some signals, besides those that are blocked already.
    pub fn these(numbers: impl IntoIterator<Item = libc::c_int>) -> Self {
        let before = change_blocked(libc::SIG_BLOCK, &set_of(numbers));
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
/// blocked before. It is async-signal-safe.
pub fn change_blocked(how: libc::c_int, signals: &libc::sigset_t) -> libc::sigset_t {
    // SAFETY: zero is a valid `sigset_t`, and the pointers are valid for the call.
    unsafe {
        let mut before: libc::sigset_t = mem::zeroed();
        libc::pthread_sigmask(how, signals, &mut before);
        before
    }
}

/// How often each signal has arrived since it is counted.
static ARRIVALS: [AtomicU32; 65] = [const { AtomicU32::new(0) }; 65];
/// The descriptor of [`arrival_events`] that is open for as long as this process.
static EVENTS: AtomicI32 = AtomicI32::new(-1);

/// Returns a descriptor that becomes ready for reading with each signal that is counted. It stays
/// so: only the edge tells.
pub fn arrival_events() -> io::Result<OwnedFd> {
    static KEPT: Mutex<Option<OwnedFd>> = Mutex::new(None);
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(events) = &*kept {
        return events.try_clone();
    }
    let events = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    let another = events.try_clone()?;
    EVENTS.store(events.as_raw_fd(), Ordering::SeqCst);
    *kept = Some(events);
    Ok(another)
}

/// Returns how often a signal has arrived since it is counted.
pub fn arrivals(number: libc::c_int) -> u32 {
    ARRIVALS[number as usize].load(Ordering::SeqCst)
}

/// Counts a signal from here on whenever it arrives. Returns true if it was ignored until now.
pub fn count_arrivals(number: libc::c_int) -> bool {
    extern "C" fn count(number: libc::c_int) {
        ARRIVALS[number as usize].fetch_add(1, Ordering::SeqCst);
        // SAFETY: both calls are async-signal-safe, and the pointers are valid. What is interrupted
        // finds its error as it was.
        unsafe {
            let errno = *libc::__errno_location();
            let one = ptr::from_ref(&1_u64);
            libc::write(EVENTS.load(Ordering::SeqCst), one.cast(), size_of::<u64>());
            *libc::__errno_location() = errno;
        }
    }
    // SAFETY: zero is a valid `sigaction`, all pointers are valid, and `count` does only what a
    // handler of signals may.
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = count as extern "C" fn(libc::c_int) as libc::sighandler_t;
        action.sa_flags = libc::SA_RESTART;
        let mut before: libc::sigaction = mem::zeroed();
        libc::sigaction(number, &action, &mut before);
        before.sa_sigaction == libc::SIG_IGN
    }
}

/// Ignores a signal.
pub fn ignore(number: libc::c_int) {
    // SAFETY: a plain call.
    unsafe { libc::signal(number, libc::SIG_IGN) };
}

/// Opens what of the three standard streams is closed, as `/dev/null`: else the next file that is
/// opened would be written to as the standard error.
pub fn open_standard_streams() {
    let stream = |fd| libc::pollfd {
        fd,
        events: 0,
        revents: 0,
    };
    let mut streams = [stream(0), stream(1), stream(2)];
    // SAFETY: the pointer is valid for three of them.
    unsafe { libc::poll(streams.as_mut_ptr(), 3, 0) };
    let closed = streams.iter().filter(|it| it.revents & libc::POLLNVAL != 0);
    for _ in closed {
        // SAFETY: the path ends with a zero. The lowest number that is free is taken.
        if unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDWR) } < 0 {
            std::process::abort();
        }
    }
}

/// Returns true if a signal is ignored, from the start or by now.
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

/// Returns the process group of this process, or `None` if the group has no number in this PID
/// namespace. That happens if the process entered the namespace by a fork alone.
pub fn own_group() -> Option<Pid> {
    // SAFETY: a plain call that cannot fail.
    Pid::from_raw(unsafe { libc::getpgrp() })
}

/// Stops this process, as Ctrl-Z does to a process that does not listen to it.
pub fn stop_self() {
    let listening = set_default(libc::SIGTSTP);
    // The call returns when we are continued, or at once if no process could continue us.
    signal_self(libc::SIGTSTP);
    restore(libc::SIGTSTP, &listening);
}

/// Makes a signal do what it does by default, and returns what it did before.
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

/// A signal that was waited for.
pub struct Arrived {
    /// The number of the signal.
    pub number: libc::c_int,
    /// True if the kernel sent it to the whole group, as it does for keys.
    pub from_keyboard: bool,
}

/// Waits for one of some signals, which must be blocked.
pub fn wait_for_signal(signals: &libc::sigset_t) -> io::Result<Arrived> {
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

/// Ends this process by a signal, however the process had handled it.
pub fn die_of(number: libc::c_int) {
    set_default(number);
    change_blocked(libc::SIG_UNBLOCK, &set_of([number]));
    // SAFETY: a plain call.
    unsafe { libc::raise(number) };
}

/// Sends a signal to a process. The caller makes sure that the number is still that process's.
pub fn signal_process(process: Pid, number: libc::c_int) {
    // SAFETY: a plain call.
    unsafe { libc::kill(process.as_raw_pid(), number) };
}

/// Sends a signal to this process.
pub fn signal_self(number: libc::c_int) {
    // SAFETY: a plain call.
    unsafe { libc::kill(libc::getpid(), number) };
}

/// Sends a signal to the process group of this process.
pub fn signal_own_group(number: libc::c_int) {
    // SAFETY: a plain call.
    unsafe { libc::kill(0, number) };
}

/// Sends a signal to a process group. The caller makes sure that the number is still that group's.
pub fn signal_group(group: Pid, number: libc::c_int) {
    // SAFETY: a plain call.
    unsafe { libc::kill(-group.as_raw_pid(), number) };
}
