//! The swap: tmp becomes the target in one step, and what a crash in it left.

use tenure_core::{Error, Result};

use super::target::is_named;
use super::{Inode, PublishTarget};

/// What a crash left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrashOutcome {
    /// TARGET is what it was, or what somebody else made of it.
    Aborted,
    /// TARGET is the new directory.
    Finished,
    /// TARGET is the new directory, and what it was exchanged with is not what was published over.
    ExchangeBack,
}

impl PublishTarget {
    /// Steps 6 and 7. To be called under the lock, after the store said that lease and token are
    /// good. `mode` is what the new directory is to have.
    ///
    /// # Errors
    ///
    /// `Conflict` if the target is not what it was when it was looked at; then it is left, or
    /// put back, as it was.
    pub fn swap(&self, old: Option<&Inode>, new: &Inode, mode: u32) -> Result<()> {
        if self.inode_of_target()?.as_ref() != old || self.inode_of_tmp()?.as_ref() != Some(new) {
            return Err(self.meddled());
        }
        let moved = match old {
            None => self.disk.rename_without_replacing(&self.tmp, &self.target),
            Some(_) => self.disk.exchange(&self.tmp, &self.target),
        };
        moved.map_err(self.failed("put in place"))?;
        // A program that takes no lock may have put something else there just before.
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

    /// Tells what a crash left, by the inodes in the manifest. To be called under the lock.
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

    /// Step 7: gives the target the mode it is to have, and makes it durable. Recovery does it for
    /// what [`CrashOutcome::Finished`] says: the crash may have come before.
    pub fn finish(&self, mode: Option<u32>) -> Result<()> {
        if let Some(mode) = mode {
            let set = self.disk.set_mode(&self.target, mode);
            set.and_then(|()| self.disk.sync_directory(&self.target))
                .map_err(self.failed("set the mode of"))?;
        }
        self.sync_parent()
    }

    /// Undoes an exchange. To be called under the lock.
    pub fn exchange_back(&self) -> Result<()> {
        let back = self.disk.exchange(&self.tmp, &self.target);
        back.map_err(self.failed("exchange back"))?;
        self.sync_parent()
    }
}
