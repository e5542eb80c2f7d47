//! This machine and the processes on it.

use std::fs;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// Returns the name of this machine.
pub fn host_name() -> String {
    let names = rustix::system::uname();
    names.nodename().to_string_lossy().into_owned()
}

/// Returns true if no process has this id. That is only a reason to look for proof, since an id may
/// be in use again, or mean another process in another namespace.
pub fn is_gone(pid: u32) -> bool {
    let pid = i32::try_from(pid)
        .ok()
        .and_then(rustix::process::Pid::from_raw);
    pid.map(rustix::process::test_kill_process) == Some(Err(Errno::SRCH))
}

/// Returns the processes that hold a file's `flock` by a descriptor of theirs, in ascending order,
/// as far as this process may see them: those of its user and its PID namespace.
pub fn holders_of_flock(path: &Path) -> Vec<u32> {
    let Ok(path) = fs::canonicalize(path) else {
        return Vec::new();
    };
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut holders: Vec<u32> = pids.filter(|pid| holds_flock(*pid, &path)).collect();
    holders.sort_unstable();
    holders
}

/// Signals a process if it holds a file's `flock`, and never another process that got its number.
pub fn signal_holder_of_flock(pid: u32, path: &Path, signal: Signal) {
    let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let process = number.and_then(|number| pidfd_open(number, PidfdFlags::empty()).ok());
    // The process is looked at after its pidfd was opened, so the two are one.
    if let (Some(process), Ok(path)) = (process, fs::canonicalize(path))
        && holds_flock(pid, &path)
    {
        // A failure means that it has ended.
        let _ = pidfd_send_signal(process, signal);
    }
}

/// Returns true if a descriptor of a process leads to a file and carries its `flock`. A process
/// that only looks at the file, or waits, has it open without the lock.
fn holds_flock(pid: u32, path: &Path) -> bool {
    let open = fs::read_dir(format!("/proc/{pid}/fd"));
    let mut open = open.into_iter().flatten().flatten();
    open.any(|descriptor| {
        let leads_to = fs::read_link(descriptor.path());
        let number = descriptor.file_name();
        let info = Path::new("/proc").join(pid.to_string()).join("fdinfo");
        leads_to.is_ok_and(|leads_to| leads_to == path)
            && fs::read_to_string(info.join(number)).is_ok_and(|info| info.contains("FLOCK"))
    })
}

/// Counts the forks between the first call and now, in this line of processes: two calls
/// that answer differently were made by different processes.
pub fn fork_generation() -> u32 {
    static GENERATION: AtomicU32 = AtomicU32::new(0);
    static INSTALLED: OnceLock<()> = OnceLock::new();
    extern "C" fn in_child() {
        GENERATION.fetch_add(1, Ordering::Relaxed);
    }
    INSTALLED.get_or_init(|| {
        // SAFETY: the handler only adds to an atomic, which is allowed after fork.
        let result = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        assert_eq!(result, 0, "pthread_atfork fails only without memory");
    });
    GENERATION.load(Ordering::Relaxed)
}
