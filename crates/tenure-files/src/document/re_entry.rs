//! The refusal of work that asks for the document it is changing: its thread would wait for itself.

use std::cell::RefCell;
use std::path::PathBuf;

use tenure_core::{Error, Result};

use super::path::Location;

thread_local! {
    /// The documents this thread is changing at the moment.
    static BUSY: RefCell<Vec<PathBuf>> = const { RefCell::new(Vec::new()) };
}

/// Marks documents as being changed by this thread, until it is dropped.
pub(super) struct Busy(usize);

impl Busy {
    pub(super) fn with(locations: &[&Location]) -> Self {
        BUSY.with_borrow_mut(|busy| {
            let before = busy.len();
            busy.extend(locations.iter().map(|location| location.lock()));
            Self(before)
        })
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        BUSY.with_borrow_mut(|busy| busy.truncate(self.0));
    }
}

/// Fails if the work of this very thread asks for a document that it is changing.
pub(super) fn refuse_re_entry<'a>(locations: impl Iterator<Item = &'a Location>) -> Result<()> {
    BUSY.with_borrow(|busy| {
        if busy.is_empty() {
            return Ok(());
        }
        for location in locations {
            if busy.contains(&location.lock()) {
                return Err(Error::conflict(
                    format!(
                        "{} is being changed by the work that asks for it",
                        location.path().display()
                    ),
                    "use what the work was given",
                ));
            }
        }
        Ok(())
    })
}
