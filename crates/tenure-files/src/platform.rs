//! The calls to the Linux kernel, all of them, and nothing else. The locks among them are public for the crates of
//! stores.
//!
//! `flock` is what other programs use and see. Open-file-description locks on single
//! bytes (`F_OFD_SETLK`) belong to the same open file, are invisible to `flock`, can be
//! asked about without being taken, and end with the last descriptor, like `flock`.

#[cfg(not(target_os = "linux"))]
compile_error!("tenure-files needs Linux: its locks rest on flock and open-file-description locks");

use std::fs::File;
use std::io;
use std::mem;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, StatxFlags};
use rustix::io::Errno;

/// The identity of the file that a path or descriptor means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Identity {
    device: (u32, u32),
    inode: u64,
}

impl Identity {
    /// Returns the inode number, which with the device names a file while it is there.
    pub(crate) fn inode(self) -> u64 {
        self.inode
    }

    /// Returns the device as people know it.
    pub(crate) fn device_name(self) -> String {
        format!("{}:{}", self.device.0, self.device.1)
    }

    /// Returns the identity of a file on a simulated disk.
    #[cfg(test)]
    pub(crate) fn simulated(inode: u64) -> Self {
        let device = (0, 0);
        Self { device, inode }
    }
}

/// The mode in which a byte is locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// Others may share it.
    Shared,
    /// Nobody else may have it.
    Exclusive,
}

/// Opens a lock file for reading and writing, creating it, never truncating it and never
/// following a symbolic link in its place. The descriptor closes on exec.
pub(crate) fn open_or_create(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDWR
        | OFlags::CREATE
        | OFlags::CLOEXEC
        | OFlags::NOFOLLOW
        | OFlags::NOCTTY
        | OFlags::NONBLOCK;
    let fd = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?;
    Ok(File::from(fd))
}

/// Opens a lock file for looking only.
pub(crate) fn open_to_look(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let fd = rustix::fs::open(path, flags, Mode::empty())?;
    Ok(File::from(fd))
}

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

/// Returns another descriptor of the same open file; it closes on exec.
pub fn duplicate(file: &File) -> io::Result<OwnedFd> {
    Ok(rustix::io::fcntl_dupfd_cloexec(file, 3)?)
}

/// Returns the identity of an open file, or None if it is not a regular file.
pub(crate) fn identity_of_regular(file: &File) -> io::Result<Option<Identity>> {
    let wanted = StatxFlags::INO | StatxFlags::TYPE;
    let stat = rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, wanted)?;
    let kind = rustix::fs::FileType::from_raw_mode(u32::from(stat.stx_mode));
    Ok((kind == rustix::fs::FileType::RegularFile).then(|| identity(&stat)))
}

/// Returns the identity of what stands at a path now, or None if nothing does.
///
/// Only the inode number is asked for: asking for times would make the kernel stamp the
/// next write with a fine-grained time, which costs as much as the write.
pub(crate) fn identity_at(path: &Path) -> io::Result<Option<Identity>> {
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    match rustix::fs::statx(rustix::fs::CWD, path, flags, StatxFlags::INO) {
        Ok(stat) => Ok(Some(identity(&stat))),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn identity(stat: &rustix::fs::Statx) -> Identity {
    Identity {
        device: (stat.stx_dev_major, stat.stx_dev_minor),
        inode: stat.stx_ino,
    }
}

/// `flock` without waiting; false if someone else is in the way.
pub fn try_flock(file: &File, share: Share) -> io::Result<bool> {
    let operation = match share {
        Share::Shared => FlockOperation::NonBlockingLockShared,
        Share::Exclusive => FlockOperation::NonBlockingLockExclusive,
    };
    loop {
        match rustix::fs::flock(file, operation) {
            Ok(()) => return Ok(true),
            Err(Errno::WOULDBLOCK) => return Ok(false),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// `flock` until granted or interrupted by a signal (`ErrorKind::Interrupted`).
pub(crate) fn wait_flock(file: &File, share: Share) -> io::Result<()> {
    let operation = match share {
        Share::Shared => FlockOperation::LockShared,
        Share::Exclusive => FlockOperation::LockExclusive,
    };
    Ok(rustix::fs::flock(file, operation)?)
}

/// Ends the `flock` of this open file, even if other processes have it open.
pub(crate) fn unflock(file: &File) -> io::Result<()> {
    Ok(rustix::fs::flock(file, FlockOperation::Unlock)?)
}

/// Begins to write the dirty pages of a file to the disk, and does not wait for that. If it fails, the sync of the file has more to
/// do.
pub(crate) fn write_back(file: &File) {
    // SAFETY: a plain call with a descriptor that is open; a length of zero means the whole file.
    unsafe {
        libc::sync_file_range(file.as_raw_fd(), 0, 0, libc::SYNC_FILE_RANGE_WRITE);
    }
}

fn byte_lock(kind: libc::c_int, bytes: &Range<u64>) -> libc::flock {
    // SAFETY: `flock` is a plain C struct of integers, for which zero is a valid value.
    let mut lock: libc::flock = unsafe { mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock.l_start = bytes.start as libc::off_t;
    // No length means: up to the end of all offsets.
    lock.l_len = match bytes.end {
        u64::MAX => 0,
        end => (end - bytes.start) as libc::off_t,
    };
    lock
}

fn byte_lock_call(file: &File, command: libc::c_int, lock: &mut libc::flock) -> io::Result<()> {
    // SAFETY: the descriptor is open for as long as `file` is borrowed, and `lock` is a
    // valid `flock` that the kernel reads and, for F_OFD_GETLK, writes.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), command, ptr::from_mut(lock)) };
    if result == -1 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

fn lock_type(share: Share) -> libc::c_int {
    match share {
        Share::Shared => libc::F_RDLCK,
        Share::Exclusive => libc::F_WRLCK,
    }
}

/// Locks a range of bytes without waiting; false if someone else is in the way.
pub fn try_lock_bytes(file: &File, bytes: Range<u64>, share: Share) -> io::Result<bool> {
    let mut lock = byte_lock(lock_type(share), &bytes);
    match byte_lock_call(file, libc::F_OFD_SETLK, &mut lock) {
        Ok(()) => Ok(true),
        Err(error) => match error.raw_os_error() {
            Some(libc::EAGAIN | libc::EACCES) => Ok(false),
            _ => Err(error),
        },
    }
}

/// Locks a range of bytes, waiting until granted or interrupted by a signal.
pub(crate) fn wait_lock_bytes(file: &File, bytes: Range<u64>, share: Share) -> io::Result<()> {
    let mut lock = byte_lock(lock_type(share), &bytes);
    byte_lock_call(file, libc::F_OFD_SETLKW, &mut lock)
}

/// Unlocks a range of bytes.
pub fn unlock_bytes(file: &File, bytes: Range<u64>) -> io::Result<()> {
    let mut lock = byte_lock(libc::F_UNLCK, &bytes);
    byte_lock_call(file, libc::F_OFD_SETLK, &mut lock)
}

/// The range of a lock on bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Over one byte, or some.
    Limited,
    /// To the end of all offsets.
    Endless,
}

/// Returns whether another open file has any of these bytes locked, and how far one such lock
/// reaches. Takes nothing.
pub(crate) fn lock_on_bytes(file: &File, bytes: Range<u64>) -> io::Result<Option<Reach>> {
    let mut lock = byte_lock(libc::F_WRLCK, &bytes);
    byte_lock_call(file, libc::F_OFD_GETLK, &mut lock)?;
    if libc::c_int::from(lock.l_type) == libc::F_UNLCK {
        return Ok(None);
    }
    Ok(Some(match lock.l_len {
        0 => Reach::Endless,
        _ => Reach::Limited,
    }))
}

/// Returns true if another open file has any of these bytes locked. Takes nothing.
pub(crate) fn bytes_are_locked(file: &File, bytes: Range<u64>) -> io::Result<bool> {
    Ok(lock_on_bytes(file, bytes)?.is_some())
}

/// Returns which processes have `flock`ed the file, by the kernel's list. Takes nothing.
///
/// The kernel gives its list out in pieces, and counts lines anew for each: while other locks come and go, a
/// line can be read twice, or be missed. The answer is for people, and decides nothing.
pub(crate) fn flock_holders(file: &File) -> io::Result<Vec<(u32, Share)>> {
    let Some(identity) = identity_of_regular(file)? else {
        return Ok(Vec::new());
    };
    let list = std::fs::read_to_string("/proc/locks")?;
    let mut holders = Vec::new();
    for holder in list.lines().filter_map(|line| flock_in(line, identity)) {
        if !holders.contains(&holder) {
            holders.push(holder);
        }
    }
    Ok(holders)
}

/// A line is like `7: FLOCK  ADVISORY  WRITE 4242 fd:01:131077 0 EOF`; those who wait have
/// `->` before the kind.
fn flock_in(line: &str, wanted: Identity) -> Option<(u32, Share)> {
    let mut fields = line.split_ascii_whitespace().skip(1);
    if fields.next()? != "FLOCK" {
        return None;
    }
    let share = match fields.nth(1)? {
        "WRITE" => Share::Exclusive,
        _ => Share::Shared,
    };
    let pid = fields.next()?.parse().ok()?;
    let mut file = fields.next()?.split(':');
    let mut device = || u32::from_str_radix(file.next()?, 16).ok();
    let device = (device()?, device()?);
    let inode = file.next()?.parse().ok()?;
    (Identity { device, inode } == wanted).then_some((pid, share))
}

/// Returns the magic number of the file system a path is on.
pub(crate) fn file_system_magic(path: &Path) -> io::Result<i64> {
    Ok(rustix::fs::statfs(path)?.f_type as i64)
}

/// Counts the forks between the first call and now, in this line of processes: two calls
/// that answer differently were made by different processes.
pub(crate) fn fork_generation() -> u32 {
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

/// The signal that interrupts a waiting thread. Ignored by default, and programs that
/// use it must expect it at any time.
const INTERRUPT: libc::c_int = libc::SIGURG;

/// A thread of this process that can be made to leave a blocking system call.
pub(crate) struct ThreadToInterrupt {
    process: rustix::process::Pid,
    thread: rustix::process::Pid,
}

impl ThreadToInterrupt {
    /// Returns the calling thread.
    pub(crate) fn this() -> io::Result<Self> {
        install_interrupt_handler()?;
        Ok(Self {
            process: rustix::process::getpid(),
            thread: rustix::thread::gettid(),
        })
    }

    /// Signals it. The caller makes sure that the thread has not ended.
    pub(crate) fn interrupt(&self) {
        let (process, thread) = (self.process.as_raw_pid(), self.thread.as_raw_pid());
        // SAFETY: a system call with three integers. It fails only if there is no such thread.
        unsafe { libc::syscall(libc::SYS_tgkill, process, thread, INTERRUPT) };
    }
}

/// Keeps the signals of the program away from a thread of ours: its handlers expect the
/// stacks of its own threads.
pub(crate) fn block_signals() {
    // SAFETY: zero is a valid `sigset_t`, filled before use; all pointers are valid.
    unsafe {
        let mut signals: libc::sigset_t = mem::zeroed();
        libc::sigfillset(&mut signals);
        libc::pthread_sigmask(libc::SIG_BLOCK, &signals, ptr::null_mut());
    }
}

/// Makes sure that the signal interrupts system calls of this thread.
///
/// A handler someone else installed stays; only its wish to restart calls is dropped, since
/// a restarted call would wait past its deadline.
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

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn the_kernels_list_of_locks_is_read() {
        let wanted = Identity {
            device: (0xfd, 1),
            inode: 131_077,
        };
        let of = |line: &str| flock_in(line, wanted);
        let write = "7: FLOCK  ADVISORY  WRITE 4242 fd:01:131077 0 EOF";
        assert_eq!(of(write), Some((4242, Share::Exclusive)));
        assert_eq!(
            of(&write.replace("WRITE", "READ ")),
            Some((4242, Share::Shared))
        );
        assert_eq!(of(&write.replace("FLOCK", "-> FLOCK")), None);
        assert_eq!(of(&write.replace("FLOCK", "OFDLCK")), None);
        assert_eq!(of(&write.replace("131077", "131078")), None);
        assert_eq!(of("garbage"), None);
    }

    #[test]
    fn a_lock_is_in_the_kernels_list_while_it_is_held() {
        let file = tempfile::tempfile().unwrap();
        assert!(try_flock(&file, Share::Exclusive).unwrap());
        let own = (std::process::id(), Share::Exclusive);
        // Other tests take and release locks meanwhile, so one look can miss it.
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            match flock_holders(&file).unwrap().as_slice() {
                [] => assert!(Instant::now() < deadline, "never in the list"),
                holders => break assert_eq!(holders, [own]),
            }
        }
        unflock(&file).unwrap();
        assert_eq!(flock_holders(&file).unwrap(), []);
    }
}
