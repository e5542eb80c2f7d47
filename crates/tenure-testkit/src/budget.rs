//! The time that a test waits for something before it fails.
//!
//! Time is spent in slices, each counted once however long it took. A machine that stands still for
//! half a minute costs one slice, not the test.

use std::time::Duration;

/// The time a wait has spent.
#[derive(Default)]
pub(crate) struct Budget {
    slices: u32,
}

impl Budget {
    /// The time without the thing waited for after which a slice is spent.
    pub(crate) const SLICE: Duration = Duration::from_millis(100);
    /// The number of slices: 20 seconds on a machine that runs.
    const SLICES_MAX: u32 = 200;

    /// Spends a slice; panics when all are spent.
    pub(crate) fn spend(&mut self, problem: impl FnOnce() -> String) {
        self.slices += 1;
        assert!(self.slices <= Self::SLICES_MAX, "{}", problem());
    }
}
