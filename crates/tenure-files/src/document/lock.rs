//! The locks of documents: `.NAME.lock` beside each, and Node's inside of it.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::Path;
use std::time::Instant;

use rustix::fs::Access;
use tenure_core::{Error, Mode, Resource, Result};
use tenure_lockfile::{BriefGuard, LockGuard, resource_of};
use tenure_os::replace::unguessable_name;

use super::Documents;
use super::path::{Location, document_of_lock};

/// The lock of a reader.
pub(super) enum Shared {
    /// Held for a moment, without a record.
    Briefly(#[expect(dead_code, reason = "held until it is dropped")] BriefGuard),
    /// Held after a wait.
    Waited(#[expect(dead_code, reason = "held until it is dropped")] LockGuard),
    /// There is neither document nor lock file.
    Absent,
    /// This user may not write the document or its lock file, so no lock can be taken. Every write
    /// replaces the document whole, so a read without a lock is whole, too.
    Without,
}

impl Shared {
    /// Returns true if writers are kept out.
    pub(super) fn is_lock(&self) -> bool {
        !matches!(self, Shared::Absent | Shared::Without)
    }

    /// Returns true if there was nothing to lock.
    pub(super) fn is_absence(&self) -> bool {
        matches!(self, Shared::Absent)
    }
}

impl Documents {
    /// Takes the exclusive locks of all documents. The order given is the order of locks.
    pub(super) fn lock_all<'a>(
        &self,
        locations: impl IntoIterator<Item = &'a Location>,
        deadline: Instant,
    ) -> Result<Vec<LockGuard>> {
        let lock = |location: &Location| {
            if self.has_no_lock_file(location) {
                require_writable(location)?;
            }
            let locked = self.locker.lock_by(&location.lock(), Mode::Write, deadline);
            locked.map_err(|error| error_about(error, location))
        };
        locations.into_iter().map(lock).collect()
    }

    fn has_no_lock_file(&self, location: &Location) -> bool {
        let lock = location.lock();
        !self.locker.has_open(&lock) && !is_there(&lock)
    }

    /// Takes a shared lock.
    pub(super) fn share(&self, location: &Location, deadline: Instant) -> Result<Shared> {
        let path = location.lock();
        if self.has_no_lock_file(location) {
            // Reading a missing document leaves no lock file behind. A user that may not write a
            // document makes no lock file for it, as that would keep out users that may.
            if !is_there(location.path()) {
                return Ok(Shared::Absent);
            }
            match require_writable(location) {
                Err(Error::NotAllowed { .. }) => return Ok(Shared::Without),
                other => other?,
            }
        }
        let shared = match self.locker.try_share_briefly(&path) {
            Ok(Some(guard)) => Ok(Shared::Briefly(guard)),
            Ok(None) => {
                let waited = self.locker.lock_by(&path, Mode::Read, deadline);
                waited.map(Shared::Waited)
            }
            Err(error) => Err(error),
        };
        match shared {
            Err(Error::Io { source, .. }) if may_not_write(&source) => Ok(Shared::Without),
            other => other.map_err(|error| error_about(error, location)),
        }
    }
}

/// Returns true if the document exists, or existed and was locked, or is about to be created.
pub(super) fn has_ever_existed(location: &Location) -> bool {
    is_there(&location.lock()) || is_there(location.path())
}

/// Fails if this user may not write an existing document, before its lock file is made: that file
/// would keep out users that may.
fn require_writable(location: &Location) -> Result<()> {
    let path = location.path();
    let Ok(found) = fs::symlink_metadata(path) else {
        return Ok(());
    };
    if !found.is_file() {
        return Err(Error::corrupt(path, "it is not a regular file"));
    }
    let writable = rustix::fs::access(path, Access::WRITE_OK);
    writable.map_err(|source| not_writable(path, source.into()))
}

/// Returns the error for a document that this user may only read.
pub(super) fn not_writable(path: &Path, source: io::Error) -> Error {
    Error::not_allowed(
        format!(
            "{} may not be written by this user: {source}",
            path.display()
        ),
        "give this user write access to the document",
    )
}

fn is_there(path: &Path) -> bool {
    !matches!(path.try_exists(), Ok(false))
}

fn may_not_write(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
    )
}

/// Turns an I/O error into one about the document: a missing directory, a name, a missing right.
fn error_about(error: Error, location: &Location) -> Error {
    let Error::Io { source, .. } = &error else {
        return error;
    };
    let document = location.path().display();
    match source.kind() {
        io::ErrorKind::NotFound => {
            Error::NotFound(format!("there is no directory for the document {document}"))
        }
        io::ErrorKind::InvalidFilename => Error::BadInput(format!(
            "the name of {document} is too long: its lock file has six letters more"
        )),
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Error::not_allowed(
            format!("{document} cannot be locked for writing: {error}"),
            "give this user write access to the document, its directory and its lock file",
        ),
        _ => error,
    }
}

/// Returns the name of a document's lock in records and errors, which is the document's name.
pub(super) fn document_name(lock: &Path) -> Resource {
    resource_of(&lock.with_file_name(document_of(lock)))
}

/// Gives a new lock file the owner of the document, if that is another user, and lets in the groups
/// that may write the document. Without this, a lock file that root makes would keep the owner of
/// the document out for good.
///
/// The lock file is made under another name and linked to its own, so that no process meets it half
/// made.
pub(super) fn prepare(lock: &Path) -> Result<()> {
    let Ok(document) = fs::metadata(lock.with_file_name(document_of(lock))) else {
        return Ok(());
    };
    let own = rustix::process::geteuid().as_raw();
    let (owner, mode) = (
        document.uid(),
        0o600 | document.mode() & 0o066 & writers(document.mode()),
    );
    let usual = mode == 0o600 && (owner == own || own != 0);
    if usual || matches!(lock.try_exists(), Ok(true) | Err(_)) {
        return Ok(());
    }
    let temporary = lock.with_file_name(unguessable_name(document_of(lock), ".tmp"));
    let made = fs::File::create_new(&temporary)
        .and_then(|file| {
            // The change goes through the open file: the name may mean another file by now, in a
            // directory that others can change.
            let group_is_kept = fchown(&file, None, Some(document.gid())).is_ok();
            if own == 0 {
                fchown(&file, Some(owner), None)?;
            }
            let mode = if group_is_kept { mode } else { mode & !0o060 };
            file.set_permissions(fs::Permissions::from_mode(mode))
        })
        .and_then(|()| fs::hard_link(&temporary, lock));
    let _ = fs::remove_file(&temporary);
    match made {
        // Another process was faster, or has cleaned up here. Then the lock file is made as usual.
        Err(error)
            if !matches!(
                error.kind(),
                io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound
            ) =>
        {
            Err(Error::io("create", lock, error))
        }
        _ => Ok(()),
    }
}

/// Returns the permission bits of group and others, for each of them that may write.
fn writers(mode: u32) -> u32 {
    let of = |write: u32, both: u32| if mode & write != 0 { both } else { 0 };
    of(0o020, 0o060) | of(0o002, 0o006)
}

fn document_of(lock: &Path) -> &OsStr {
    let name = lock.file_name().unwrap_or_default();
    document_of_lock(name).unwrap_or(name)
}
