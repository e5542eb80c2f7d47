//! The one atomic replace: a file is the old one or the new one, never between.
//!
//! 1. Create a temporary file next to the target, under an unguessable name. *Crash:* it stays
//!    behind; [`target_of_temporary`] knows it by its name.
//! 2. Give it the mode and the owner of the target. A target on another device is refused here.
//! 3. Write and sync it. *Crash:* the target is untouched.
//! 4. Rename it over the target. From here on every reader sees the new one. *Crash:* the target is
//!    the old one or the new one, and the new one is whole, since it was synced before.
//! 5. Sync the directory. Before this a power loss may undo the rename, so nothing is acknowledged.
//!
//! Two callers who replace one file at the same time both succeed, and the last rename stays. A
//! caller that must not lose the other's work holds a lock around it.
//!
//! # A target that is changed by programs that take no lock
//!
//! An editor may rename its file over the target, or write into it, after the caller has read it.
//! Step 4 is then, by [`Replacement::put_in_place_if_unchanged`]:
//!
//! 1. Compare inode, length and times of the target with those that were read. *Changed:* nothing
//!    has happened yet.
//! 2. Exchange the two names: the new content is in place, and what was there has the temporary
//!    name. *Crash:* as after the rename; the temporary file is the old content, or what a program
//!    put in its place since 1.
//! 3. Compare what came out in the same way, but for the time that the exchange itself changes. If
//!    it is what was read, remove it and go on with 5.
//! 4. Else exchange the two names back. *Crash:* as after 2 or as before it. If the new content
//!    comes out, remove it. If it does not, another file was put in place after 2: that file gets a
//!    name of its own, which is told.
//! 5. Sync the directory, in either case: while a power loss may leave the new content, no caller
//!    is told that nothing was written.
//!
//! Where a journal has decided the change already, step 3 keeps what another program put there
//! under a name of its own: [`Replacement::put_in_place_keeping_others`]. A target that was not
//! there is made with a rename that replaces nothing.
//!
//! # Limitations
//!
//! Where a file system cannot exchange two names (ZFS before 2.2, gVisor), step 2 is a rename after
//! 1, which overwrites what came in the microseconds between. A program that still has the old file
//! open and writes to it after 3 writes to a file without a name. After a crash between 2 and 3 a
//! file that came after 1 has the temporary name, and is removed with it. Before Linux 6.13 a write
//! into the file within the same four milliseconds as our read, which keeps its length, is not
//! seen: times are that coarse.
//!
//! A file with several hard links is replaced under this name only. Access lists and extended
//! attributes are not carried over.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use tenure_core::{Error, Result};

use crate::disk::{Attributes, Disk, Fresh, RealDisk, Stamp};
use crate::platform::Identity;
use crate::random;

/// The mode of a new file: only its owner may read it until its creator decides otherwise.
const MODE_OF_NEW: u32 = 0o600;

/// Puts `content` in the place of `target`, durably. `like` is the file there now, if there is one.
pub fn replace(
    disk: &dyn Disk,
    target: &Path,
    content: &[u8],
    like: Option<&Attributes>,
) -> Result<()> {
    Replacement::prepare(disk, target, content, like)?.put_in_place()?;
    sync_directory_of(disk, target)
}

/// Puts `content` in the place of a file that is no document, durably; creates the file if it is
/// missing. A link is not followed.
pub fn replace_file(target: &Path, content: &[u8]) -> Result<()> {
    let found = RealDisk.read(target, u64::MAX);
    let found = found.map_err(|source| Error::io("read", target, source))?;
    let like = found.map(|found| found.attributes);
    replace(&RealDisk, target, content, like.as_ref())
}

/// Puts `content` in the place of a file that can be made again, without a sync. After a power loss
/// it may be torn, so its readers check it.
pub fn replace_cache(disk: &dyn Disk, target: &Path, content: &[u8]) -> Result<()> {
    replace_unsynced(disk, target, content, None)
}

/// Puts `content` in the place of `target` without a sync, for a caller that has the content
/// elsewhere, durably, until it has synced it.
pub fn replace_unsynced(
    disk: &dyn Disk,
    target: &Path,
    content: &[u8],
    like: Option<&Attributes>,
) -> Result<()> {
    let (_, name) = parts(target)?;
    let (replacement, _) = Replacement::write(disk, target, name, content, like)?;
    replacement.put_in_place()
}

/// Makes the name of a file durable.
pub fn sync_directory_of(disk: &dyn Disk, target: &Path) -> Result<()> {
    let (directory, _) = parts(target)?;
    let synced = disk.sync_directory(directory);
    synced.map_err(|source| Error::io("sync", directory, source))
}

/// A file that is written and waits to take the place of another. Dropping it removes the file.
#[must_use = "nothing is replaced before it is put in place"]
pub struct Replacement<'a> {
    disk: &'a dyn Disk,
    target: &'a Path,
    temporary: PathBuf,
    /// The target as it was read, and the identity of the new file. `None` if there was no target.
    read: Option<(Stamp, Identity)>,
    /// True once the temporary name has nothing that must be removed.
    in_place: bool,
}

/// The thing that an exchange took out of the target's place.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TakenOut {
    /// The file that was read, or nothing where nothing was.
    WhatWasRead,
    /// A file that another program put there.
    Other,
    /// Nothing: another program removed the file, and the new one is not in place.
    Nothing,
}

impl<'a> Replacement<'a> {
    /// Does steps 1 to 3.
    pub fn prepare(
        disk: &'a dyn Disk,
        target: &'a Path,
        content: &[u8],
        like: Option<&Attributes>,
    ) -> Result<Self> {
        let (_, name) = parts(target)?;
        let (replacement, mut file) = Self::write(disk, target, name, content, like)?;
        let synced = file.sync();
        synced.map_err(|source| Error::io("sync", target, source))?;
        Ok(replacement)
    }

    /// Does steps 1 to 3 of a new file without the sync. The caller syncs after step 4: then one
    /// commit of a journal holds content and name. Before that a power loss may tear the file under
    /// its name, so its readers check it.
    ///
    /// The temporary name is made of `name`. If this process is killed, that name tells the next one
    /// which lock shows that the file has no writer any more.
    pub fn begin_named(
        disk: &'a dyn Disk,
        target: &'a Path,
        name: &OsStr,
        content: &[u8],
    ) -> Result<(Self, Box<dyn Fresh>)> {
        let (replacement, file) = Self::write(disk, target, name, content, None)?;
        file.write_back();
        Ok((replacement, file))
    }

    /// Does steps 1 to 3, without the sync.
    fn write(
        disk: &'a dyn Disk,
        target: &'a Path,
        name: &OsStr,
        content: &[u8],
        like: Option<&Attributes>,
    ) -> Result<(Self, Box<dyn Fresh>)> {
        let (directory, _) = parts(target)?;
        let temporary = directory.join(unguessable_name(name, ".tmp"));
        let failed = |action| move |source| Error::io(action, target, source);
        // The file has its mode from the start: a process that can read it could read the target.
        // An owner, a group and mode bits that cannot be set at once are set below.
        let mode = like.map_or(MODE_OF_NEW, |like| like.mode & 0o777);
        let file = disk.create(&temporary, mode);
        let mut file = file.map_err(failed("write beside"))?;
        let mut replacement = Self {
            disk,
            target,
            temporary,
            read: None,
            in_place: false,
        };
        if let Some(like) = like {
            let own = file.attributes().map_err(failed("look at"))?;
            require_same_device(target, own.device, like.device)?;
            replacement.read = Some((like.stamp, own.stamp.identity));
            let dressed = file.dress(&own, like);
            dressed.map_err(|source| undressed(target, source))?;
        }
        file.write(content).map_err(failed("write"))?;
        Ok((replacement, file))
    }

    /// Does step 4. The caller makes it durable: several renames in one directory need one sync.
    pub fn put_in_place(mut self) -> Result<()> {
        self.rename()
    }

    fn rename(&mut self) -> Result<()> {
        let renamed = self.disk.rename(&self.temporary, self.target);
        renamed.map_err(|source| Error::io("replace", self.target, source))?;
        self.in_place = true;
        Ok(())
    }

    /// Does step 4 for a target that is missing. A target that is there stays as it is.
    pub fn put_in_place_if_missing(mut self) -> Result<()> {
        let renamed = self
            .disk
            .rename_without_replacing(&self.temporary, self.target);
        match renamed {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
            renamed => renamed.map_err(|source| Error::io("create", self.target, source))?,
        }
        self.in_place = true;
        Ok(())
    }

    /// Does step 4 for a target that programs change without a lock, if it is still what was read.
    ///
    /// # Errors
    ///
    /// `Conflict` if it is not: the target then keeps what the other program made, and nothing is
    /// written.
    pub fn put_in_place_if_unchanged(mut self) -> Result<()> {
        self.require_unchanged()?;
        match self.exchange()? {
            TakenOut::WhatWasRead => Ok(()),
            TakenOut::Other => Err(self.exchange_back()),
            TakenOut::Nothing => Err(self.changed()),
        }
    }

    /// Does step 4 for such a target, where the change is decided already. A file that another
    /// program put there is kept under a name of its own, which is returned; it is durable with the
    /// directory.
    pub fn put_in_place_keeping_others(mut self) -> Result<Option<PathBuf>> {
        match self.exchange()? {
            TakenOut::WhatWasRead => Ok(None),
            TakenOut::Other => Ok(Some(self.keep())),
            TakenOut::Nothing => self.put_in_place().map(|()| None),
        }
    }

    /// Fails if the target is not what was read any more.
    pub fn require_unchanged(&self) -> Result<()> {
        let found = self.disk.stamp(self.target);
        let found = found.map_err(|source| Error::io("look at", self.target, source))?;
        if found != self.read.map(|(stamp, _)| stamp) {
            return Err(self.changed());
        }
        Ok(())
    }

    fn exchange(&mut self) -> Result<TakenOut> {
        let (disk, temporary, target) = (self.disk, &self.temporary, self.target);
        let created = self.read.is_none();
        let created = created.then(|| disk.rename_without_replacing(temporary, target));
        let moved = match created {
            None => disk.exchange(temporary, target),
            Some(Err(error)) if error.kind() == io::ErrorKind::AlreadyExists => {
                disk.exchange(temporary, target)
            }
            Some(created) => {
                self.in_place = created.is_ok();
                created
            }
        };
        match moved {
            Ok(()) if self.in_place || self.has_what_was_read() => Ok(TakenOut::WhatWasRead),
            Ok(()) => Ok(TakenOut::Other),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(TakenOut::Nothing),
            Err(error) if is_unsupported(&error) => self.rename().map(|()| TakenOut::WhatWasRead),
            Err(error) => Err(Error::io("replace", target, error)),
        }
    }

    /// Returns true if the temporary name has the target as it was read. A file that cannot be
    /// looked at counts as another file.
    fn has_what_was_read(&self) -> bool {
        let found = self.disk.stamp(&self.temporary).ok().flatten();
        let read = self.read.map(|(stamp, _)| stamp);
        found
            .zip(read)
            .is_some_and(|(found, read)| found.is_but_for_its_name(&read))
    }

    /// Undoes an exchange that took out another file than the one that was read. Returns the error
    /// that tells of it.
    fn exchange_back(mut self) -> Error {
        let undone = self.disk.exchange(&self.temporary, self.target);
        let found = self.disk.stamp(&self.temporary).ok().flatten();
        let own = self.read.map(|(_, own)| own);
        let is_own = undone.is_ok() && found.map(|found| found.identity) == own;
        let kept = (!is_own).then(|| self.keep());
        match (sync_directory_of(self.disk, self.target), kept) {
            (Err(error), _) => error,
            (Ok(()), None) => self.changed(),
            (Ok(()), Some(kept)) => others_kept(&[kept]),
        }
    }

    /// Gives the file of the temporary name a name under which it stays, and returns that name.
    fn keep(&mut self) -> PathBuf {
        self.in_place = true;
        let name = unguessable_name(self.target.file_name().unwrap_or_default(), ".kept");
        let kept = self.target.with_file_name(name);
        match self.disk.rename_without_replacing(&self.temporary, &kept) {
            Ok(()) => kept,
            Err(_) => self.temporary.clone(),
        }
    }

    fn changed(&self) -> Error {
        Error::conflict(
            format!(
                "{} was changed meanwhile by a program that takes no lock; nothing was written",
                self.target.display()
            ),
            "look at what is there now, and try again",
        )
    }
}

/// Returns the error for files of other programs that a change took out of their places.
pub fn others_kept(kept: &[PathBuf]) -> Error {
    let kept: Vec<String> = kept.iter().map(|path| path.display().to_string()).collect();
    Error::conflict(
        format!(
            "a program that takes no lock changed the same file meanwhile; what it made is kept as {}",
            kept.join(", ")
        ),
        "compare it with what is in place now, and remove it",
    )
}

/// Returns true for the errors of a file system, or of a kernel, that does not know a kind of
/// rename.
fn is_unsupported(error: &io::Error) -> bool {
    let unsupported = [Errno::INVAL, Errno::NOSYS, Errno::OPNOTSUPP];
    Errno::from_io_error(error).is_some_and(|error| unsupported.contains(&error))
}

impl Drop for Replacement<'_> {
    fn drop(&mut self) {
        if !self.in_place {
            // The temporary name has the new file that was not put in place, or the old one.
            // Neither is of use; the error to report is the one before.
            let _ = self.disk.remove(&self.temporary);
        }
    }
}

/// Returns the target of a temporary file by its name; `None` if it is no such name.
pub fn target_of_temporary(name: &OsStr) -> Option<&OsStr> {
    beside(name, b".tmp")
}

/// Returns an unguessable name beside `target` with this ending.
pub fn unguessable_name(target: &OsStr, ending: &str) -> OsString {
    let mut name = OsString::from(".");
    name.push(target);
    let mut unguessable = String::from(".");
    for byte in random::bytes::<RANDOM_BYTES>() {
        let _ = write!(unguessable, "{byte:02x}");
    }
    name.push(unguessable);
    name.push(ending);
    name
}

/// Returns the file that such a name is beside; `None` if it is no such name.
pub fn beside<'a>(name: &'a OsStr, ending: &[u8]) -> Option<&'a OsStr> {
    let name = name.as_bytes().strip_prefix(b".")?.strip_suffix(ending)?;
    let dot = name.len().checked_sub(2 * RANDOM_BYTES + 1)?;
    let (target, random) = name.split_at(dot);
    let is_hex = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let random = random.strip_prefix(b".")?;
    (!target.is_empty() && random.iter().all(is_hex)).then(|| OsStr::from_bytes(target))
}

const RANDOM_BYTES: usize = 8;

fn parts(target: &Path) -> Result<(&Path, &OsStr)> {
    match (target.parent(), target.file_name()) {
        (Some(directory), Some(name)) => Ok((directory, name)),
        _ => Err(Error::BadInput(format!(
            "{} is not a file",
            target.display()
        ))),
    }
}

fn require_same_device(target: &Path, directory: u64, file: u64) -> Result<()> {
    if directory == file {
        return Ok(());
    }
    Err(Error::configuration(
        format!(
            "{} is on another device than its directory, so it cannot be replaced in one step",
            target.display()
        ),
        "mount its directory instead of the file alone",
    ))
}

/// Fails if this process cannot give a new file the owner and the group of a target. `file` is a
/// new file of the process, and is not changed.
pub fn require_same_owner_possible(
    file: &mut dyn Fresh,
    target: &Path,
    like: &Attributes,
) -> Result<()> {
    let failed = |source| Error::io("look at", target, source);
    let own = file.attributes().map_err(failed)?;
    if (own.owner, own.group) == (like.owner, like.group) {
        return Ok(());
    }
    let other = Attributes {
        mode: own.mode,
        ..*like
    };
    let tried = file.dress(&own, &other);
    let tried = tried.and_then(|()| file.dress(&other, &own));
    tried.map_err(|source| undressed(target, source))
}

fn undressed(target: &Path, source: io::Error) -> Error {
    if source.kind() != io::ErrorKind::PermissionDenied {
        return Error::io("give its owner and mode to the new", target, source);
    }
    Error::not_allowed(
        format!(
            "{} belongs to another user or group, and this user cannot make a new file that does",
            target.display()
        ),
        "run this as its owner, or change its owner to this user",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::RealDisk;
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    fn names_in(directory: &Path) -> Vec<OsString> {
        let mut names = RealDisk.names(directory).unwrap();
        names.sort();
        names
    }

    #[test]
    fn a_new_file_is_private_and_nothing_stays_beside_it() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("a.json");
        replace(&RealDisk, &target, b"{}", None).unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"{}");
        assert_eq!(fs::metadata(&target).unwrap().mode() & 0o7777, 0o600);
        assert_eq!(names_in(directory.path()), ["a.json"]);
    }

    #[test]
    fn mode_and_owner_are_those_of_the_old_one() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("a.json");
        fs::write(&target, "old").unwrap();
        std::os::unix::fs::chown(&target, Some(12), Some(34)).unwrap();
        fs::set_permissions(&target, fs::Permissions::from_mode(0o2664)).unwrap();
        let like = RealDisk.read(&target, 100).unwrap().unwrap().attributes;
        replace(&RealDisk, &target, b"new", Some(&like)).unwrap();
        let now = fs::metadata(&target).unwrap();
        assert_eq!((now.uid(), now.gid()), (12, 34));
        assert_eq!(now.mode() & 0o7777, 0o2664);
        assert_eq!(fs::read(&target).unwrap(), b"new");
    }

    #[test]
    fn a_target_on_another_device_is_refused_and_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("a.json");
        fs::write(&target, "old").unwrap();
        let mut like = RealDisk.read(&target, 100).unwrap().unwrap().attributes;
        like.device += 1;
        let refused = replace(&RealDisk, &target, b"new", Some(&like));
        assert_eq!(
            refused.unwrap_err().class(),
            tenure_core::Class::Configuration
        );
        assert_eq!(fs::read(&target).unwrap(), b"old");
        assert_eq!(names_in(directory.path()), ["a.json"]);
    }

    #[test]
    fn a_replacement_that_is_not_put_in_place_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("a.json");
        let prepared = Replacement::prepare(&RealDisk, &target, b"x", None);
        let names = names_in(directory.path());
        assert_eq!(names.len(), 1);
        assert_eq!(target_of_temporary(&names[0]), Some(OsStr::new("a.json")));
        drop(prepared);
        assert!(names_in(directory.path()).is_empty());
    }

    #[test]
    fn only_temporary_names_of_the_very_file_are_known_as_such() {
        let of = |name: &str| target_of_temporary(OsStr::new(name)) == Some(OsStr::new("a.json"));
        assert!(of(".a.json.0123456789abcdef.tmp"));
        for name in [
            "..a.json.0123456789abcdef.tmp",
            ".a.json.0123456789abcde.tmp",
            ".a.json.0123456789abcdeF.tmp",
            ".a.json.0123456789abcdef.journal",
            "a.json.0123456789abcdef.tmp",
            ".b.json.0123456789abcdef.tmp",
            ".a.json.tmp",
        ] {
            assert!(!of(name), "{name}");
        }
    }
}
