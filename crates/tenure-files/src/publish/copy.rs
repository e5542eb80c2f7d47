//! Steps 2 to 5: a copy of a directory, hashed in the same pass and synced.

use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::OFlags;
use tenure_core::internal::lock;
use tenure_core::{Error, Result};
use tenure_lockfile::resource_of;
use tenure_os::cancel::Cancel;
use tenure_os::disk::Attributes;

use super::hashing::Hashing;
use super::verify::{hex, published_file, published_link};
use super::{Inode, PublishTarget, PublishedFile};

/// The largest number of files, and of directories, that a publish accepts.
pub const FILES_MAX: usize = 100_000;
/// The number of bytes of a file after which the kernel begins to write them to the disk.
const WRITE_BACK_BYTES: u64 = 16 << 20;

/// The bits that let a program run with the rights of its owner and group.
const SETUID_AND_SETGID: u32 = 0o6000;

/// The progress of a copy, for an observer.
#[derive(Default)]
pub struct Progress {
    /// The number of files that are copied.
    pub files: AtomicU64,
    /// The number of bytes that are copied.
    pub bytes: AtomicU64,
    /// Ends the copy, and the wait for the lock after it.
    pub cancel: Cancel,
    /// The files and directories that lost setuid or setgid, as their copies have another owner.
    pub unprivileged: Mutex<Vec<PathBuf>>,
    /// The files that had file capabilities, which are never copied.
    pub incapable: Mutex<Vec<PathBuf>>,
}

/// A copy that is whole and synced.
#[derive(Debug)]
pub struct Copied {
    /// Its files and links, sorted by path.
    pub files: Vec<PublishedFile>,
    /// The permission bits that the directory is to have once it is in place.
    pub mode: u32,
    /// The number of bytes of its files.
    pub bytes: u64,
}

/// The attributes that differ if a file or directory has changed.
#[derive(PartialEq, Eq)]
struct Stamp {
    inode: (u64, u64),
    length: u64,
    changed: (i64, i64, i64, i64),
}

impl Stamp {
    fn of(found: &Metadata) -> Self {
        Self {
            inode: (found.dev(), found.ino()),
            length: found.len(),
            changed: (
                found.mtime(),
                found.mtime_nsec(),
                found.ctime(),
                found.ctime_nsec(),
            ),
        }
    }
}

struct Copy<'a> {
    publish_target: &'a PublishTarget,
    progress: &'a Progress,
    /// The largest number of files and links, and of directories.
    count_max: usize,
    files_count: usize,
    directories_count: usize,
    files: Vec<PublishedFile>,
    /// The paths that were read, as they were before.
    stamps: Vec<(PathBuf, Stamp)>,
    /// The directories that were made, each with the mode it is to have; the outer ones first.
    directories: Vec<(PathBuf, u32)>,
    bytes: u64,
}

impl PublishTarget {
    /// Checks that a directory can be published here, before anything is written.
    ///
    /// # Errors
    ///
    /// `NotFound` if the source is not there; `BadInput` if it is no directory, if the copy would
    /// be made inside of it, or if it would be removed with the old target.
    pub fn check_source(&self, source: &Path) -> Result<()> {
        let shown = source.display();
        let found = match fs::symlink_metadata(source) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(Error::NotFound(format!("there is no directory {shown}")));
            }
            found => found.map_err(|error| Error::io("read", source, error))?,
        };
        if !found.is_dir() {
            return Err(Error::BadInput(format!("{shown} is no directory")));
        }
        let real = fs::canonicalize(source).map_err(|error| Error::io("find", source, error))?;
        let target = self.target();
        if self.tmp().starts_with(&real) || real.starts_with(target) {
            return Err(Error::BadInput(format!(
                "{shown} and {} are one inside the other: publish to a place outside of {shown}",
                target.display()
            )));
        }
        Ok(())
    }

    /// Makes tmp, and returns its inode. The caller writes the inode to the manifest, durably,
    /// before anything is copied: without it, recovery could not tell tmp from a stranger's
    /// directory of that name.
    ///
    /// # Errors
    ///
    /// `BadInput` if tmp is on another device than the target.
    pub fn make_tmp(&self) -> Result<Inode> {
        let above = self.tmp().parent().unwrap_or(Path::new("/"));
        match self.disk.make_directory(above) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(Error::io("make", above, error));
            }
            _ => self.check_device(above)?,
        }
        let made = self.disk.make_directory(self.tmp());
        let made = made.and_then(|()| self.disk.set_mode(self.tmp(), 0o700));
        made.map_err(|error| Error::io("make", self.tmp(), error))?;
        // The directory above may be a link to another place.
        self.check_device(self.tmp())?;
        let made = self.inode_of_tmp()?;
        made.ok_or_else(|| Error::Internal("what was made is gone".into()))
    }

    /// Copies a directory to tmp, hashes it in the same pass and syncs every file and directory.
    ///
    /// # Errors
    ///
    /// `BadInput` if the source changed meanwhile, and for anything that cannot be published:
    /// devices, sockets, pipes, names that are not UTF-8, more than 100,000 files, more than
    /// 100,000 directories.
    pub fn copy(&self, source: &Path, progress: &Progress) -> Result<Copied> {
        self.copy_up_to(FILES_MAX, source, progress)
    }

    fn copy_up_to(&self, count_max: usize, source: &Path, progress: &Progress) -> Result<Copied> {
        self.check_source(source)?;
        let mut copy = Copy {
            publish_target: self,
            progress,
            count_max,
            files_count: 0,
            directories_count: 0,
            files: Vec::new(),
            stamps: Vec::new(),
            directories: Vec::new(),
            bytes: 0,
        };
        copy.directory(source, self.tmp(), "")?;
        copy.sync_directories()?;
        copy.compare_with_source()?;
        self.check_device(self.tmp())?;
        copy.files
            .sort_by(|a, b| a.relative_path.cmp(&b.relative_path));
        Ok(Copied {
            mode: copy.directories.first().map_or(0o700, |(_, mode)| *mode),
            files: copy.files,
            bytes: copy.bytes,
        })
    }
}

impl Copy<'_> {
    fn directory(&mut self, source: &Path, to: &Path, relative: &str) -> Result<()> {
        let read = |error| Error::io("read", source, error);
        let found = fs::symlink_metadata(source).map_err(read)?;
        self.stamps.push((source.to_owned(), Stamp::of(&found)));
        let (owner, group) = (rustix::process::geteuid(), rustix::process::getegid());
        let mode = self.mode_for(source, &found, owner.as_raw(), group.as_raw());
        self.directories.push((to.to_owned(), mode));
        let mut names: Vec<OsString> = Vec::new();
        for entry in fs::read_dir(source).map_err(read)? {
            let entry = entry.map_err(read)?;
            self.count(entry.file_type().map_err(read)?.is_dir())?;
            names.push(entry.file_name());
        }
        names.sort();
        for name in names {
            let (from, to) = (source.join(&name), to.join(&name));
            let name = name
                .to_str()
                .ok_or_else(|| self.refused(&from, "its name is not UTF-8"))?;
            let relative = match relative {
                "" => name.to_owned(),
                above => format!("{above}/{name}"),
            };
            let found =
                fs::symlink_metadata(&from).map_err(|error| Error::io("read", &from, error))?;
            let kind = found.file_type();
            if kind.is_dir() {
                let made = self.publish_target.disk.make_directory(&to);
                made.map_err(|error| Error::io("make", &to, error))?;
                self.directory(&from, &to, &relative)?;
            } else if kind.is_symlink() {
                self.link(&from, &to, relative, &found)?;
            } else if kind.is_file() {
                self.file(&from, &to, relative)?;
            } else {
                return Err(self.refused(&from, "it is neither file, directory nor link"));
            }
            self.check_cancelled()?;
        }
        Ok(())
    }

    /// Fails once the caller wants the copy to end.
    fn check_cancelled(&self) -> Result<()> {
        if self.progress.cancel.is_cancelled() {
            let resource = resource_of(self.publish_target.target());
            let (act, name) = ("copying to", resource.to_string());
            Err(Error::Interrupted {
                act,
                resource,
                name,
            })
        } else {
            Ok(())
        }
    }

    /// Counts a file or a directory, and fails if there are too many of them.
    fn count(&mut self, is_directory: bool) -> Result<()> {
        let (count, what) = if is_directory {
            (&mut self.directories_count, "directories")
        } else {
            (&mut self.files_count, "files")
        };
        *count += 1;
        if *count <= self.count_max {
            return Ok(());
        }
        Err(Error::BadInput(format!(
            "more than {} {what} are not published at once",
            self.count_max
        )))
    }

    fn refused(&self, path: &Path, problem: &str) -> Error {
        Error::BadInput(format!("{} cannot be published: {problem}", path.display()))
    }

    fn link(
        &mut self,
        from: &Path,
        to: &Path,
        relative_path: String,
        found: &Metadata,
    ) -> Result<()> {
        let target = fs::read_link(from).map_err(|error| Error::io("read", from, error))?;
        let text = target
            .to_str()
            .ok_or_else(|| self.refused(from, "it points to a name that is not UTF-8"))?;
        let made = self.publish_target.disk.symlink(&target, to);
        made.map_err(|error| Error::io("make", to, error))?;
        self.stamps.push((from.to_owned(), Stamp::of(found)));
        self.files.push(published_link(relative_path, text));
        self.progress.files.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Copies and hashes one file in one pass, and syncs it.
    fn file(&mut self, from: &Path, to: &Path, relative_path: String) -> Result<()> {
        let read = |error| Error::io("read", from, error);
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let mut source = File::options()
            .read(true)
            .custom_flags(flags)
            .open(from)
            .map_err(read)?;
        let before = source.metadata().map_err(read)?;
        // A buffer without room asks for the length alone.
        let room: &mut [u8] = &mut [];
        if rustix::fs::fgetxattr(&source, "security.capability", room).is_ok() {
            lock(&self.progress.incapable).push(from.to_owned());
        }
        let write = |error| Error::io("write", to, error);
        let mut copy = self.publish_target.disk.create(to, 0o600).map_err(write)?;
        let (mut hashing, mut chunk) = Hashing::start(before.len());
        let mut length = 0;
        loop {
            let count = match source.read(&mut chunk) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                count => count.map_err(read)?,
            };
            if count == 0 {
                break;
            }
            self.check_cancelled()?;
            copy.write(&chunk[..count]).map_err(write)?;
            chunk = hashing.update(chunk, count);
            if (length + count as u64) / WRITE_BACK_BYTES > length / WRITE_BACK_BYTES {
                copy.write_back();
            }
            length += count as u64;
            self.progress
                .bytes
                .fetch_add(count as u64, Ordering::Relaxed);
        }
        let own = copy.attributes().map_err(write)?;
        let mode = self.mode_for(from, &before, own.owner, own.group);
        copy.dress(&own, &Attributes { mode, ..own })
            .map_err(write)?;
        copy.sync().map_err(write)?;
        let after = source.metadata().map_err(read)?;
        if Stamp::of(&before) != Stamp::of(&after) || length != after.len() {
            return Err(changed(from));
        }
        self.stamps.push((from.to_owned(), Stamp::of(&before)));
        self.files
            .push(published_file(relative_path, hex(hashing.finish()), mode));
        self.bytes += length;
        self.progress.files.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Returns the permission bits of a copy that belongs to this owner and group. Setuid and
    /// setgid would lend the rights of the new owner to a program that another user wrote.
    fn mode_for(&self, source: &Path, found: &Metadata, owner: u32, group: u32) -> u32 {
        let mode = found.mode() & 0o7777;
        let is_same_owner = (found.uid(), found.gid()) == (owner, group);
        if is_same_owner || mode & SETUID_AND_SETGID == 0 {
            return mode;
        }
        lock(&self.progress.unprivileged).push(source.to_owned());
        mode & !SETUID_AND_SETGID
    }

    /// Gives every directory its mode and syncs it, the inner ones first. All are filled by then,
    /// so a mode may forbid writing. The outermost stays writable until it is in place, as the
    /// system moves no other directory for an ordinary user.
    fn sync_directories(&self) -> Result<()> {
        let disk = &self.publish_target.disk;
        for (path, mode) in self.directories.iter().rev() {
            let mode = if path == self.publish_target.tmp() {
                mode | 0o700
            } else {
                *mode
            };
            let done = disk
                .set_mode(path, mode)
                .and_then(|()| disk.sync_directory(path));
            done.map_err(|error| Error::io("sync", path, error))?;
        }
        Ok(())
    }

    /// Fails if anything was changed, added or removed while it was read.
    fn compare_with_source(&self) -> Result<()> {
        for (path, before) in &self.stamps {
            let now = fs::symlink_metadata(path).map(|found| Stamp::of(&found));
            if !now.is_ok_and(|now| now == *before) {
                return Err(changed(path));
            }
        }
        Ok(())
    }
}

fn changed(path: &Path) -> Error {
    Error::BadInput(format!(
        "{} was changed while it was read; nothing was published",
        path.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_files_and_as_many_directories_as_allowed_are_copied_and_not_one_more() {
        let root = tempfile::tempdir().unwrap();
        let source = root.path().join("source");
        for directory in ["", "one", "two", "two/three"] {
            fs::create_dir(source.join(directory)).unwrap();
        }
        for file in ["a", "one/b", "two/three/c"] {
            fs::write(source.join(file), file).unwrap();
        }
        let copy = |id: &str| {
            let publish_target = PublishTarget::new(&root.path().join("target"), id).unwrap();
            publish_target.make_tmp().unwrap();
            publish_target.copy_up_to(3, &source, &Progress::default())
        };
        assert_eq!(copy("exactly").unwrap().files.len(), 3);
        let refused = |id: &str, expected: &str| {
            let said = copy(id).unwrap_err().to_string();
            assert_eq!(said, expected);
        };
        fs::create_dir(source.join("four")).unwrap();
        refused(
            "directories",
            "more than 3 directories are not published at once",
        );
        fs::remove_dir(source.join("four")).unwrap();
        fs::write(source.join("one/d"), "d").unwrap();
        refused("files", "more than 3 files are not published at once");
    }

    #[test]
    fn a_file_that_had_capabilities_is_listed_and_its_copy_has_none() {
        // Version 2, effective: CAP_NET_BIND_SERVICE is permitted.
        const CAPABILITY: [u32; 5] = [0x0200_0001, 1 << 10, 0, 0, 0];
        let bytes: Vec<u8> = CAPABILITY
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        let root = tempfile::tempdir().unwrap();
        let source = root.path().join("source");
        fs::create_dir(&source).unwrap();
        for file in ["capable", "plain"] {
            fs::write(source.join(file), file).unwrap();
        }
        let (capable, name) = (source.join("capable"), "security.capability");
        rustix::fs::setxattr(&capable, name, &bytes, rustix::fs::XattrFlags::empty()).unwrap();
        let publish_target = PublishTarget::new(&root.path().join("target"), "x").unwrap();
        publish_target.make_tmp().unwrap();
        let progress = Progress::default();
        publish_target.copy(&source, &progress).unwrap();
        assert_eq!(*lock(&progress.incapable), [capable]);
        let copied = publish_target.tmp().join("capable");
        let room: &mut [u8] = &mut [];
        assert!(rustix::fs::getxattr(copied, name, room).is_err());
    }
}
