//! The observer of a call: it is told what the call waits for, and what people should know.

use std::time::Duration;

use crate::waiting::BlockedRequest;

/// Follows a call. A surface draws, streams or ignores what it is told.
pub trait Observer: Send + Sync {
    /// Tells a sentence that people should know.
    fn word(&self, text: &str);

    /// Begins a wait. The observer of the wait is dropped when it is over.
    fn begin_wait(&self) -> Option<Box<dyn WaitObserver>>;

    /// Begins the copy of a directory. The observer of the copy is dropped when it is over. With
    /// `None` the copy is not observed.
    fn begin_copy(&self) -> Option<Box<dyn CopyObserver>> {
        None
    }
}

/// Follows one wait.
pub trait WaitObserver: Send {
    /// Returns the time of the `told`-th report (from 0), counted from the beginning of the wait.
    fn when(&self, told: u32) -> Duration;

    /// Reports that the wait goes on: for how long it has, of how long it may.
    fn show(&mut self, blocked: Option<&BlockedRequest>, waited: Duration, limit: Duration);
}

/// Follows one copy.
pub trait CopyObserver: Send {
    /// Returns the time of the `told`-th report (from 0), counted from the beginning of the copy.
    fn when(&self, told: u32) -> Duration;

    /// Reports how many files and bytes are copied by now.
    fn show(&mut self, files: u64, bytes: u64);
}

/// An observer that ignores all that it is told.
#[derive(Debug, Clone, Copy)]
pub struct Silent;

impl Observer for Silent {
    fn word(&self, _: &str) {}

    fn begin_wait(&self) -> Option<Box<dyn WaitObserver>> {
        None
    }
}
