//! Documents shared with programs of Node: their lock, taken inside ours.

use std::path::Path;
use std::time::Instant;

use tenure_core::{Error, Result};

use super::Documents;
use super::path::Location;
use crate::node_lock::{self, NodeLock};

impl Documents {
    /// Takes the locks of Node for a write to a shared document. Fails if a program of Node has
    /// locked a document that is not shared: our write would come between that program's read and
    /// write.
    pub(super) fn node_locks_to_write(
        &self,
        given: &[&Path],
        sorted: &[&Location],
        deadline: Instant,
    ) -> Result<Vec<NodeLock>> {
        match (sorted, self.shared_with_node) {
            ([location], true) => self.take_node_locks(given[0], location, deadline),
            ([location, ..], true) => Err(cannot_join(location)),
            _ => {
                let places = sorted.iter().map(|location| location.path());
                let is_link = |given: &&Path| {
                    let is_it = |location: &&Location| location.path() == *given;
                    !sorted.iter().any(is_it) && given.is_symlink()
                };
                let links = given.iter().copied().filter(is_link);
                places.chain(links).try_for_each(refuse_node_lock)?;
                Ok(Vec::new())
            }
        }
    }

    /// Takes the locks that a program of Node may take for a document: the lock of the real file,
    /// and, for a link, the lock of the given name. Some programs resolve links before they lock,
    /// some do not.
    pub(super) fn take_node_locks(
        &self,
        given: &Path,
        location: &Location,
        deadline: Instant,
    ) -> Result<Vec<NodeLock>> {
        let take = |document| {
            let cancel = self.locker.cancel();
            let taken = NodeLock::acquire(document, deadline, cancel, self.on_lost.clone());
            // The limit in a timeout includes the wait for our own lock.
            taken.map_err(|mut error| {
                if let Error::Timeout { limit, .. } = &mut error {
                    *limit = self.locker.timeout();
                }
                error
            })
        };
        let mut locks = vec![take(location.path())?];
        if given.is_symlink() {
            let absolute = std::path::absolute(given);
            let given = absolute.map_err(|source| Error::io("find", given, source))?;
            locks.push(take(&given)?);
        }
        Ok(locks)
    }
}

/// Returns the error for a document shared with Node in a transaction over several.
fn cannot_join(location: &Location) -> Error {
    Error::conflict(
        format!(
            "{} is shared with programs of Node, which know nothing of transactions over several \
             documents, so it cannot be part of one",
            location.path().display()
        ),
        "change it alone, with {.compat} proper-lockfile",
    )
}

fn refuse_node_lock(document: &Path) -> Result<()> {
    if !node_lock::is_fresh(document)? {
        return Ok(());
    }
    let document = document.display();
    Err(Error::conflict(
        format!(
            "{document} is locked by a program that speaks proper-lockfile: {document}.lock is there"
        ),
        "share it with that program: add {.compat} proper-lockfile",
    ))
}
