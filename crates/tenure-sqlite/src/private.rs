//! Refuses a store that others may write: a user who can write it can take any lock in it, and a
//! user who made it beforehand may have put anything in it.
//!
//! The directory is looked at first. If no other user may write it, a file in it that is found to
//! be ours cannot become another user's later. A file of root's is as good as ours: root can do
//! anything anyway. The other way round, root does not use the file of another user.

use std::path::Path;

use rustix::fs::FileType;
use tenure_core::internal::OrCannot;
use tenure_core::{Error, Remedy, Result};

use crate::connection::beside;
use crate::platform;

/// The permission bits with which others may change a file or directory.
const WRITABLE: u32 = 0o022;
/// The bit of a directory in which others make files, and remove only their own.
const STICKY: u32 = 0o1000;

/// Refuses a directory of a database that others may write.
pub(crate) fn check_directory(database: &Path) -> Result<()> {
    let user = platform::user();
    database
        .parent()
        .map_or(Ok(()), |directory| check(directory, user))
}

/// Refuses a database if others may write it, or anything beside it that is there.
pub(crate) fn check_files(database: &Path) -> Result<()> {
    let user = platform::user();
    for end in ["", "-wal", "-shm", "-anchor"] {
        check(&beside(database, end), user)?;
    }
    check(&database.with_file_name("sessions"), user)?;
    check(&database.with_file_name("wake"), user)
}

fn check(path: &Path, user: u32) -> Result<()> {
    let found = platform::status_at(path).or_cannot("look at", path)?;
    // Links are refused where they are opened.
    let Some(found) = found.filter(|found| found.kind != FileType::Symlink) else {
        return Ok(());
    };
    let shown = path.display();
    let (owner, mode) = (found.owner, found.mode);
    if owner != user && owner != 0 {
        return Err(Error::configuration(
            format!("{shown} belongs to another user (uid {owner}), who could take any lock in it"),
            "use it as that user, or choose a directory of your own with {.store}",
        ));
    }
    if mode & WRITABLE == 0 {
        return Ok(());
    }
    let closed = match mode & STICKY {
        0 => format!("chmod go-w {shown}, or "),
        _ => String::new(),
    };
    Err(Error::configuration(
        format!(
            "{shown} may be written by others (mode {mode:04o}), who could take any lock in it"
        ),
        Remedy::of("{}choose a directory of your own with {.store}", &[&closed]),
    ))
}
