//! Moving a lock out of its place, and making sure that it was the right one.
//!
//! A directory cannot be removed by its inode, only by a path, which may mean another one by
//! then. Moved to a name that nobody else knows it can be looked at in peace.

use std::path::Path;

use tenure_core::{Error, Result};

use crate::node_lock::directory::{self, LockDirectory, Moved};
use crate::node_lock::names::Names;

/// The way in which the place of a lock became free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RemovalResult {
    /// The lock that was meant was removed.
    ByUs,
    /// Nothing was there any more.
    ByAnother,
    /// Another lock is there, and stays.
    Not,
}

/// Removes the stale lock that was seen, and no other.
pub(super) fn take_over(names: &Names, stale: LockDirectory) -> Result<RemovalResult> {
    remove_if(names, |moved| moved == stale)
}

/// Removes the lock at its place if it is the one that is meant.
pub(super) fn remove_if(
    names: &Names,
    is_meant: impl Fn(LockDirectory) -> bool,
) -> Result<RemovalResult> {
    let aside = names.displaced();
    match directory::rename(names.lock(), &aside)? {
        Moved::Done => {}
        Moved::Gone => return Ok(RemovalResult::ByAnother),
        // The name is a random one, so this is a matter of trying again.
        Moved::Taken => return Ok(RemovalResult::Not),
    }
    match directory::look(&aside) {
        // Somebody cleaned up what looked left over.
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
    // Nothing of what others keep is removed, and it is left where they look for it.
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

/// Puts back a lock that was moved by mistake. If a third program has made one in between, the
/// place is its own; the moved one is removed, and its holder finds out when it looks next.
fn put_back(names: &Names, aside: &Path) -> Result<()> {
    if directory::rename(aside, names.lock())? == Moved::Taken {
        directory::remove(aside)?;
    }
    Ok(())
}
