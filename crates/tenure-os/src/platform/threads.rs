//! Threads that wait in the kernel, and the signal that ends the wait.

use std::io;
use std::mem;
use std::ptr;

/// The signal that interrupts a waiting thread. It is ignored by default, and programs that use it
/// must expect it at any time.
const INTERRUPT: libc::c_int = libc::SIGURG;

/// A thread of this process that can be made to leave a blocking system call.
pub struct ThreadToInterrupt {
    process: rustix::process::Pid,
    thread: rustix::process::Pid,
}

impl ThreadToInterrupt {
    /// Returns the calling thread.
    pub fn this() -> io::Result<Self> {
        install_interrupt_handler()?;
        Ok(Self {
            process: rustix::process::getpid(),
            thread: rustix::thread::gettid(),
        })
    }

    /// Signals the thread. The caller makes sure that it has not ended.
    pub fn interrupt(&self) {
        let (process, thread) = (self.process.as_raw_pid(), self.thread.as_raw_pid());
        // SAFETY: a system call with three integers. It fails only if there is no such thread.
        unsafe { libc::syscall(libc::SYS_tgkill, process, thread, INTERRUPT) };
    }
}

/// Keeps the program's signals away from a thread of ours: its handlers expect the stacks of its
/// own threads.
pub fn block_signals() {
    // SAFETY: zero is a valid `sigset_t`, filled before use; all pointers are valid.
    unsafe {
        let mut signals: libc::sigset_t = mem::zeroed();
        libc::sigfillset(&mut signals);
        libc::pthread_sigmask(libc::SIG_BLOCK, &signals, ptr::null_mut());
    }
}

/// Makes sure that the signal interrupts system calls of this thread.
///
/// A handler that the program installed stays; only its wish to restart calls is dropped, since a
/// restarted call would wait past its deadline.
fn install_interrupt_handler() -> io::Result<()> {
    extern "C" fn nothing(_: libc::c_int) {}
    // SAFETY: zero is a valid `sigaction` and `sigset_t`; all pointers are valid for the
    // calls; the handler does nothing, which is allowed in any context.
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        if libc::sigaction(INTERRUPT, ptr::null(), &mut action) == -1 {
            return Err(io::Error::last_os_error());
        }
        let unused = action.sa_sigaction == libc::SIG_DFL || action.sa_sigaction == libc::SIG_IGN;
        if unused || action.sa_flags & libc::SA_RESTART != 0 {
            if unused {
                action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as libc::sighandler_t;
            }
            action.sa_flags &= !libc::SA_RESTART;
            if libc::sigaction(INTERRUPT, &action, ptr::null_mut()) == -1 {
                return Err(io::Error::last_os_error());
            }
        }
        let mut signals: libc::sigset_t = mem::zeroed();
        libc::sigemptyset(&mut signals);
        libc::sigaddset(&mut signals, INTERRUPT);
        // Unblocking stays in force after the wait: the signal does nothing else.
        let result = libc::pthread_sigmask(libc::SIG_UNBLOCK, &signals, ptr::null_mut());
        if result != 0 {
            return Err(io::Error::from_raw_os_error(result));
        }
    }
    Ok(())
}
