//! Releases the lock: removes our own directory, and no other.

use tenure_core::Result;

use crate::node_lock::directory;
use crate::node_lock::hold::Hold;
use crate::node_lock::take_over::{RemovalResult, remove_if};

/// Ends the hold and removes its directory. Fails if the lock was lost before.
pub(super) fn release(hold: &Hold) -> Result<()> {
    let held = hold.end();
    if matches!(held, Ok(false)) {
        return Ok(());
    }
    // A lock that only became too old is still in place: its removal saves others the wait for it.
    let removed = remove(hold);
    held.and(removed)
}

fn remove(hold: &Hold) -> Result<()> {
    let names = hold.names();
    let lost = |reason| Err(names.lost(reason));
    match directory::look(names.lock())? {
        None => return lost("its directory is gone"),
        Some(seen) if !hold.is(seen) => return lost("another program took it over"),
        Some(_) => {}
    }
    match remove_if(names, |moved| hold.is(moved))? {
        RemovalResult::ByUs => Ok(()),
        RemovalResult::ByAnother => lost("its directory is gone"),
        RemovalResult::Not => lost("another program took it over"),
    }
}
