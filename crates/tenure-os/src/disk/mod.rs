//! The few calls to the file system from which the protocols of documents, ledgers and boards are
//! made.
//!
//! Everything that must survive a crash goes through a [`Disk`]: the [real one](RealDisk), or, in
//! tests, a simulated one that knows what is durable. The simulated one loses what was not synced,
//! reorders what POSIX lets it reorder, and fails or stops at any call; so every crash of every
//! protocol can be tried. Locks are not its business: the kernel ends them with the process.
//!
//! # What a protocol may rely on
//!
//! - A file's content is durable once [`Fresh::sync`] returned.
//! - A name (created, renamed, removed) is durable once [`Disk::sync_directory`] returned.
//! - After a crash a name that was being replaced means the old file or the new one. So do both
//!   names of files that were being exchanged, each on its own.
//! - Directories are made, renamed and exchanged in the order of the calls, each wholly or not at
//!   all. A sync of the directory above keeps such a change and all before it. This relies on the
//!   journal of the file system.
//! - Nothing else is promised: not the order of two calls, not that content gets there before its
//!   name.

mod real;
#[cfg(feature = "simulation")]
#[doc(hidden)]
pub mod simulated;

use std::ffi::OsString;
use std::io;
use std::path::Path;

use crate::platform::Identity;
pub use real::RealDisk;

/// The calls of the protocols.
pub trait Disk: Send + Sync {
    /// Returns a whole regular file, or `None` if there is none; a file above `limit` bytes is
    /// `ErrorKind::FileTooLarge`. A symbolic link in its place is not followed.
    fn read(&self, path: &Path, limit: u64) -> io::Result<Option<FileContent>>;

    /// Returns the content alone, which for a short file is cheaper.
    fn content(&self, path: &Path, limit: u64) -> io::Result<Option<Vec<u8>>> {
        Ok(self.read(path, limit)?.map(|found| found.bytes))
    }

    /// Returns true if anything has this name. It costs half as much as a read, where mostly
    /// nothing has the name.
    fn exists(&self, path: &Path) -> io::Result<bool> {
        Ok(self.read(path, u64::MAX - 1)?.is_some())
    }

    /// Creates an empty file of this mode, less what the process's umask takes away. A name that is
    /// taken is an error.
    fn create(&self, path: &Path, mode: u32) -> io::Result<Box<dyn Fresh>>;

    /// Creates an empty file that has no name until [`Fresh::link`] gives it one, so that a process
    /// that dies leaves nothing. Not every file system has such files, or syncs them.
    fn create_unnamed(&self, directory: &Path, mode: u32) -> io::Result<Box<dyn Fresh>>;

    /// Gives a file another name, in place of what has that name. A directory is renamed, too, but
    /// replaces nothing.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Gives a file another name that nothing has yet. A name that is taken is an error.
    fn rename_without_replacing(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Gives a file a second name that nothing has yet. A name that is taken is an error.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Replaces the content of a file, which is not atomic.
    fn overwrite(&self, path: &Path, bytes: &[u8]) -> io::Result<()>;

    /// Returns how long a file is, or None if there is none.
    fn length(&self, path: &Path) -> io::Result<Option<u64>> {
        let found = self.read(path, u64::MAX - 1)?;
        Ok(found.map(|found| found.bytes.len() as u64))
    }

    /// Returns the bytes of a file from an offset to its end; none of a file that is shorter.
    fn read_from(&self, path: &Path, offset: u64) -> io::Result<Vec<u8>> {
        let found = self.read(path, u64::MAX - 1)?;
        let bytes = found.map_or_else(Vec::new, |found| found.bytes);
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        Ok(bytes.get(offset..).unwrap_or_default().to_vec())
    }

    /// Cuts a file that is at least this long to this length.
    fn cut(&self, path: &Path, length: u64) -> io::Result<()>;

    /// Adds to the end of a file; creates it if there is none.
    fn append(&self, path: &Path, bytes: &[u8]) -> io::Result<()>;

    /// Makes a directory. A name that is taken is an error.
    fn make_directory(&self, path: &Path) -> io::Result<()>;

    /// Exchanges two names in one step: of two files, or of two directories.
    fn exchange(&self, one: &Path, other: &Path) -> io::Result<()>;

    /// Returns the identity of the file of this name, or `None` if there is none.
    fn identity(&self, path: &Path) -> io::Result<Option<Identity>>;

    /// Returns the stamp by which a file is compared with one that was read, or `None` if there is
    /// none.
    fn stamp(&self, path: &Path) -> io::Result<Option<Stamp>>;

    /// Returns when the file of this name was made, in nanoseconds, where the file system knows. It
    /// tells files apart whose inode number was used again.
    fn born(&self, _: &Path) -> io::Result<Option<i128>> {
        Ok(None)
    }

    /// Makes a symbolic link. A name that is taken is an error.
    fn symlink(&self, target: &Path, path: &Path) -> io::Result<()>;

    /// Sets the permission bits of a directory.
    fn set_mode(&self, directory: &Path, mode: u32) -> io::Result<()>;

    /// Returns true if the name is that of a directory, not of a link to one.
    fn is_directory(&self, path: &Path) -> io::Result<bool>;

    /// Returns true if another file system, or another part of this one, is mounted at the name.
    fn is_mount_point(&self, _: &Path) -> io::Result<bool> {
        Ok(false)
    }

    /// Fails if this user may not write to the directory. Such a directory cannot be moved to
    /// another one either.
    fn require_writable_directory(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    /// Removes a directory and everything in it, following no link. If something is mounted in it,
    /// nothing is removed. A crash may leave a part of it.
    fn remove_tree(&self, directory: &Path) -> io::Result<()>;

    /// Removes a directory that has nothing in it; else `ErrorKind::DirectoryNotEmpty`.
    fn remove_empty_directory(&self, directory: &Path) -> io::Result<()>;

    /// Removes a name.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes the names in a directory durable.
    fn sync_directory(&self, directory: &Path) -> io::Result<()>;

    /// Returns all names in a directory.
    fn names(&self, directory: &Path) -> io::Result<Vec<OsString>>;

    /// Makes the content of a file durable, whichever process wrote it.
    fn sync_file(&self, path: &Path) -> io::Result<()>;

    /// Fails if this user may not write to the file, although it could be renamed over.
    fn require_writable(&self, path: &Path, attributes: &Attributes) -> io::Result<()>;
}

/// A file that was just created and is being written.
pub trait Fresh: Send {
    /// Adds to its content.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Gives it a name, or one more. A name that is taken is an error.
    fn link(&self, path: &Path) -> io::Result<()>;

    /// Returns its identity, which no other file has.
    fn identity(&self) -> io::Result<Identity>;

    /// Has the kernel begin to write what it was given to the disk, so that less is left for the
    /// sync of a large file. Nothing is durable by it.
    fn write_back(&self) {}

    /// Returns its attributes.
    fn attributes(&self) -> io::Result<Attributes>;

    /// Gives it the mode and the owner of another file, where its own differ.
    fn dress(&mut self, own: &Attributes, like: &Attributes) -> io::Result<()>;

    /// Makes its content durable.
    fn sync(&mut self) -> io::Result<()>;
}

/// A file that was read.
pub struct FileContent {
    /// The content.
    pub bytes: Vec<u8>,
    /// The attributes, as they were when it was read.
    pub attributes: Attributes,
}

/// The attributes of a file: those that its replacement should have, too, and its stamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes {
    /// The permission bits.
    pub mode: u32,
    /// The user it belongs to.
    pub owner: u32,
    /// The group it belongs to.
    pub group: u32,
    /// The device it is on, which cannot be changed: a file on another one cannot be replaced.
    pub device: u64,
    /// True if something is mounted on it, so that it cannot be replaced either.
    pub mounted_on: bool,
    /// The stamp of the file when this was looked at.
    pub stamp: Stamp,
}

/// The facts by which a file is compared with one that was read. Times are in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// The identity of the file.
    pub identity: Identity,
    /// The length in bytes.
    pub length: u64,
    /// The time at which its content changed last.
    pub content_changed: i128,
    /// The time at which its content, its attributes or its names changed last.
    pub changed: i128,
}

impl Stamp {
    /// Returns true if it is the same file with the same content. Its name may have changed since.
    pub fn is_but_for_its_name(&self, earlier: &Stamp) -> bool {
        let changed = earlier.changed;
        Stamp { changed, ..*self } == *earlier
    }
}
