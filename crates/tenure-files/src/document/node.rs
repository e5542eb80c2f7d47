//! Documents shared with programs of Node: their lock, taken inside ours.

use std::path::Path;
use std::time::Instant;

use tenure_core::{Error, Result};

use super::Documents;
use super::path::Location;
use crate::node_lock::{self, NodeLock};

impl Documents {
    /// The locks a program of Node may know a document by: that of the real file, and, for a link,
    /// that of the name it was called by. Some programs resolve links before they lock, some do not.
    pub(super) fn take_node_locks(
        &self,
        given: &Path,
        location: &Location,
        deadline: Instant,
    ) -> Result<Vec<NodeLock>> {
        let mut locks = Vec::with_capacity(2);
        locks.push(self.take_node_lock(location.path(), deadline)?);
        let given =
            std::path::absolute(given).map_err(|source| Error::io("find", given, source))?;
        if given.is_symlink() {
            locks.push(self.take_node_lock(&given, deadline)?);
        }
        Ok(locks)
    }

    fn take_node_lock(&self, document: &Path, deadline: Instant) -> Result<NodeLock> {
        NodeLock::acquire(document, deadline, self.on_lost.clone())
    }
}

/// Why a document shared with Node cannot be part of a transaction over several.
pub(super) fn cannot_join(location: &Location) -> Error {
    Error::Contradiction {
        problem: format!(
            "{} is shared with programs of Node, which know nothing of transactions over several \
             documents, so it cannot be part of one",
            location.path().display()
        ),
        remedy: "change it alone, with --compat proper-lockfile".into(),
    }
}

/// A write that does not take Node's lock must not come between a program that has.
pub(super) fn keep_out(location: &Location) -> Result<()> {
    if !node_lock::is_fresh(location.path())? {
        return Ok(());
    }
    let document = location.path().display();
    Err(Error::Contradiction {
        problem: format!(
            "{document} is locked by a program that speaks proper-lockfile: {document}.lock is there"
        ),
        remedy: "share it with that program: add --compat proper-lockfile".into(),
    })
}
