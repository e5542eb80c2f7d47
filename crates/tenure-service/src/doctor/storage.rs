//! The storage of a store: its directory, and the file system it is on.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{Access, AtFlags, CWD};
use tenure::Error;
use tenure::store::Examined;
use tenure_core::store::Found;
use tenure_os::filesystem;

use super::remedy;
use crate::Service;

/// Checks that this user may write to the directory, and that others cannot remove it.
pub fn directory(service: &Service, directory: &Path) -> Examined {
    let name = "directory";
    let metadata = match fs::metadata(directory) {
        Ok(metadata) => metadata,
        Err(error) => return service.failed(name, &Error::io("look at", directory, error)),
    };
    let (uid, mode) = (metadata.uid(), metadata.mode() & 0o7777);
    let detail = format!("{}, owner uid {uid}, mode {mode:04o}", directory.display());
    let access = Access::WRITE_OK | Access::EXEC_OK;
    let locks = directory.join("locks");
    let writable = if locks.is_dir() { &locks } else { directory };
    let flags = AtFlags::EACCESS;
    if let Err(error) = rustix::fs::accessat(CWD, writable, access, flags) {
        let error = Error::io("write to", writable, error);
        return Found::bad(
            format!("{detail}: {error}"),
            remedy(&error, Some(service.environment())),
        )
        .of(name);
    }
    if mode & 0o002 != 0 && mode & 0o1000 == 0 {
        let remedy = format!("chmod o-w {}", directory.display());
        return Found::bad(format!("{detail}: every user can remove its locks"), remedy).of(name);
    }
    Found::good(detail).of(name)
}

/// Checks that the kernel's locks are known to hold there.
pub fn file_system(service: &Service, directory: &Path, trust: bool) -> Examined {
    let name = "file system";
    // A store that does not exist yet would be on the file system of the nearest directory above
    // it.
    let existing = directory.ancestors().find(|path| path.exists());
    match filesystem::of(existing.unwrap_or(directory)) {
        Err(error) => service.failed(name, &error),
        Ok(found) if found.trusted => {
            Found::good(format!("{}, flock is trusted", found.name)).of(name)
        }
        Ok(found) if trust => {
            let detail = format!(
                "{}, flock is trusted because the settings say so",
                found.name
            );
            Found::good(detail).of(name)
        }
        Ok(found) => Found::bad(
            format!("{}, where flock is not known to hold", found.name),
            "choose a local directory with {.store}, or set {$trust_flock}=1 if you know better",
        )
        .of(name),
    }
}
