//! Lock files: opening them, and telling which file a path or a descriptor means.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags};
use rustix::io::Errno;

/// The identity of the file that a path or descriptor means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Identity {
    pub(super) device: (u32, u32),
    pub(super) inode: u64,
}

impl Identity {
    /// Returns the inode number, which with the device names a file while it is there.
    pub fn inode(self) -> u64 {
        self.inode
    }

    /// Returns the device as people know it.
    pub fn device_name(self) -> String {
        format!("{}:{}", self.device.0, self.device.1)
    }

    /// Returns the identity of a file on a simulated disk.
    #[cfg(feature = "simulation")]
    pub fn simulated(inode: u64) -> Self {
        let device = (0, 0);
        Self { device, inode }
    }
}

/// Opens a lock file for reading and writing, creating it, never truncating it and never
/// following a symbolic link in its place. The descriptor closes on exec.
pub fn open_or_create(path: &Path) -> io::Result<File> {
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
pub fn open_to_look(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let fd = rustix::fs::open(path, flags, Mode::empty())?;
    Ok(File::from(fd))
}

/// Returns another descriptor of the same open file; it closes on exec.
pub fn duplicate(file: &File) -> io::Result<OwnedFd> {
    Ok(rustix::io::fcntl_dupfd_cloexec(file, 3)?)
}

/// Returns the identity of an open file, or None if it is not a regular file.
pub fn identity_of_regular(file: &File) -> io::Result<Option<Identity>> {
    let wanted = StatxFlags::INO | StatxFlags::TYPE;
    let stat = rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, wanted)?;
    let kind = rustix::fs::FileType::from_raw_mode(u32::from(stat.stx_mode));
    Ok((kind == rustix::fs::FileType::RegularFile).then(|| identity(&stat)))
}

/// Returns the identity of the file at a path now, or None if there is none.
///
/// Only the inode number is asked for: asking for times would make the kernel stamp the
/// next write with a fine-grained time, which costs as much as the write.
pub fn identity_at(path: &Path) -> io::Result<Option<Identity>> {
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    match rustix::fs::statx(rustix::fs::CWD, path, flags, StatxFlags::INO) {
        Ok(stat) => Ok(Some(identity(&stat))),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns the identity from the kernel's answer about a file.
pub(crate) fn identity(stat: &rustix::fs::Statx) -> Identity {
    Identity {
        device: (stat.stx_dev_major, stat.stx_dev_minor),
        inode: stat.stx_ino,
    }
}

/// Begins to write the dirty pages of a file to the disk, and does not wait for that. If it fails,
/// the sync of the file has more to do.
pub fn write_back(file: &File) {
    // SAFETY: a plain call with a descriptor that is open; a length of zero means the whole file.
    unsafe {
        libc::sync_file_range(file.as_raw_fd(), 0, 0, libc::SYNC_FILE_RANGE_WRITE);
    }
}

/// Returns the magic number of the file system a path is on.
pub fn file_system_magic(path: &Path) -> io::Result<i64> {
    Ok(rustix::fs::statfs(path)?.f_type as i64)
}
