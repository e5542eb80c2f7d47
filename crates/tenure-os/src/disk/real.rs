//! The disk of this machine.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::buffer::spare_capacity;
use rustix::fs::{
    Access, AtFlags, CWD, FileType, Gid, Mode, OFlags, RenameFlags, Statx, StatxAttributes,
    StatxFlags, StatxTimestamp, Uid,
};
use rustix::io::{Errno, retry_on_intr};

use super::{Attributes, Disk, FileContent, Fresh, Stamp};
use crate::platform::{self, Identity};

/// The calls as the system does them.
pub struct RealDisk;

/// The file systems on which a sync makes a file durable that has no name yet: ext4, xfs, tmpfs. On
/// btrfs the sync saves nothing of it.
const SYNCS_UNNAMED: [i64; 3] = [0xef53, 0x5846_5342, 0x0102_1994];

impl Disk for RealDisk {
    fn read(&self, path: &Path, limit: u64) -> io::Result<Option<FileContent>> {
        let Some(file) = open(path)? else {
            return Ok(None);
        };
        let (attributes, length) = look(&file)?;
        if length > limit {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        // The room has one byte more than the length: a read that leaves it free has met the end.
        let room = length as usize + 1;
        let mut bytes = Vec::with_capacity(room);
        let first = retry_on_intr(|| rustix::io::read(&file, spare_capacity(&mut bytes)))?;
        if first >= room {
            // The file has grown since it was looked at.
            let rest = (limit + 1).saturating_sub(first as u64);
            (&file).take(rest).read_to_end(&mut bytes)?;
        }
        if bytes.len() as u64 > limit {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(Some(FileContent { bytes, attributes }))
    }

    fn content(&self, path: &Path, limit: u64) -> io::Result<Option<Vec<u8>>> {
        let Some(file) = open(path)? else {
            return Ok(None);
        };
        let mut short = [0; SHORT_BYTES];
        let read = retry_on_intr(|| rustix::io::read(&file, &mut short))?;
        // A read below the room for it is the whole file. Anything else needs a look at the file.
        if read > 0 && read < SHORT_BYTES {
            return Ok(Some(short[..read].to_vec()));
        }
        Ok(self.read(path, limit)?.map(|found| found.bytes))
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        match rustix::fs::lstat(path) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn create(&self, path: &Path, mode: u32) -> io::Result<Box<dyn Fresh>> {
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let fd = rustix::fs::open(path, flags, Mode::from_raw_mode(mode))?;
        Ok(Box::new(File::from(fd)))
    }

    fn create_unnamed(&self, directory: &Path, mode: u32) -> io::Result<Box<dyn Fresh>> {
        let magic = platform::file_system_magic(directory)?;
        if !SYNCS_UNNAMED.contains(&magic) {
            return Err(Errno::OPNOTSUPP.into());
        }
        let flags = OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC;
        let fd = rustix::fs::open(directory, flags, Mode::from_raw_mode(mode))?;
        Ok(Box::new(File::from(fd)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn rename_without_replacing(&self, from: &Path, to: &Path) -> io::Result<()> {
        Ok(rustix::fs::renameat_with(
            CWD,
            from,
            CWD,
            to,
            RenameFlags::NOREPLACE,
        )?)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        Ok(rustix::fs::linkat(CWD, from, CWD, to, AtFlags::empty())?)
    }

    fn overwrite(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let mut file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
        file.write_all(bytes)?;
        // Cutting a file to the length it has would be one more change to be saved.
        if file.metadata()?.len() != bytes.len() as u64 {
            file.set_len(bytes.len() as u64)?;
        }
        Ok(())
    }

    fn length(&self, path: &Path) -> io::Result<Option<u64>> {
        match rustix::fs::lstat(path) {
            Ok(found) => Ok(Some(u64::try_from(found.st_size).unwrap_or(0))),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn read_from(&self, path: &Path, offset: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        if let Some(mut file) = open(path)? {
            file.seek(SeekFrom::Start(offset))?;
            file.read_to_end(&mut bytes)?;
        }
        Ok(bytes)
    }

    fn cut(&self, path: &Path, length: u64) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        File::from(rustix::fs::open(path, flags, Mode::empty())?).set_len(length)
    }

    fn append(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let flags =
            OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let mode = Mode::RUSR | Mode::WUSR;
        File::from(rustix::fs::open(path, flags, mode)?).write_all(bytes)
    }

    fn make_directory(&self, path: &Path) -> io::Result<()> {
        fs::create_dir(path)
    }

    fn born(&self, path: &Path) -> io::Result<Option<i128>> {
        let wanted = StatxFlags::BTIME;
        let found = rustix::fs::statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, wanted)?;
        let known = StatxFlags::from_bits_retain(found.stx_mask).contains(wanted);
        Ok(known.then_some(nanos(&found.stx_btime)))
    }

    fn symlink(&self, target: &Path, path: &Path) -> io::Result<()> {
        std::os::unix::fs::symlink(target, path)
    }

    fn set_mode(&self, directory: &Path, mode: u32) -> io::Result<()> {
        fs::set_permissions(directory, fs::Permissions::from_mode(mode))
    }

    fn is_directory(&self, path: &Path) -> io::Result<bool> {
        Ok(fs::symlink_metadata(path)?.is_dir())
    }

    fn is_mount_point(&self, path: &Path) -> io::Result<bool> {
        is_mount_point(path)
    }

    fn require_writable_directory(&self, directory: &Path) -> io::Result<()> {
        Ok(rustix::fs::access(directory, Access::WRITE_OK)?)
    }

    fn remove_tree(&self, directory: &Path) -> io::Result<()> {
        remove_tree(directory)
    }

    fn remove_empty_directory(&self, directory: &Path) -> io::Result<()> {
        fs::remove_dir(directory)
    }

    fn exchange(&self, one: &Path, other: &Path) -> io::Result<()> {
        Ok(rustix::fs::renameat_with(
            CWD,
            one,
            CWD,
            other,
            RenameFlags::EXCHANGE,
        )?)
    }

    fn identity(&self, path: &Path) -> io::Result<Option<Identity>> {
        platform::identity_at(path)
    }

    fn stamp(&self, path: &Path) -> io::Result<Option<Stamp>> {
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        match rustix::fs::statx(CWD, path, flags, StatxFlags::BASIC_STATS) {
            Ok(found) => Ok(Some(stamp(&found))),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
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

    fn require_writable(&self, path: &Path, attributes: &Attributes) -> io::Result<()> {
        let own = rustix::process::geteuid().as_raw();
        // Root may write everything. For other users the mode tells, if the file is their own; only
        // the system knows about groups and access lists.
        if own == 0 || (own == attributes.owner && attributes.mode & 0o200 != 0) {
            return Ok(());
        }
        Ok(rustix::fs::access(path, Access::WRITE_OK)?)
    }
}

/// Removes a tree. A directory that may not be written was published with that mode; it is made
/// writable first.
///
/// A mount in the tree is not part of it: removing it would remove what others still have
/// elsewhere.
fn remove_tree(directory: &Path) -> io::Result<()> {
    let removed = require_no_mounts(directory).and_then(|()| fs::remove_dir_all(directory));
    match removed {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            make_writable(directory)?;
            require_no_mounts(directory)?;
            fs::remove_dir_all(directory)
        }
        removed => removed,
    }
}

fn is_mount_point(path: &Path) -> io::Result<bool> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    let found = rustix::fs::statx(CWD, path, flags, StatxFlags::empty())?;
    Ok(found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

fn require_no_mount(directory: &Path) -> io::Result<()> {
    if !is_mount_point(directory)? {
        return Ok(());
    }
    let problem = format!(
        "something is mounted on {}: unmount it, then recover again",
        directory.display()
    );
    Err(io::Error::new(io::ErrorKind::ResourceBusy, problem))
}

fn require_no_mounts(directory: &Path) -> io::Result<()> {
    require_no_mount(directory)?;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            require_no_mounts(&entry.path())?;
        }
    }
    Ok(())
}

fn make_writable(directory: &Path) -> io::Result<()> {
    require_no_mount(directory)?;
    fs::set_permissions(directory, fs::Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            make_writable(&entry.path())?;
        }
    }
    Ok(())
}

/// Files up to this length are read without a look at their length.
const SHORT_BYTES: usize = 4096;

/// Opens a file for reading, following no link. It does not block: a pipe in the place of a file
/// must not hold anyone up.
fn open(path: &Path) -> io::Result<Option<File>> {
    let flags =
        OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(fd) => Ok(Some(File::from(fd))),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns the attributes of an open file, and its length, if it is a regular one.
fn look(file: &File) -> io::Result<(Attributes, u64)> {
    let found = rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS)?;
    let mode = u32::from(found.stx_mode);
    if FileType::from_raw_mode(mode) != FileType::RegularFile {
        let problem = "it is not a regular file";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
    }
    let attributes = Attributes {
        mode: mode & 0o7777,
        owner: found.stx_uid,
        group: found.stx_gid,
        device: rustix::fs::makedev(found.stx_dev_major, found.stx_dev_minor),
        mounted_on: found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT),
        stamp: stamp(&found),
    };
    Ok((attributes, found.stx_size))
}

fn stamp(found: &Statx) -> Stamp {
    Stamp {
        identity: platform::identity(found),
        length: found.stx_size,
        content_changed: nanos(&found.stx_mtime),
        changed: nanos(&found.stx_ctime),
    }
}

fn nanos(at: &StatxTimestamp) -> i128 {
    i128::from(at.tv_sec) * 1_000_000_000 + i128::from(at.tv_nsec)
}

impl Fresh for File {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes)
    }

    fn link(&self, path: &Path) -> io::Result<()> {
        let own = format!("/proc/self/fd/{}", self.as_raw_fd());
        Ok(rustix::fs::linkat(
            CWD,
            own,
            CWD,
            path,
            AtFlags::SYMLINK_FOLLOW,
        )?)
    }

    fn identity(&self) -> io::Result<Identity> {
        let found = platform::identity_of_regular(self)?;
        found.ok_or_else(|| io::ErrorKind::InvalidInput.into())
    }

    fn write_back(&self) {
        platform::write_back(self);
    }

    fn attributes(&self) -> io::Result<Attributes> {
        Ok(look(self)?.0)
    }

    fn dress(&mut self, own: &Attributes, like: &Attributes) -> io::Result<()> {
        if (own.owner, own.group) != (like.owner, like.group) {
            let (owner, group) = (Uid::from_raw(like.owner), Gid::from_raw(like.group));
            rustix::fs::fchown(&*self, Some(owner), Some(group))?;
        }
        if own.mode != like.mode {
            // The mode is set after the owner: changing the owner takes away the set-id bits.
            rustix::fs::fchmod(&*self, Mode::from_raw_mode(like.mode))?;
        }
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_all()
    }
}
