//! The calls to the Linux kernel that only this crate makes, and nothing else. Locks are those of
//! `tenure_files`.

#[cfg(not(target_os = "linux"))]
compile_error!(
    "tenure-sqlite needs Linux: its proofs of life rest on flock, its clock on BOOTTIME"
);

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{Access, AtFlags, FileType, Mode, OFlags, StatxFlags};
use rustix::io::Errno;
pub(crate) use tenure_os::platform::{
    Share, duplicate, holders_of_flock, host_name, is_gone, signal_holder_of_flock, try_flock,
    try_lock_bytes, unlock_bytes,
};

/// The identity of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileIdentity {
    /// The device it is on.
    pub(crate) device: u64,
    /// Its inode there.
    pub(crate) inode: u64,
}

/// The status of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileStatus {
    pub(crate) identity: FileIdentity,
    pub(crate) kind: FileType,
    /// Its length in bytes.
    pub(crate) length: u64,
    /// The user it belongs to.
    pub(crate) owner: u32,
    /// Its permission bits.
    pub(crate) mode: u32,
}

const WANTED: StatxFlags = StatxFlags::INO
    .union(StatxFlags::TYPE)
    .union(StatxFlags::MODE)
    .union(StatxFlags::UID)
    .union(StatxFlags::SIZE);

const OWNER_ONLY: Mode = Mode::RUSR.union(Mode::WUSR);

/// Makes a directory that only its owner enters. A directory that is there already stays as it is.
pub(crate) fn make_directory(path: &Path) -> io::Result<()> {
    match rustix::fs::mkdir(path, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Creates a regular file for its owner only. Returns `None` if something is there already.
pub(crate) fn create_new(path: &Path) -> io::Result<Option<File>> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::open(path, flags, OWNER_ONLY) {
        Ok(fd) => Ok(Some(File::from(fd))),
        Err(Errno::EXIST) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Opens a regular file for reading and writing, creating it, never following a link.
pub(crate) fn open_or_create(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::open(
        path,
        flags | OFlags::NONBLOCK,
        OWNER_ONLY,
    )?))
}

/// Opens a file for reading. Returns `None` if there is nothing, or something that is no file.
pub(crate) fn open_to_look(path: &Path) -> io::Result<Option<File>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(fd) => Ok(Some(File::from(fd))),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NXIO) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns the status of the file at a path, without following links, or `None` if there is none.
pub(crate) fn status_at(path: &Path) -> io::Result<Option<FileStatus>> {
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    match rustix::fs::statx(rustix::fs::CWD, path, flags, WANTED) {
        Ok(stat) => Ok(Some(status(&stat))),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns the status of an open file.
pub(crate) fn status_of(file: &File) -> io::Result<FileStatus> {
    let stat = rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, WANTED)?;
    Ok(status(&stat))
}

fn status(stat: &rustix::fs::Statx) -> FileStatus {
    FileStatus {
        identity: FileIdentity {
            device: rustix::fs::makedev(stat.stx_dev_major, stat.stx_dev_minor),
            inode: stat.stx_ino,
        },
        kind: FileType::from_raw_mode(u32::from(stat.stx_mode)),
        length: stat.stx_size,
        owner: stat.stx_uid,
        mode: u32::from(stat.stx_mode) & 0o7777,
    }
}

/// Returns the effective user of this process.
pub(crate) fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Removes a file. A file that is gone already is no error.
pub(crate) fn unlink(path: &Path) -> io::Result<()> {
    match rustix::fs::unlink(path) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Returns the reason why a file cannot be written: the error of the system, or missing permission.
pub(crate) fn why_not_writable(path: &Path) -> io::Error {
    match rustix::fs::access(path, Access::WRITE_OK) {
        Ok(()) => io::ErrorKind::PermissionDenied.into(),
        Err(error) => error.into(),
    }
}

/// Makes a FIFO for its owner only. A FIFO that is there already stays as it is.
pub(crate) fn make_fifo(path: &Path) -> io::Result<()> {
    match rustix::fs::mknodat(rustix::fs::CWD, path, FileType::Fifo, OWNER_ONLY, 0) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Opens a FIFO for both ends, so that neither opening nor writing blocks, and no write raises
/// SIGPIPE. Returns `None` if there is no FIFO.
pub(crate) fn open_fifo(path: &Path) -> io::Result<Option<File>> {
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(fd) => File::from(fd),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let is_fifo = status_of(&file)?.kind == FileType::Fifo;
    Ok(is_fifo.then_some(file))
}

/// Returns a descriptor that becomes readable when the process ends.
pub(crate) fn open_process(pid: u32) -> io::Result<OwnedFd> {
    let pid = i32::try_from(pid)
        .ok()
        .and_then(rustix::process::Pid::from_raw)
        .ok_or(io::ErrorKind::InvalidInput)?;
    let flags = rustix::process::PidfdFlags::NONBLOCK;
    Ok(rustix::process::pidfd_open(pid, flags)?)
}

/// Renames a file to a name that must not exist yet.
pub(crate) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    let (here, flags) = (rustix::fs::CWD, rustix::fs::RenameFlags::NOREPLACE);
    Ok(rustix::fs::renameat_with(here, from, here, to, flags)?)
}
