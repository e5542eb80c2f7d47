//! The end of a lock.

use tenure_core::Result;

use super::LockFile;
use super::layout::EVERYTHING;
use crate::platform;

impl LockFile {
    /// Gives up everything this open file holds, for every process that has it open.
    ///
    /// The bytes first, then M: whoever is granted M finds no proof of the last holder, and
    /// a proof that is seen belongs to someone who still has M.
    pub(crate) fn leave(&self) -> Result<()> {
        let unlocked = self.unlock_bytes(EVERYTHING);
        let unflocked = platform::unflock(&self.file);
        unlocked.and(unflocked.map_err(|source| self.failed("unlock", source)))
    }

    /// Gives up M, where nothing else was taken.
    pub(crate) fn leave_m(&self) -> Result<()> {
        platform::unflock(&self.file).map_err(|source| self.failed("unlock", source))
    }
}
