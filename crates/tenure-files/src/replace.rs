//! The one atomic replace: a file is the old one or the new one, never between.
//!
//! 1. Create a temporary file next to the target, under a name nobody can guess. *Crash:* it stays
//!    behind; [`target_of_temporary`] knows it by its name.
//! 2. Give it the mode and the owner of the target. A target on another device is refused here.
//! 3. Write and sync it. *Crash:* the target is untouched.
//! 4. Rename it over the target. From here on everyone sees the new one. *Crash:* the target is
//!    the old one or the new one, and the new one is whole, since it was synced before.
//! 5. Sync the directory. Before this a power loss may undo the rename, so nothing is acknowledged.
//!
//! Two who replace one file at the same time both succeed, and the last rename stays. A caller that
//! must not lose the other's work holds a lock around it.
//!
//! # Limitations
//!
//! A file with several hard links is replaced under this name only. Access lists and extended
//! attributes are not carried over.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use tenure_core::{Error, Result};

use crate::disk::{Attributes, Disk, Fresh, RealDisk};
use crate::random;

/// The mode of a new file: only its owner may read it until its creator decides otherwise.
const MODE_OF_NEW: u32 = 0o600;

/// Puts `content` in the place of `target`, durably. `like` is what is there now, if anything is.
pub(crate) fn replace(
    disk: &dyn Disk,
    target: &Path,
    content: &[u8],
    like: Option<&Attributes>,
) -> Result<()> {
    Replacement::prepare(disk, target, content, like)?.put_in_place()?;
    sync_directory_of(disk, target)
}

/// Puts `content` in the place of a file that is no document, durably; one that is not there is made. A link is not followed.
pub fn replace_file(target: &Path, content: &[u8]) -> Result<()> {
    let found = RealDisk.read(target, u64::MAX);
    let found = found.map_err(|source| Error::io("read", target, source))?;
    let like = found.map(|found| found.attributes);
    replace(&RealDisk, target, content, like.as_ref())
}

/// Puts `content` in the place of a file that can be made again, without a sync. After a power loss it may be torn, so its
/// readers check it.
pub(crate) fn replace_cache(disk: &dyn Disk, target: &Path, content: &[u8]) -> Result<()> {
    replace_unsynced(disk, target, content, None)
}

/// Puts `content` in the place of `target` without a sync, for a caller that has the content elsewhere, durably, until it
/// has synced it.
pub(crate) fn replace_unsynced(
    disk: &dyn Disk,
    target: &Path,
    content: &[u8],
    like: Option<&Attributes>,
) -> Result<()> {
    let (replacement, _) = Replacement::write(disk, target, content, like)?;
    replacement.put_in_place()
}

/// Makes the name of a file durable.
pub(crate) fn sync_directory_of(disk: &dyn Disk, target: &Path) -> Result<()> {
    let (directory, _) = parts(target)?;
    let synced = disk.sync_directory(directory);
    synced.map_err(|source| Error::io("sync", directory, source))
}

/// A file that is written and waits to take the place of another. Dropped, it is removed.
#[must_use = "nothing is replaced before it is put in place"]
pub(crate) struct Replacement<'a> {
    disk: &'a dyn Disk,
    target: &'a Path,
    temporary: PathBuf,
    in_place: bool,
}

impl<'a> Replacement<'a> {
    /// Steps 1 to 3.
    pub(crate) fn prepare(
        disk: &'a dyn Disk,
        target: &'a Path,
        content: &[u8],
        like: Option<&Attributes>,
    ) -> Result<Self> {
        let (replacement, mut file) = Self::write(disk, target, content, like)?;
        let synced = file.sync();
        synced.map_err(|source| Error::io("sync", target, source))?;
        Ok(replacement)
    }

    /// Steps 1 to 3, without the sync.
    fn write(
        disk: &'a dyn Disk,
        target: &'a Path,
        content: &[u8],
        like: Option<&Attributes>,
    ) -> Result<(Self, Box<dyn Fresh>)> {
        let (directory, name) = parts(target)?;
        let temporary = directory.join(unguessable_name(name, ".tmp"));
        let failed = |action| move |source| Error::io(action, target, source);
        // With its mode from the start: who can read it could read the target. An owner or a group
        // of its own, and what the process may not set, is set below.
        let mode = like.map_or(MODE_OF_NEW, |like| like.mode & 0o777);
        let file = disk.create(&temporary, mode);
        let mut file = file.map_err(failed("write beside"))?;
        let replacement = Self {
            disk,
            target,
            temporary,
            in_place: false,
        };
        if let Some(like) = like {
            let own = file.attributes().map_err(failed("look at"))?;
            require_same_device(target, own.device, like.device)?;
            let dressed = file.dress(&own, like);
            dressed.map_err(|source| undressed(target, source))?;
        }
        file.write(content).map_err(failed("write"))?;
        Ok((replacement, file))
    }

    /// Step 4. Making it durable is up to the caller: several renames in one directory need one sync.
    pub(crate) fn put_in_place(mut self) -> Result<()> {
        let renamed = self.disk.rename(&self.temporary, self.target);
        renamed.map_err(|source| Error::io("replace", self.target, source))?;
        self.in_place = true;
        Ok(())
    }

    /// Step 4 for a target that is not there. One that is there stays as it is.
    pub(crate) fn put_in_place_if_missing(mut self) -> Result<()> {
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
}

impl Drop for Replacement<'_> {
    fn drop(&mut self) {
        if !self.in_place {
            // A file that was not put in place is of no use; the error to report is the one before.
            let _ = self.disk.remove(&self.temporary);
        }
    }
}

/// Returns the name of the file that a temporary file was to replace; None if it is no such name.
pub(crate) fn target_of_temporary(name: &OsStr) -> Option<&OsStr> {
    beside(name, b".tmp")
}

/// Returns a name beside `target` that nobody can guess, with this ending.
pub(crate) fn unguessable_name(target: &OsStr, ending: &str) -> OsString {
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

/// Returns the file such a name is beside; None if it is no such name.
pub(crate) fn beside<'a>(name: &'a OsStr, ending: &[u8]) -> Option<&'a OsStr> {
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
