//! Finishing the changes that killed processes and power losses left unfinished.

use std::collections::{BTreeSet, HashSet};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use tenure_core::poison::lock;
use tenure_core::{Error, Mode, Result};

use super::Board;
use super::images::Torn;
use super::lock::{BoardLocks, is_forbidden};
use super::names::Part;
use super::pending::Pending;

impl Board {
    /// Returns the changes that are not known to be finished, oldest first, and learns which are.
    pub(super) fn unfinished(&self) -> Result<Vec<Pending>> {
        let uuids: HashSet<String> = self.pending_uuids()?.into_iter().collect();
        self.pending_seen.store(uuids.len(), Relaxed);
        let unknown: Vec<String> = {
            let mut finished = lock(&self.finished);
            finished.retain(|uuid, _| uuids.contains(uuid));
            let unknown = uuids
                .into_iter()
                .filter(|uuid| !finished.contains_key(uuid));
            unknown.collect()
        };
        let mut changes = Vec::with_capacity(unknown.len());
        for uuid in unknown {
            changes.extend(self.read_pending(&uuid)?);
        }
        let Some(oldest) = changes.iter().map(|change| change.log_length).min() else {
            return Ok(changes);
        };
        let tail = self.tail(oldest)?;
        let mut finished = lock(&self.finished);
        changes.retain(|change| {
            // After a power loss a line says nothing about the files.
            let is_finished = change.boot_id == self.boot_id && tail.has(&change.uuid);
            if is_finished {
                let files = change.parts();
                let files = files.iter().map(|part| self.names.file(part)).collect();
                finished.insert(change.uuid.clone(), files);
            }
            !is_finished
        });
        changes.sort_by_key(|change| {
            let version = change.issue.as_ref().map_or(0, |issue| issue.version);
            (change.log_length, version)
        });
        Ok(changes)
    }

    /// Finishes the changes of dead processes: those whose locks are held here, or free. Those of live ones are left to them.
    pub(super) fn settle(&self, held: &BoardLocks) -> Result<()> {
        let mut changes = self.unfinished()?;
        let mut taken = Vec::new();
        for part in parts(&changes)
            .into_iter()
            .filter(|part| !held.has_alone(part))
        {
            // Without waiting, as what is held here may come later in the order.
            taken.extend(self.try_lock(&part)?);
        }
        let is_ours = |part: &Part| {
            let held = [held].into_iter().chain(&taken);
            held.into_iter().any(|held| held.has_alone(part))
        };
        if !taken.is_empty() {
            // Its author may have finished it since, and others may have gone on from there.
            changes = self.unfinished()?;
        }
        changes
            .retain(|change| change.boot_id == self.boot_id && change.parts().iter().any(is_ours));
        if changes.is_empty() {
            return Ok(());
        }
        // Its author may have been killed before this, and what follows must not outlive it.
        let directory = self.names.all_pending();
        let synced = self.disk.sync_directory(&directory);
        synced.map_err(|source| Error::io("sync", directory, source))?;
        self.apply_changes(&changes.iter().collect::<Vec<_>>(), is_ours, Torn::No)?;
        changes.retain(|change| change.parts().iter().all(is_ours));
        self.add_lines(&changes.iter().collect::<Vec<_>>(), self.deadline())
    }

    /// Recovers from a loss of power, if there was one since the changes were made that are pending.
    pub(super) fn recover(&self, deadline: Instant) -> Result<()> {
        let of_another_boot = || {
            let mut changes = self.unfinished()?;
            changes.retain(|change| change.boot_id != self.boot_id);
            Ok::<_, Error>(changes)
        };
        if self.is_recovered.load(Relaxed) {
            return Ok(());
        }
        let changes = of_another_boot()?;
        if !changes.is_empty() {
            // The index keeps all out who would recover, too.
            let all = parts(&changes).into_iter().chain([Part::Index]);
            let all: Vec<_> = all.map(|part| (part, Mode::Write)).collect();
            let _held = match self.lock_all(&all, deadline) {
                // A process that may only read sees what is there.
                Err(error) if is_forbidden(&error) => return Ok(()),
                held => held?,
            };
            let changes = of_another_boot()?;
            let changes: Vec<&Pending> = changes.iter().collect();
            self.apply_changes(&changes, |_| true, Torn::Perhaps)?;
            self.mend_log(&changes, deadline)?;
            let files = |change: &&Pending| {
                let files = change.parts();
                let files = files.iter().map(|part| self.names.file(part)).collect();
                (change.uuid.clone(), files)
            };
            self.sync_and_remove(changes.iter().map(files).collect())?;
        }
        self.is_recovered.store(true, Relaxed);
        Ok(())
    }
}

/// Returns the parts that changes are about, in their order.
fn parts(changes: &[Pending]) -> BTreeSet<Part> {
    changes.iter().flat_map(Pending::parts).collect()
}
