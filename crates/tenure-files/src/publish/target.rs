//! The place where a directory is published: its path, its lock and its inodes.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tenure_api::publish::Inode;
use tenure_core::{Asker, Error, Result};
use tenure_lockfile::{FileLocker, LockGuard};
use tenure_os::cancel::Cancel;
use tenure_os::disk::{Disk, RealDisk};
use tenure_os::filesystem;

use crate::document::lock_beside;

/// Returns true if an inode is the one that a manifest names. `same_boot` is true if the manifest
/// was written since this boot.
pub(super) fn is_named(inode: &Inode, named: &Inode, same_boot: bool) -> bool {
    let born = inode.born == named.born || inode.born.is_none() || named.born.is_none();
    inode.inode == named.inode && born && (!same_boot || inode.device == named.device)
}

/// The longest name of a target, in bytes, which leaves room for the name of its lock,
/// `.NAME.lock`.
const NAME_BYTES_MAX: usize = 249;

/// The path at which a directory is published, and the path at which it is made.
pub struct PublishTarget {
    pub(super) target: PathBuf,
    pub(super) tmp: PathBuf,
    pub(super) disk: Arc<dyn Disk>,
}

impl PublishTarget {
    /// Returns the publish target for a path. Links among the directories above it are followed, a
    /// link at its own name is not.
    ///
    /// # Errors
    ///
    /// `BadInput` for a path that cannot be a target, `NotFound` if the directory above it is not
    /// there.
    pub fn new(target: &Path, id: &str) -> Result<Self> {
        let absolute =
            std::path::absolute(target).map_err(|error| Error::io("find", target, error))?;
        let bad = |problem: &str| Error::BadInput(format!("{}: {problem}", target.display()));
        let name = absolute.file_name().filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| bad("it has no name of its own"))?;
        let parent = absolute
            .parent()
            .ok_or_else(|| bad("it has no directory above it"))?;
        let parent = fs::canonicalize(parent).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                Error::NotFound(format!("there is no directory {}", parent.display()))
            }
            _ => Error::io("find", parent, error),
        })?;
        if name == "tmp" {
            return Err(bad(
                "directories are made in tmp before they are put in place: choose another name",
            ));
        }
        if name.len() > NAME_BYTES_MAX {
            return Err(bad(
                "its name is longer than 249 bytes: choose a shorter one",
            ));
        }
        let target = parent.join(name);
        if target.to_string_lossy().chars().any(char::is_control) {
            return Err(bad("its path has a control character: choose another name"));
        }
        Ok(Self::at(target, id))
    }

    /// Returns the publish target for a path that was resolved before.
    pub fn at(target: PathBuf, id: &str) -> Self {
        Self::on(target, id, Arc::new(RealDisk))
    }

    /// Returns the publish target on this disk.
    pub fn on(target: PathBuf, id: &str, disk: Arc<dyn Disk>) -> Self {
        let parent = target.parent().unwrap_or(Path::new("/"));
        let tmp = parent.join("tmp").join(id);
        Self { target, tmp, disk }
    }

    /// Returns the disk that it is on.
    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// Returns the path of the target.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// Returns the path at which the directory is made.
    pub fn tmp(&self) -> &Path {
        &self.tmp
    }

    pub(super) fn parent(&self) -> &Path {
        self.target.parent().unwrap_or(Path::new("/"))
    }

    /// Takes the kernel's lock beside the target, `.NAME.lock`.
    ///
    /// # Errors
    ///
    /// `Timeout` if another publisher is between steps 5 and 7 for as long as `wait`; `Interrupted`
    /// if the wait is cancelled.
    pub fn lock(&self, wait: Duration, asker: Asker, cancel: &Cancel) -> Result<LockGuard> {
        let locker = FileLocker::for_asker(wait, asker).cancelled_by(cancel.clone());
        locker.lock_exclusive(&lock_beside(&self.target))
    }

    /// Checks that a directory can be put in place here. The check is made before anything is
    /// written, and again at step 5.
    ///
    /// # Errors
    ///
    /// `BadInput` if the target is no directory, if it is a git repository or contains the
    /// directory of this process, if it is on another device than tmp, if something is mounted on
    /// it, or if this user may not move it; and if `tmp` beside it is no directory. `Configuration`
    /// on a file system where its lock is not known to hold.
    pub fn check_target(&self) -> Result<()> {
        self.require_trusted()?;
        let above = self.tmp.parent().unwrap_or(Path::new("/"));
        if fs::metadata(above).is_ok_and(|found| !found.is_dir()) {
            return Err(Error::BadInput(format!(
                "{} is no directory, and what is published is made in it: move it away",
                above.display()
            )));
        }
        if self.inode_of_target()?.is_none() {
            return Ok(());
        }
        let bad = |problem: &str| {
            let target = self.target.display();
            Err(Error::BadInput(format!("{target} {problem}")))
        };
        let is_repository = self.disk.exists(&self.target.join(".git"));
        if is_repository.map_err(self.failed("look at"))? {
            return bad(
                "is a repository of git, all of which would be replaced: publish to a directory inside of it",
            );
        }
        if std::env::current_dir().is_ok_and(|here| here.starts_with(&self.target)) {
            return bad(
                "is above or is the directory that this runs in, and would be replaced: publish to another, or from elsewhere",
            );
        }
        let mounted = self.disk.is_mount_point(&self.target);
        if mounted.map_err(self.failed("look at"))? {
            return Err(Error::BadInput(format!(
                "something is mounted on {}, so it cannot be replaced: publish to a directory inside of it",
                self.target.display()
            )));
        }
        self.check_device(&self.target)?;
        match self.disk.require_writable_directory(&self.target) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let shown = self.target.display();
                Err(Error::BadInput(format!(
                    "{shown} may not be written, and so not be replaced, by this user: run chmod u+w {shown}"
                )))
            }
            writable => writable.map_err(self.failed("look at")),
        }
    }

    /// Fails unless `path` is on the device of the target's directory: only then can it be
    /// exchanged with the target.
    pub(super) fn check_device(&self, path: &Path) -> Result<()> {
        let device = |path: &Path| {
            let found = self.disk.identity(path);
            let found = found.map_err(|error| Error::io("look at", path, error))?;
            Ok::<_, Error>(found.map(|found| found.device_name()))
        };
        if device(self.parent())? == device(path)? {
            return Ok(());
        }
        Err(Error::BadInput(format!(
            "{} and {} are on different devices, and nothing can be renamed from one to the other: both must be on \
             the same one",
            path.display(),
            self.parent().display()
        )))
    }

    /// Fails early where the lock beside the target would fail after everything was copied. No
    /// setting trusts such a place.
    fn require_trusted(&self) -> Result<()> {
        filesystem::require_trusted(self.parent()).map_err(|error| match error {
            Error::Configuration { problem, .. } => {
                Error::configuration(problem, "publish to a directory on a local file system")
            }
            error => error,
        })
    }

    /// Returns the inode of the target, or `None` if there is nothing.
    ///
    /// # Errors
    ///
    /// `BadInput` if something is there that is no directory.
    pub fn inode_of_target(&self) -> Result<Option<Inode>> {
        let found = self.inode(&self.target)?;
        if found.is_some()
            && !self
                .disk
                .is_directory(&self.target)
                .map_err(self.failed("look at"))?
        {
            return Err(Error::BadInput(format!(
                "{} is there and is no directory",
                self.target.display()
            )));
        }
        Ok(found)
    }

    /// Returns the inode of the directory that was made.
    pub fn inode_of_tmp(&self) -> Result<Option<Inode>> {
        self.inode(&self.tmp)
    }

    pub(super) fn inode(&self, path: &Path) -> Result<Option<Inode>> {
        let found = self.disk.identity(path);
        let found = found.map_err(|error| Error::io("look at", path, error))?;
        let Some(found) = found else {
            return Ok(None);
        };
        let mut inode = Inode {
            inode: found.inode(),
            device: found.device_name(),
            born: None,
        };
        let born = self
            .disk
            .born(path)
            .map_err(|error| Error::io("look at", path, error))?;
        inode.born = born.map(|born| born.to_string());
        Ok(Some(inode))
    }

    /// Removes tmp, if it is a directory that the manifest names: the new one, or the old one. If
    /// no inode was written yet, nothing was copied either, and tmp is removed if it is empty.
    /// Returns true if nothing is left.
    pub fn remove_tmp(&self, named: &[&Inode], same_boot: bool) -> Result<bool> {
        let Some(found) = self.inode_of_tmp()? else {
            return Ok(true);
        };
        let is_directory = self
            .disk
            .is_directory(&self.tmp)
            .map_err(self.failed("look at"))?;
        let is_named = named.iter().any(|named| is_named(&found, named, same_boot));
        let removed = match named {
            _ if !is_directory => return Ok(false),
            [] => self.disk.remove_empty_directory(&self.tmp),
            _ if is_named => self.disk.remove_tree(&self.tmp),
            _ => return Ok(false),
        };
        match removed {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(false),
            removed => removed
                .map(|()| true)
                .map_err(|error| Error::io("remove", &self.tmp, error)),
        }
    }

    pub(super) fn failed(&self, action: &'static str) -> impl Fn(io::Error) -> Error {
        let path = self.target.clone();
        move |error| Error::io(action, path.clone(), error)
    }
}
