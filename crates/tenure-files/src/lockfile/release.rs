//! The end of a lock.

use tenure_core::Result;

use super::LockFile;
use super::layout::EVERYTHING;
use crate::platform;

impl LockFile {
    /// Gives up everything this open file holds, for every process that has it open.
    ///
    /// M first: the next in line runs while the bytes are unlocked. Whoever meets those
    /// bytes in between is told "busy" by a release that has not returned.
    pub(crate) fn leave(&self) -> Result<()> {
        let unflocked = platform::unflock(&self.file);
        let unflocked = unflocked.map_err(|source| self.failed("unlock", source));
        unflocked.and(self.unlock_bytes(EVERYTHING))
    }
}
