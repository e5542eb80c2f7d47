//! Errors of files, with the action that failed and the path.

use std::io;
use std::path::PathBuf;

use crate::{Error, Result};

/// Adds the action that failed, and the path, to the error of a call on a file.
pub trait OrCannot<T> {
    /// Returns the value, or the error "cannot ACTION PATH".
    ///
    /// # Errors
    ///
    /// `Io` with the error of the call.
    fn or_cannot(self, action: &'static str, path: impl Into<PathBuf>) -> Result<T>;
}

impl<T, E: Into<io::Error>> OrCannot<T> for Result<T, E> {
    fn or_cannot(self, action: &'static str, path: impl Into<PathBuf>) -> Result<T> {
        self.map_err(|source| Error::io(action, path, source))
    }
}
