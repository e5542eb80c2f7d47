//! Finishing the changes that killed processes and power losses left unfinished.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use tenure_core::{Error, Mode, Result};

use super::Board;
use super::images::Torn;
use super::lock::{BoardLocks, is_forbidden};
use super::names::Part;
use super::pending::Pending;

impl Board {
    /// Returns the changes that are not said to be finished, oldest first.
    pub(super) fn unfinished(&self) -> Result<Vec<Pending>> {
        let names = self.pending_names()?;
        self.read_all_pending(names.changes.difference(&names.finished))
    }

    /// Finishes the changes of dead processes: those whose locks are held here, or free. Those of live ones are left to them. Returns
    /// those whose line is still missing, as someone else has the log.
    pub(super) fn settle(&self, held: &BoardLocks) -> Result<Vec<Pending>> {
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
            return Ok(changes);
        }
        // Its author may have been killed before this, and what follows must not outlive it.
        let directory = self.names.all_pending();
        let synced = self.disk.sync_directory(&directory);
        synced.map_err(|source| Error::io("sync", directory, source))?;
        self.apply_changes(&changes.iter().collect::<Vec<_>>(), is_ours, Torn::No)?;
        changes.retain(|change| change.parts().iter().all(is_ours));
        if changes.is_empty() {
            return Ok(changes);
        }
        // The log is nobody's to wait for: the files are right without the line.
        let Some(_log) = self.try_lock(&Part::Events)? else {
            return Ok(changes);
        };
        self.add_lines(&changes.iter().collect::<Vec<_>>())?;
        Ok(Vec::new())
    }

    /// Recovers from a loss of power, if there was one since the changes were made that are pending.
    pub(super) fn recover(&self, deadline: Instant) -> Result<()> {
        let of_another_boot = || {
            let mut changes = self.read_all_pending(&self.pending_names()?.changes)?;
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
            let borrowed: Vec<&Pending> = changes.iter().collect();
            self.apply_changes(&borrowed, |_| true, Torn::Perhaps)?;
            self.mend_log(&borrowed, deadline)?;
            self.sync_and_remove(&changes)?;
        }
        self.is_recovered.store(true, Relaxed);
        Ok(())
    }
}

/// Returns the parts that changes are about, in their order.
fn parts(changes: &[Pending]) -> BTreeSet<Part> {
    changes.iter().flat_map(Pending::parts).collect()
}
