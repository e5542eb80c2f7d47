//! Finishing the changes that killed processes and power losses left unfinished.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use tenure_core::{Error, Mode, Result};

use super::Board;
use super::images::Torn;
use super::lock::{BoardLocks, is_forbidden};
use super::names::Part;
use super::pending::{Pending, PendingNames};

impl Board {
    /// Returns the changes that are not marked as finished, oldest first.
    pub(super) fn unfinished(&self) -> Result<Vec<Pending>> {
        self.unfinished_of(&self.pending_names()?)
    }

    fn unfinished_of(&self, names: &PendingNames) -> Result<Vec<Pending>> {
        self.read_all_pending(names.changes.difference(&names.finished))
    }

    /// Finishes the changes of dead processes: those whose locks are held here, or free. Changes of
    /// live processes are left to them. Returns the changes whose line is still missing, because
    /// another process holds the log.
    ///
    /// A caller that changes one issue looks only at the changes of that issue: while a lock is
    /// tried here, its owner finds it taken. A caller that holds the index decides about
    /// dependencies by the files of others, and must see all that is committed.
    pub(super) fn settle(&self, held: &BoardLocks) -> Result<Vec<Pending>> {
        let names = self.pending_names()?;
        self.remove_left_records(&names.temporaries, held);
        let mut changes = self.unfinished_of(&names)?;
        if !held.is_empty() && !held.has_alone(&Part::Index) {
            changes.retain(|change| change.parts().iter().any(|part| held.has_alone(part)));
        }
        let mut taken = Vec::new();
        let tried = parts(&changes).into_iter();
        for part in tried.filter(|part| !held.has_alone(part)) {
            let about = |change: &&Pending| change.parts().contains(&part);
            if changes
                .iter()
                .filter(about)
                .all(|change| self.is_finished(change))
            {
                // The changes were finished meanwhile: their author lives, and may be at its next
                // one.
                continue;
            }
            // The lock is only tried, as those held here may come later in the order.
            taken.extend(self.try_lock(&part)?);
        }
        let is_ours = |part: &Part| {
            let held = [held].into_iter().chain(&taken);
            held.into_iter().any(|held| held.has_alone(part))
        };
        if !taken.is_empty() {
            // Their authors may have finished them since, and others may have gone on from there.
            changes = self.unfinished()?;
        }
        changes
            .retain(|change| change.boot_id == self.boot_id && change.parts().iter().any(is_ours));
        if changes.is_empty() {
            return Ok(changes);
        }
        // The author may have been killed before these syncs, and the steps that follow must not
        // outlive the record.
        for change in &changes {
            let record = self.names.pending(&change.uuid);
            let synced = self.disk.sync_file(&record);
            synced.map_err(|source| Error::io("sync", record, source))?;
        }
        let directory = self.names.all_pending();
        let synced = self.disk.sync_directory(&directory);
        synced.map_err(|source| Error::io("sync", directory, source))?;
        self.apply_changes(&changes.iter().collect::<Vec<_>>(), is_ours, Torn::No)?;
        changes.retain(|change| change.parts().iter().all(is_ours));
        if changes.is_empty() {
            return Ok(changes);
        }
        // The log is not waited for: the files are right without the line.
        let Some(log) = self.try_lock(&Part::Events)? else {
            return Ok(changes);
        };
        self.add_lines(&changes.iter().collect::<Vec<_>>())?;
        drop(log);
        changes.iter().for_each(|change| self.mark_finished(change));
        Ok(Vec::new())
    }

    /// Returns true if a change was finished since it was read.
    fn is_finished(&self, change: &Pending) -> bool {
        let is_there = |path: &std::path::Path| self.disk.exists(path).unwrap_or(true);
        is_there(&self.names.finished(&change.uuid)) || !is_there(&self.names.pending(&change.uuid))
    }

    /// Recovers from a loss of power, if there was one since the pending changes were made.
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
            // The index keeps out every other process that would recover.
            let all = parts(&changes).into_iter().chain([Part::Index]);
            let all: Vec<_> = all.map(|part| (part, Mode::Write)).collect();
            let _held = match self.lock_all(&all, deadline) {
                // A process that may only read sees the files as they are.
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use super::*;
    use crate::NewIssue;

    #[test]
    fn who_changes_one_issue_leaves_the_others_to_those_who_need_them() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("board");
        Board::init(&root).unwrap();
        let board = Board::open(&root, Duration::from_millis(100)).unwrap();
        let create = |title| board.create(NewIssue::titled(title)).unwrap().id;
        let (one, other) = (create("one"), create("other"));
        // A process was killed after its commit: neither the file nor the log has its change.
        let file = board.names.issue(&other);
        let before = fs::read(&file).unwrap();
        let log = board.try_lock(&Part::Events).unwrap().expect("it is free");
        board.depend(&other, &one).unwrap();
        fs::write(&file, before).unwrap();
        drop(log);
        board.note(&one, "x").unwrap();
        assert_eq!(board.unfinished().unwrap().len(), 1);
        // A caller that decides about dependencies sees the change.
        let circle = board.depend(&one, &other).unwrap_err();
        assert_eq!(circle.class(), tenure_core::Class::Conflict, "{circle}");
        assert_eq!(board.unfinished().unwrap(), []);
        assert_eq!(board.issue(&other).unwrap().depends_on, [one]);
    }
}
