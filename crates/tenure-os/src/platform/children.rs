//! Children: starting them, asking whether they have ended, and killing their groups.

use std::fs;
use std::io;
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::panic::{self, AssertUnwindSafe};
use std::process::Command;
use std::ptr;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{self, Pid, Signal, WaitId, WaitIdOptions, WaitOptions};

use super::signals::{change_blocked, set_of, signal_group};

/// Makes `pidfd_send_signal` reach the whole process group, from Linux 6.9 on.
const TO_THE_GROUP: libc::c_uint = 1 << 2;

/// Makes the kernel kill the command when the thread that starts it ends.
pub fn die_with_parent(command: &mut Command) {
    let parent = process::getpid();
    let step = move || {
        process::set_parent_process_death_signal(Some(Signal::KILL))?;
        // If we died before the call, the child has another parent by now.
        if process::getppid() != Some(parent) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        Ok(())
    };
    // SAFETY: only async-signal-safe calls are made between fork and exec.
    unsafe { command.pre_exec(step) };
}

/// Starts the command with these signals blocked, and no others.
pub fn with_blocked_signals(command: &mut Command, signals: libc::sigset_t) {
    let step = move || {
        change_blocked(libc::SIG_SETMASK, &signals);
        Ok(())
    };
    // SAFETY: only async-signal-safe calls are made between fork and exec.
    unsafe { command.pre_exec(step) };
}

/// Makes the standard library start a program by fork and exec: unlike `posix_spawn`, that runs a
/// script without a `#!` line.
pub fn by_fork(command: &mut Command) -> &mut Command {
    // SAFETY: nothing is done between fork and exec.
    unsafe { command.pre_exec(|| Ok(())) }
}

/// Makes a step between fork and exec: the command starts only if it succeeds.
///
/// # Safety
///
/// The step only makes async-signal-safe calls.
pub unsafe fn before_exec(
    command: &mut Command,
    step: impl FnMut() -> io::Result<()> + Send + Sync + 'static,
) {
    // SAFETY: by the promise of the caller.
    unsafe { command.pre_exec(step) };
}

/// Forks this process. The copy runs `work` and ends, without any clean-up of this process.
///
/// # Safety
///
/// The work does not panic and only makes async-signal-safe calls, as other threads may have held
/// any lock at the fork.
pub unsafe fn fork(work: impl FnOnce()) -> io::Result<Pid> {
    // SAFETY: by the promise of the caller.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            work();
            // SAFETY: a plain call that does not return.
            unsafe { libc::_exit(0) }
        }
        pid => Ok(Pid::from_raw(pid).expect("a child has a number")),
    }
}

/// Forks this process if it has one thread. The copy may do all that a process may; it ends with
/// `work`, also by a panic, without any clean-up of this process.
pub fn fork_alone(work: impl FnOnce()) -> io::Result<Pid> {
    if fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(io::Error::other("this process has other threads"));
    }
    let work = || drop(panic::catch_unwind(AssertUnwindSafe(work)));
    // SAFETY: no other thread can hold a lock, and a panic does not leave the work.
    unsafe { fork(work) }
}

/// Returns the children of this process, those that are not reaped among them. One may be missing
/// if another ends meanwhile.
pub fn children() -> io::Result<Vec<Pid>> {
    let mut children = Vec::new();
    for thread in fs::read_dir("/proc/self/task")? {
        let listed = fs::read_to_string(thread?.path().join("children"))?;
        let numbers = listed.split_ascii_whitespace();
        children.extend(numbers.filter_map(|number| Pid::from_raw(number.parse().ok()?)));
    }
    Ok(children)
}

/// Returns a descriptor that can be read when a child has ended or stopped. The signal of children
/// must be blocked.
pub fn child_signals() -> io::Result<OwnedFd> {
    let signals = set_of([libc::SIGCHLD]);
    // SAFETY: the pointer is valid for the call.
    let made = unsafe { libc::signalfd(-1, &signals, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
    match made {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: the kernel has just made it, for us.
        descriptor => Ok(unsafe { OwnedFd::from_raw_fd(descriptor) }),
    }
}

/// What some processes have used.
#[derive(Debug, Clone, Copy)]
pub struct Usage {
    /// Time of the processor, for their own work.
    pub user: Duration,
    /// Time of the processor, for the work of the kernel for them.
    pub system: Duration,
    /// The most memory that one of them had at a time, in bytes.
    pub memory_max_bytes: u64,
}

/// Returns what the children of this process have used that were reaped, with all that those had
/// reaped.
pub fn usage_of_children() -> Usage {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is valid for the call, and zero is a valid `rusage` if it fails.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr());
        usage.assume_init()
    };
    let time = |time: libc::timeval| {
        let seconds = Duration::from_secs(time.tv_sec.cast_unsigned());
        seconds + Duration::from_micros(time.tv_usec.cast_unsigned())
    };
    Usage {
        user: time(usage.ru_utime),
        system: time(usage.ru_stime),
        memory_max_bytes: usage.ru_maxrss.cast_unsigned() * 1024,
    }
}

/// Kills a child and reaps it, stopped or not.
pub fn kill_and_reap(child: Pid) {
    // The child is not reaped, so the number is still its own.
    let _ = process::kill_process(child, Signal::KILL);
    let reap = || process::waitpid(Some(child), WaitOptions::empty());
    while matches!(reap(), Err(Errno::INTR)) {}
}

/// Closes all descriptors of this process but one. It is async-signal-safe.
pub fn close_all_but(kept: BorrowedFd<'_>) -> io::Result<()> {
    let kept = kept.as_raw_fd().cast_unsigned();
    let close = |first: u32, last: u32| {
        // SAFETY: a system call with three integers. Nothing uses the closed descriptors: the
        // caller is a copy of a process that ends without a clean-up.
        match unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    if kept > 0 {
        close(0, kept - 1)?;
    }
    close(kept + 1, u32::MAX)
}

/// Sends a few bytes. It is async-signal-safe, and raises no signal if no process reads them.
pub fn send(socket: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<()> {
    // SAFETY: the descriptor is open and the bytes are valid for the call.
    let sent = unsafe {
        let (bytes, length) = (bytes.as_ptr().cast(), bytes.len());
        libc::send(socket.as_raw_fd(), bytes, length, libc::MSG_NOSIGNAL)
    };
    match usize::try_from(sent) {
        Ok(sent) if sent == bytes.len() => Ok(()),
        Ok(_) => Err(io::ErrorKind::WriteZero.into()),
        Err(_) => Err(io::Error::last_os_error()),
    }
}

/// Kills the process group that a process leads, by its pidfd. If the process was reaped, its
/// number may be another group's by now, which is left alone. It is async-signal-safe.
pub fn kill_group_of(leader: BorrowedFd<'_>, group: Pid) {
    let signal = |number: libc::c_int, flags: libc::c_uint| {
        let none = ptr::null::<libc::siginfo_t>();
        let pidfd = leader.as_raw_fd();
        // SAFETY: the descriptor is open, and a null pointer is allowed.
        match unsafe { libc::syscall(libc::SYS_pidfd_send_signal, pidfd, number, none, flags) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error().raw_os_error()),
        }
    };
    let is_old_kernel = signal(libc::SIGKILL, TO_THE_GROUP) == Err(Some(libc::EINVAL));
    if is_old_kernel && signal(0, 0).is_ok() {
        signal_group(group, libc::SIGKILL);
    }
}

/// A number in memory that this process shares with those that it forks.
#[derive(Debug)]
pub struct SharedNumber {
    at: ptr::NonNull<AtomicU64>,
}

impl SharedNumber {
    /// Makes a number that is zero.
    pub fn new() -> io::Result<Self> {
        let (size, none) = (mem::size_of::<AtomicU64>(), ptr::null_mut());
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        // SAFETY: new memory is asked for, wherever the kernel likes.
        let at = unsafe { libc::mmap(none, size, access, kind, -1, 0) };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let at = ptr::NonNull::new(at.cast()).expect("the kernel maps nothing at zero");
        Ok(Self { at })
    }

    /// Returns the number.
    pub fn get(&self) -> &AtomicU64 {
        // SAFETY: the memory is mapped, aligned to a page and zeroed, which is a valid number, for
        // as long as this lives.
        unsafe { self.at.as_ref() }
    }
}

impl Drop for SharedNumber {
    fn drop(&mut self) {
        let size = mem::size_of::<AtomicU64>();
        // SAFETY: it was mapped with this size, and no reference to it is left.
        unsafe { libc::munmap(self.at.as_ptr().cast(), size) };
    }
}

/// Returns true if a child has ended. The child is not reaped, so its number stays its own.
pub fn has_ended(child: Pid) -> io::Result<bool> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    Ok(process::waitid(WaitId::Pid(child), options)?.is_some())
}
