//! Lock directories: the file system calls of the protocol.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::SystemTime;

use rustix::fs::{CWD, RenameFlags};
use rustix::io::Errno;
use tenure_core::{Error, Result};

/// The identity of a directory. Directories that exist at the same time differ in it, and an open
/// directory exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DirectoryIdentity {
    device: u64,
    inode: u64,
}

/// A lock directory as it was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LockDirectory {
    pub(super) identity: DirectoryIdentity,
    pub(super) modified: SystemTime,
}

/// Returns the lock directory at a path, or `None` if nothing is there.
pub(super) fn look(path: &Path) -> Result<Option<LockDirectory>> {
    let fail = |source| Error::io("look at", path, source);
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(fail(error)),
    };
    if !metadata.is_dir() {
        return Err(Error::corrupt(
            path.to_owned(),
            "it is not a directory, as a lock of proper-lockfile is; \
                      remove it if no program needs it",
        ));
    }
    lock_directory(&metadata).map(Some).map_err(fail)
}

fn lock_directory(metadata: &fs::Metadata) -> io::Result<LockDirectory> {
    Ok(LockDirectory {
        identity: DirectoryIdentity {
            device: metadata.dev(),
            inode: metadata.ino(),
        },
        modified: metadata.modified()?,
    })
}

/// Makes a directory under a name that only this process knows, with the present time.
pub(super) fn make(path: &Path) -> Result<(File, LockDirectory)> {
    // Node gives the directory this mode.
    let made = DirBuilder::new().mode(0o777).create(path);
    made.map_err(|source| Error::io("create", path, source))?;
    let opened = open(path).and_then(|directory| {
        let seen = touch(&directory)?;
        Ok((directory, seen))
    });
    opened.map_err(|source| {
        // The first error is the one to report.
        let _ = fs::remove_dir(path);
        Error::io("open", path, source)
    })
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    options.custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW);
    options.open(path)
}

/// Sets the time of an open directory to now, and reads it back as the file system keeps it.
pub(super) fn touch(directory: &File) -> io::Result<LockDirectory> {
    directory.set_modified(SystemTime::now())?;
    lock_directory(&directory.metadata()?)
}

/// The outcome of a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moved {
    Done,
    /// The new path is taken.
    Taken,
    /// Nothing was at the old path.
    Gone,
}

/// Moves a directory, replacing nothing.
pub(super) fn rename(from: &Path, to: &Path) -> Result<Moved> {
    match rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(Moved::Done),
        Err(Errno::EXIST | Errno::NOTEMPTY) => Ok(Moved::Taken),
        Err(Errno::NOENT) => Ok(Moved::Gone),
        Err(error) => Err(Error::io("rename", from, error)),
    }
}

/// Removes a directory. Returns false if something is in it, which is left alone.
pub(super) fn remove(path: &Path) -> Result<bool> {
    match fs::remove_dir(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(true),
        Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => Ok(false),
        Err(error) => Err(Error::io("remove", path, error)),
    }
}
