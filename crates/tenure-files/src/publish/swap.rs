//! The swap, in which tmp becomes the target in one step, and the state that a crash in it left.

use tenure_core::{Error, Result};

use super::target::is_named;
use super::{Inode, PublishTarget};

/// The state that a crash left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrashOutcome {
    /// TARGET is as it was, or as another program changed it.
    Aborted,
    /// TARGET is the new directory.
    Finished,
    /// TARGET is the new directory, and tmp has something else than the directory that was to be
    /// replaced.
    ExchangeBack,
}

impl PublishTarget {
    /// Makes steps 6 and 7. The caller holds the lock, and the store has said since that lease and
    /// token are good. `mode` is the mode of the new directory.
    ///
    /// # Errors
    ///
    /// `Conflict` if the target is another than when it was looked at; then it is left, or put
    /// back, as it was.
    pub fn swap(&self, old: Option<&Inode>, new: &Inode, mode: u32) -> Result<()> {
        if self.inode_of_target()?.as_ref() != old || self.inode_of_tmp()?.as_ref() != Some(new) {
            return Err(self.meddled());
        }
        let moved = match old {
            None => self.disk.rename_without_replacing(&self.tmp, &self.target),
            Some(_) => self.disk.exchange(&self.tmp, &self.target),
        };
        moved.map_err(self.failed("put in place"))?;
        // A program that takes no lock may have put something else at the target just before.
        if self.inode_of_tmp()?.as_ref() != old {
            self.exchange_back()?;
            return Err(self.meddled());
        }
        self.finish(Some(mode))
    }

    fn meddled(&self) -> Error {
        Error::conflict(
            format!(
                "{} was changed meanwhile by a program that takes no lock",
                self.target.display()
            ),
            "find out which; what it made is there, and nothing was published",
        )
    }

    fn sync_parent(&self) -> Result<()> {
        let synced = self.disk.sync_directory(self.parent());
        synced.map_err(self.failed("sync the directory of"))
    }

    /// Tells the state that a crash left, by the inodes in the manifest. The caller holds the lock.
    pub fn judge(
        &self,
        old: Option<&Inode>,
        new: Option<&Inode>,
        same_boot: bool,
    ) -> Result<CrashOutcome> {
        let is = |found: &Inode, named: Option<&Inode>| {
            named.is_some_and(|named| is_named(found, named, same_boot))
        };
        let target = self.inode(&self.target)?;
        if !target.is_some_and(|target| is(&target, new)) {
            return Ok(CrashOutcome::Aborted);
        }
        Ok(match self.inode_of_tmp()? {
            None => CrashOutcome::Finished,
            Some(tmp) if is(&tmp, old) => CrashOutcome::Finished,
            Some(_) => CrashOutcome::ExchangeBack,
        })
    }

    /// Makes step 7: gives the target its mode, and makes it durable. Recovery calls it after
    /// [`CrashOutcome::Finished`], as the crash may have come before step 7.
    pub fn finish(&self, mode: Option<u32>) -> Result<()> {
        if let Some(mode) = mode {
            let set = self.disk.set_mode(&self.target, mode);
            set.and_then(|()| self.disk.sync_directory(&self.target))
                .map_err(self.failed("set the mode of"))?;
        }
        self.sync_parent()
    }

    /// Undoes an exchange. The caller holds the lock.
    pub fn exchange_back(&self) -> Result<()> {
        let back = self.disk.exchange(&self.tmp, &self.target);
        back.map_err(self.failed("exchange back"))?;
        self.sync_parent()
    }
}
