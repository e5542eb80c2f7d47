//! Mending a ledger, under its lock. What is taken out is kept.

use tenure_core::{Error, Result};

use super::lock::{self, STALE};
use super::names::aside;
use super::verify::{Cure, Finding, Verified};
use super::{Ledger, names::Form};

/// Permission to remove a lock of another program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemoveForeignLock {
    /// It stays, and a ledger that it locks is not repaired.
    No,
    /// A person is sure that its maker is gone. It is removed if it is older than 30 s.
    IfStale,
}

impl Ledger {
    /// Looks at every file, and repairs what can be repaired. Findings say what was done.
    pub fn repair(&self, foreign_lock: RemoveForeignLock) -> Result<Verified> {
        let mut done = Vec::new();
        if foreign_lock == RemoveForeignLock::IfStale {
            done.extend(self.take_out_foreign_lock()?);
        }
        if self.names.form == Form::Seed && self.verify()?.findings.iter().any(Finding::is_curable)
        {
            let held = self.lock(lock::deadline(self))?;
            let mut found = self.verify()?;
            for finding in found
                .findings
                .iter_mut()
                .filter(|finding| finding.is_curable())
            {
                held.check()?;
                self.cure(finding)?;
            }
            let ledger = self.names.ledger();
            let synced = self.disk.sync_directory(ledger);
            synced.map_err(|source| Error::io("sync", ledger, source))?;
            done.extend(
                found
                    .findings
                    .into_iter()
                    .filter(|finding| finding.repaired),
            );
        }
        let mut after = self.verify()?;
        let left = after.findings.into_iter();
        after.findings = done.into_iter().chain(left).collect();
        Ok(after)
    }

    fn take_out_foreign_lock(&self) -> Result<Option<Finding>> {
        let held = self.queue(lock::deadline(self))?;
        let Some(foreign) = self.foreign_lock()?.filter(|foreign| foreign.age > STALE) else {
            return Ok(None);
        };
        Ok(held.take_out(&foreign)?.map(|kept| Finding {
            file: "ledger.lock".into(),
            problem: foreign.holder,
            repair: format!("it was moved to {}", kept.display()),
            cure: Cure::TakeOut,
            repaired: true,
        }))
    }

    fn cure(&self, finding: &mut Finding) -> Result<()> {
        let path = self.names.ledger().join(&finding.file);
        let failed = |source| Error::io("repair", &path, source);
        if finding.cure == Cure::Remove {
            self.disk.remove(&path).map_err(failed)?;
            finding.repair = "it was removed".into();
        } else {
            let to = aside(&path);
            let moved = self.disk.rename_without_replacing(&path, &to);
            moved.map_err(failed)?;
            finding.repair = format!("it was moved to {}", to.display());
        }
        finding.repaired = true;
        Ok(())
    }
}

impl Finding {
    fn is_curable(&self) -> bool {
        matches!(self.cure, Cure::MoveAside | Cure::Remove)
    }
}
