//! The disk there is.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{Access, AtFlags, Gid, Mode, OFlags, StatxAttributes, StatxFlags, Uid};

use super::{Attributes, Disk, Found, Fresh};

/// The calls as the system does them.
pub(crate) struct RealDisk;

impl Disk for RealDisk {
    fn read(&self, path: &Path, limit: u64) -> io::Result<Option<Found>> {
        // Not blocking: a pipe in the place of a file must not hold anyone up.
        let flags =
            OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = match rustix::fs::open(path, flags, Mode::empty()) {
            Ok(fd) => File::from(fd),
            Err(rustix::io::Errno::NOENT) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "it is not a regular file",
            ));
        }
        // One byte more than there should be: a read that leaves it free has met the end.
        let room = metadata.len().min(limit) as usize + 1;
        let mut bytes = Vec::with_capacity(room);
        let first = rustix::io::retry_on_intr(|| {
            rustix::io::read(&file, rustix::buffer::spare_capacity(&mut bytes))
        })?;
        if first >= room {
            // It has grown since.
            let rest = (limit + 1).saturating_sub(first as u64);
            (&file).take(rest).read_to_end(&mut bytes)?;
        }
        if bytes.len() as u64 > limit {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(Some(Found {
            bytes,
            attributes: attributes(&metadata),
        }))
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        match rustix::fs::lstat(path) {
            Ok(_) => Ok(true),
            Err(rustix::io::Errno::NOENT) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn create(&self, path: &Path, mode: u32) -> io::Result<Box<dyn Fresh>> {
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let fd = rustix::fs::open(path, flags, Mode::from_raw_mode(mode))?;
        Ok(Box::new(File::from(fd)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::DIRECTORY;
        let directory = rustix::fs::open(directory, flags, Mode::empty())?;
        Ok(rustix::fs::fsync(directory)?)
    }

    fn names(&self, directory: &Path) -> io::Result<Vec<OsString>> {
        let name = |entry: io::Result<fs::DirEntry>| entry.map(|entry| entry.file_name());
        fs::read_dir(directory)?.map(name).collect()
    }

    fn sync_file(&self, path: &Path) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = rustix::fs::open(path, flags, Mode::empty())?;
        Ok(rustix::fs::fsync(file)?)
    }

    fn require_replaceable(&self, path: &Path) -> io::Result<()> {
        rustix::fs::access(path, Access::WRITE_OK)?;
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        let found = rustix::fs::statx(rustix::fs::CWD, path, flags, StatxFlags::TYPE)?;
        match found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT) {
            true => Err(io::Error::new(
                io::ErrorKind::ResourceBusy,
                "something is mounted on it",
            )),
            false => Ok(()),
        }
    }
}

impl Fresh for File {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes)
    }

    fn attributes(&self) -> io::Result<Attributes> {
        Ok(attributes(&self.metadata()?))
    }

    fn dress(&mut self, own: &Attributes, like: &Attributes) -> io::Result<()> {
        if (own.owner, own.group) != (like.owner, like.group) {
            let (owner, group) = (Uid::from_raw(like.owner), Gid::from_raw(like.group));
            rustix::fs::fchown(&*self, Some(owner), Some(group))?;
        }
        if own.mode != like.mode {
            // After the owner, as changing that takes away the bits for other identities.
            rustix::fs::fchmod(&*self, Mode::from_raw_mode(like.mode))?;
        }
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_all()
    }
}

fn attributes(metadata: &fs::Metadata) -> Attributes {
    Attributes {
        mode: metadata.mode() & 0o7777,
        owner: metadata.uid(),
        group: metadata.gid(),
        device: metadata.dev(),
    }
}
