//! Moves a lock out of its place, and makes sure that it was the right one.
//!
//! A directory cannot be removed by its inode, only by a path, which may mean another directory by
//! then. So it is first moved to a name that no other process knows, where it can be looked at
//! undisturbed.

use std::path::Path;

use tenure_core::{Error, Result};

use crate::node_lock::directory::{self, LockDirectory, Moved};
use crate::node_lock::names::Names;

/// The way in which the place of a lock became free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RemovalResult {
    /// The intended lock was removed by this process.
    ByUs,
    /// Nothing was there any more, as another process removed it.
    ByAnother,
    /// Another lock is there, and stays.
    Not,
}

/// Removes the stale lock that was seen, and no other.
pub(super) fn take_over(names: &Names, stale: LockDirectory) -> Result<RemovalResult> {
    remove_if(names, |moved| moved == stale)
}

/// Removes the lock at its place if `is_meant` says so.
pub(super) fn remove_if(
    names: &Names,
    is_meant: impl Fn(LockDirectory) -> bool,
) -> Result<RemovalResult> {
    let aside = names.displaced();
    match directory::rename(names.lock(), &aside)? {
        Moved::Done => {}
        Moved::Gone => return Ok(RemovalResult::ByAnother),
        // The name is random, so another try will find a free one.
        Moved::Taken => return Ok(RemovalResult::Not),
    }
    match directory::look(&aside) {
        // Another process removed it as a leftover.
        Ok(None) => Ok(RemovalResult::ByUs),
        Ok(Some(moved)) if is_meant(moved) => remove_moved(names, &aside),
        Ok(Some(_)) => {
            put_back(names, &aside)?;
            Ok(RemovalResult::Not)
        }
        Err(error) => {
            put_back(names, &aside)?;
            Err(error)
        }
    }
}

fn remove_moved(names: &Names, aside: &Path) -> Result<RemovalResult> {
    if directory::remove(aside)? {
        return Ok(RemovalResult::ByUs);
    }
    // Nothing that others keep is removed, and it goes back where they look for it.
    let path = match directory::rename(aside, names.lock())? {
        Moved::Done => names.lock(),
        Moved::Taken | Moved::Gone => aside,
    };
    Err(Error::corrupt(
        path.to_owned(),
        "it is a lock that is over, but cannot be removed since there are files in it; \
                  look at them, then remove it",
    ))
}

/// Puts back a lock that was moved by mistake. If a third program has made a lock in between, the
/// place belongs to that; the moved lock is removed, and its holder finds out at its next look.
fn put_back(names: &Names, aside: &Path) -> Result<()> {
    if directory::rename(aside, names.lock())? == Moved::Taken {
        directory::remove(aside)?;
    }
    Ok(())
}
