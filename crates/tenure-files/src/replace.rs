//! The one atomic replace: a file is the old one or the new one, never between.
//!
//! 1. Write a temporary file next to the target, under a name nobody can guess.
//! 2. Sync it. A crash before this leaves the target untouched and a temporary file behind.
//! 3. Rename it over the target. From here on, everyone sees the new one.
//! 4. Sync the directory. Before this the rename may be undone by a power loss.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use tenure_core::{Error, Result};

/// Puts `content` in the place of `target`, durably. Mode 0600.
pub(crate) fn replace(target: &Path, content: &[u8]) -> Result<()> {
    let (directory, temporary) = temporary_for(target)?;
    let written = write_synced(&temporary, content).and_then(|()| {
        fs::rename(&temporary, target).map_err(|source| Error::io("replace", target, source))
    });
    if let Err(error) = written {
        // What could not be put in place is of no use; the first error is the one to tell.
        let _ = fs::remove_file(&temporary);
        return Err(error);
    }
    sync_directory(&directory)
}

fn temporary_for(target: &Path) -> Result<(PathBuf, PathBuf)> {
    let (Some(directory), Some(name)) = (target.parent(), target.file_name()) else {
        return Err(Error::BadInput(format!(
            "{} is not a file",
            target.display()
        )));
    };
    let mut random = [0; 8];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())
        .map_err(|source| Error::io("get random numbers for", target, source))?;
    let mut temporary = std::ffi::OsString::from(".");
    temporary.push(name);
    temporary.push(format!(".{:016x}.tmp", u64::from_ne_bytes(random)));
    Ok((directory.to_owned(), directory.join(temporary)))
}

fn write_synced(path: &Path, content: &[u8]) -> Result<()> {
    let fail = |action| move |source| Error::io(action, path, source);
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let mut file = options.open(path).map_err(fail("create"))?;
    file.write_all(content).map_err(fail("write"))?;
    file.sync_all().map_err(fail("sync"))
}

fn sync_directory(directory: &Path) -> Result<()> {
    let synced = File::open(directory).and_then(|directory| directory.sync_all());
    synced.map_err(|source| Error::io("sync", directory, source))
}
