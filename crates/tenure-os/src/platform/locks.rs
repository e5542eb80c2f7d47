//! Kernel locks on open files.
//!
//! `flock` is what other programs use and see. Open-file-description locks on single
//! bytes (`F_OFD_SETLK`) belong to the same open file, are invisible to `flock`, can be
//! asked about without being taken, and end with the last descriptor, like `flock`.

use std::fs::File;
use std::io;
use std::mem;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::ptr;

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use super::files::{Identity, identity_of_regular};

/// The mode in which a byte is locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// Others may share it.
    Shared,
    /// No other open file may have it.
    Exclusive,
}

/// Takes a `flock` without waiting; returns false if another open file is in the way.
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

/// Waits for a `flock` until granted or interrupted by a signal (`ErrorKind::Interrupted`).
pub fn wait_flock(file: &File, share: Share) -> io::Result<()> {
    let operation = match share {
        Share::Shared => FlockOperation::LockShared,
        Share::Exclusive => FlockOperation::LockExclusive,
    };
    Ok(rustix::fs::flock(file, operation)?)
}

/// Ends the `flock` of this open file, even if other processes have it open.
pub fn unflock(file: &File) -> io::Result<()> {
    Ok(rustix::fs::flock(file, FlockOperation::Unlock)?)
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

/// Locks a range of bytes without waiting; returns false if another open file is in the way.
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
pub fn wait_lock_bytes(file: &File, bytes: Range<u64>, share: Share) -> io::Result<()> {
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
pub enum Reach {
    /// Over one byte, or some.
    Limited,
    /// To the end of all offsets.
    Endless,
}

/// Returns how far a lock reaches that another open file has on any of these bytes; `None` if there
/// is none. Takes nothing.
pub fn lock_on_bytes(file: &File, bytes: Range<u64>) -> io::Result<Option<Reach>> {
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
pub fn bytes_are_locked(file: &File, bytes: Range<u64>) -> io::Result<bool> {
    Ok(lock_on_bytes(file, bytes)?.is_some())
}

/// Returns the processes that have `flock`ed the file, by the kernel's list. Takes nothing.
///
/// The kernel gives its list out in pieces, and counts lines anew for each: while other locks come
/// and go, a line can be read twice, or be missed. The answer is for people, and decides nothing.
pub fn flock_holders(file: &File) -> io::Result<Vec<(u32, Share)>> {
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

/// Reads a line like `7: FLOCK  ADVISORY  WRITE 4242 fd:01:131077 0 EOF`. A line of a waiter has
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
