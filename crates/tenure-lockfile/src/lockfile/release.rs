//! Releases a lock.

use tenure_core::Result;
use tenure_os::platform;

use super::LockFile;
use super::layout::EVERYTHING;

impl LockFile {
    /// Releases everything this open file holds, for every process that has it open.
    ///
    /// The bytes go first, then M: the next holder of M finds no proof of the last one, and a proof
    /// that is seen belongs to a process that still has M.
    pub(crate) fn release(&self) -> Result<()> {
        let unlocked = self.unlock_bytes(EVERYTHING);
        let unflocked = platform::unflock(&self.file);
        unlocked.and(unflocked.map_err(|source| self.failed("unlock", source)))
    }

    /// Releases M, where no byte was locked.
    pub(crate) fn release_m(&self) -> Result<()> {
        platform::unflock(&self.file).map_err(|source| self.failed("unlock", source))
    }
}
